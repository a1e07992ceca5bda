import type { Demo } from '../../plugins/operations/demo/index.ts';
import type { FamilyValues, ProcessReport } from '../../plugins/operations/monitoring/index.ts';

/** Messages from the supervisor to a worker. */
export type SupervisorMessage =
  /** Starts background work. The first worker also creates the demo organization in an empty database. */
  | { readonly kind: 'lead'; readonly isFirst: boolean }
  /** Runs a background task. */
  | { readonly kind: 'task'; readonly name: string }
  /** Requests an immediate response to detect hung workers. */
  | { readonly kind: 'ping' }
  /** Requests a readiness report. */
  | { readonly kind: 'report'; readonly number: number }
  /** Requests metrics, including the metrics of the whole instance if `ofInstance` is set. */
  | { readonly kind: 'metrics'; readonly number: number; readonly ofInstance: boolean }
  /** Announces the stop. Each connection closes after its next response. */
  | { readonly kind: 'drain' }
  /** Stops the worker. `withinMs` limits the time for requests in flight, in milliseconds. */
  | { readonly kind: 'stop'; readonly withinMs: number };

/** Messages from a worker to the supervisor. */
export type WorkerMessage =
  | { readonly kind: 'listening'; readonly url: string; readonly example: string }
  /** The worker runs background work. `demo` is set if it created the demo organization. */
  | { readonly kind: 'leading'; readonly demo: Demo | undefined }
  /** The worker cannot serve and is exiting. */
  | { readonly kind: 'failed'; readonly message: string; readonly isUsers: boolean }
  | { readonly kind: 'task'; readonly name: string }
  | { readonly kind: 'pong' }
  | { readonly kind: 'report'; readonly number: number; readonly readiness: ProcessReport | undefined }
  | { readonly kind: 'metrics'; readonly number: number; readonly families: readonly FamilyValues[] };

/** A message of one kind from a worker. */
export type WorkerMessageOf<Kind extends WorkerMessage['kind']> = WorkerMessage & { readonly kind: Kind };
