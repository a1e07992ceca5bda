/** An event to deliver. */
export interface SimulatedEvent {
  /** Decimal digits, unique per run. */
  readonly id: string;
  readonly text: string;
}

/** Format and signature of a provider's deliveries. */
export interface Script {
  readonly contentType: string;
  /** Size of the large delivery in bytes, and whether the endpoint accepts it. */
  readonly large: { readonly bytes: number; readonly isAccepted: boolean };
  /** Returns the event's ID as stored by the service. */
  readonly eventId: (event: SimulatedEvent) => string;
  readonly body: (event: SimulatedEvent) => string;
  /** Returns the headers that authenticate the delivery. @param url the URL configured at the provider */
  readonly sign: (body: Buffer, secret: string, url: string) => Readonly<Record<string, string>>;
}

/** Result of a step. */
export interface StepResult {
  readonly step: string;
  readonly sent: number;
  /** Number of deliveries by response status, or by the reason no response was received. */
  readonly answers: Readonly<Record<string, number>>;
  /** Median response time in milliseconds. */
  readonly p50_ms: number;
  readonly p99_ms: number;
}
