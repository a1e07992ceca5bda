// Simulate: deliveries as providers make them, sent over HTTP to an instance, so that a configuration can be tried.
// May import the rest of webhooks/.

/** One event of a delivery. */
export interface SimulatedEvent {
  /** Decimal digits, its own in this run. */
  readonly id: string;
  readonly text: string;
}

/** How a provider's deliveries look and are signed. */
export interface Script {
  readonly contentType: string;
  /** How large the large delivery is, in bytes, and whether the endpoint takes so much. */
  readonly large: { readonly bytes: number; readonly taken: boolean };
  /** What the service calls the event. */
  readonly eventId: (event: SimulatedEvent) => string;
  readonly body: (event: SimulatedEvent) => string;
  /** Headers that prove the delivery; `url` is the address as the provider knows it. */
  readonly sign: (body: Buffer, secret: string, url: string) => Readonly<Record<string, string>>;
}

/** What one step of a run was answered. */
export interface StepResult {
  readonly step: string;
  readonly sent: number;
  /** Number of answers by status, or by the reason why there was none. */
  readonly answers: Readonly<Record<string, number>>;
  /** Milliseconds that half, and 99 of 100, of the answers took at most. */
  readonly p50_ms: number;
  readonly p99_ms: number;
}
