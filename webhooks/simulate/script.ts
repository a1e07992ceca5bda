import type { Simulation } from '../channels/index.ts';

/** The deliveries of a provider or partner. */
export interface Script extends Simulation {
  /** Size of the large delivery in bytes, and whether the endpoint accepts it. */
  readonly large: { readonly bytes: number; readonly isAccepted: boolean };
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
