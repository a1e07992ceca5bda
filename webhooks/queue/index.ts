// Queue: what waits to be processed, of any direction: claimed in turns, retried, replayed, removed.
// May import engine, plugins.

export { type Backlog, backlog } from './backlog.ts';
export { queueCheck } from './check.ts';
export type { Claimed, Outcome } from './claim.ts';
export { queueCommands } from './commands.ts';
export { deliveryPages } from './deliveries-page.ts';
export { type FailureLog, failureLog } from './failures.ts';
export { type Item, listItems, replayRange, states } from './items.ts';
export { queueMetrics } from './metrics.ts';
export type { Queue } from './queue.ts';
export { startRetention } from './retention.ts';
export { type QueueRow, queueTable } from './tables.ts';
export { backoff, startWorker, type Worker } from './worker.ts';
