// Queue: durable queues for inbound and outbound events, with fair claims, retries, replay and retention.
// May import engine, plugins.

export {
  attemptLine,
  attemptsIn,
  type ItemOutcome,
  latestAttempt,
  reasonFor,
  withAttempt,
} from './attempts.ts';
export { queueCheck } from './check.ts';
export type { ClaimedItem } from './claim.ts';
export { queueCommands } from './commands.ts';
export {
  addDeliveries,
  addDeliveriesToHome,
  type Deliveries,
  deliveriesOf,
  itemState,
} from './deliveries-page.ts';
export {
  type DetailedItem,
  type DisplayedItem,
  detailedItems,
  endPauses,
  ownedBy,
  replayRange,
  states,
  withStatus,
} from './items.ts';
export { backlog, queueMetrics } from './metrics.ts';
export type { Queue } from './queue.ts';
export { commonReasons, type Reason, reasonSentence, type Wording, type Wordings } from './reasons.ts';
export { startQueueRetention } from './retention.ts';
export { type QueueRow, queueTable } from './tables.ts';
export { backoff, startWorker } from './worker.ts';
