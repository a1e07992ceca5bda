import type { Demo } from '../../plugins/operations/demo/index.ts';
import type { FamilyValues, ProcessReport } from '../../plugins/operations/monitoring/index.ts';

/** What the process that supervises workers tells one of them. */
export type SupervisorMessage =
  /** Begin the work besides requests; the first worker of the instance also fills an empty database. */
  | { readonly kind: 'lead'; readonly isFirst: boolean }
  /** Do a piece of the work besides requests. */
  | { readonly kind: 'task'; readonly name: string }
  /** Respond immediately, to show that you do not hang. */
  | { readonly kind: 'ping' }
  /** Say how you are. */
  | { readonly kind: 'report'; readonly number: number }
  /** Say what operators watch, with what is about the instance or without. */
  | { readonly kind: 'metrics'; readonly number: number; readonly ofInstance: boolean }
  /** You will be stopped soon: connections close after their response. */
  | { readonly kind: 'leave' }
  /** Respond to what is in flight within this time, in milliseconds, and end. */
  | { readonly kind: 'stop'; readonly withinMs: number };

/** What a worker tells the process that supervises it. */
export type WorkerMessage =
  | { readonly kind: 'listening'; readonly url: string; readonly example: string }
  /** It leads, and what it has put into an empty database. */
  | { readonly kind: 'leading'; readonly demo: Demo | undefined }
  /** It cannot serve, and ends. */
  | { readonly kind: 'failed'; readonly message: string; readonly isUsers: boolean }
  | { readonly kind: 'task'; readonly name: string }
  | { readonly kind: 'pong' }
  | { readonly kind: 'report'; readonly number: number; readonly readiness: ProcessReport | undefined }
  | { readonly kind: 'metrics'; readonly number: number; readonly families: readonly FamilyValues[] };

/** A message of one kind from a worker. */
export type WorkerMessageOf<Kind extends WorkerMessage['kind']> = WorkerMessage & { readonly kind: Kind };
