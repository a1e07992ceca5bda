// Simulate: deliveries as providers make them, sent over HTTP to an instance, so that a configuration can be tried.
// May import the rest of webhooks/.

/** One event of a delivery. */
export interface SimulatedEvent {
  /** Decimal digits, unique in the run. */
  readonly id: string;
  readonly text: string;
}

/** How a provider's deliveries look and are signed. */
export interface Script {
  readonly contentType: string;
  /** The size of the large delivery in bytes, and whether the endpoint accepts it. */
  readonly large: { readonly bytes: number; readonly taken: boolean };
  /** The service's id of the event. */
  readonly eventId: (event: SimulatedEvent) => string;
  readonly body: (event: SimulatedEvent) => string;
  /** Headers that authenticate the delivery; `url` is the address as the provider knows it. */
  readonly sign: (body: Buffer, secret: string, url: string) => Readonly<Record<string, string>>;
}

/** The result of one step of a run. */
export interface StepResult {
  readonly step: string;
  readonly sent: number;
  /** Number of responses by status, or by the reason why there was none. */
  readonly answers: Readonly<Record<string, number>>;
  /** The 50th and 99th percentile of the response times, in milliseconds. */
  readonly p50_ms: number;
  readonly p99_ms: number;
}
