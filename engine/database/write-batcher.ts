import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import type { Runnable, SharedConnections, TextRows } from './database.ts';
import { fixedConnections } from './fixed-connections.ts';
import type { Pipeline } from './pipeline.ts';

/** Number of connections. While one waits for its commit, the other can be used. */
const count = 2;
/** Maximum number of statements in a batch, and of characters in their values. */
const [maxStatements, maxCharacters] = [32, 64 * 1024];
/**
 * How long an organization must use the pool after a slow or failed write, and the minimum duration of a slow
 * write, in milliseconds.
 */
const [excludeMs, slowMs] = [1000, 50];

/** A statement waiting for its batch. */
interface QueuedWrite {
  readonly statement: Runnable;
  /** Key of the record that the statement changes, or an empty string if it creates a record. */
  readonly record: string;
  readonly size: number;
  readonly resolve: (rows: TextRows | undefined) => void;
  readonly reject: (cause: Error) => void;
}

/**
 * Executes concurrent writes in batches. Writes of the same kind to different records become one statement
 * and one transaction.
 * @param open connects a client, or rejects
 * @param limitMs time limit for a statement, after which its connection is dropped
 */
export function createWriteBatcher(open: () => Promise<pg.Client>, limitMs: number): SharedConnections {
  const connections = fixedConnections(count, open, { limitMs, onBlocked: () => {} });
  /** IDs of organizations whose writes are not batched. */
  const excluded = new LRUCache<string, true>({ max: 10_000, ttl: excludeMs });
  let waiting: QueuedWrite[] = [];
  /**
   * Records with a running write. Later writes to them wait here instead of for a lock, which preserves the
   * order of writes.
   */
  const recordsInProgress = new Set<string>();
  let isScheduled = false;

  /** Returns the open connections. */
  function openConnections(): Pipeline[] {
    const result: Pipeline[] = [];
    for (let index = 0; index < count; index++) {
      const connection = connections.at(index);
      if (connection !== undefined) result.push(connection);
    }
    return result;
  }

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    // Other statements from this tick join the batch.
    setImmediate(() => {
      isScheduled = false;
      send();
    });
  }

  function send(): void {
    const available = openConnections();
    // Without an open connection, the statements run in the pool.
    if (available.length === 0) for (const { resolve } of waiting.splice(0)) resolve(undefined);
    for (const connection of available) {
      if (!connection.isOpen || connection.pending > 0) continue;
      const batch = nextBatch();
      if (batch.length === 0) return;
      void runBatch(connection, batch);
    }
  }

  /**
   * Removes the oldest statement from the queue, together with all statements that can run in the same batch.
   */
  function nextBatch(): QueuedWrite[] {
    const batch: QueuedWrite[] = [];
    const remaining: QueuedWrite[] = [];
    let size = 0;
    for (const write of waiting) {
      const fits =
        batch.length === 0 ||
        (write.statement.many?.name === batch[0]?.statement.many?.name &&
          batch.length < maxStatements &&
          size + write.size <= maxCharacters);
      if (!fits || recordsInProgress.has(write.record)) {
        remaining.push(write);
        continue;
      }
      if (write.record !== '') recordsInProgress.add(write.record);
      size += write.size;
      batch.push(write);
    }
    waiting = remaining;
    return batch;
  }

  async function runBatch(connection: Pipeline, batch: readonly QueuedWrite[]): Promise<void> {
    // Because they are sent in the same tick, the statements are merged into one.
    const outcomes = await Promise.all(batch.map(({ statement }) => connection.run(statement, '')));
    for (const { record } of batch) recordsInProgress.delete(record);
    if (waiting.length > 0) schedule();
    for (const [index, { resolve, reject }] of batch.entries()) {
      const outcome = outcomes[index];
      if (outcome === 'lost') reject(new Error('Connection terminated unexpectedly'));
      else resolve(typeof outcome === 'string' ? undefined : outcome);
    }
  }

  return {
    ...connections,
    laneOf: ({ name, lane, many, values }, organization) =>
      lane === 'write' &&
      many !== undefined &&
      name !== '' &&
      !(excluded.size > 0 && excluded.has(organization)) &&
      sizeOf(values) <= maxCharacters &&
      openConnections().length > 0
        ? 'short write'
        : undefined,
    run: (statement) =>
      new Promise((resolve, reject) => {
        const { many, values } = statement;
        const record = many === undefined || many.differ === 0 ? '' : values.slice(0, many.differ).join();
        waiting.push({ statement, record, size: sizeOf(values), resolve, reject });
        schedule();
      }),
    // If the write fails or is slow, the organization's writes are excluded from batches for a while.
    runAlone: async (organization, runInPool) => {
      const start = performance.now();
      let isFast = false;
      try {
        const rows = await runInPool();
        isFast = performance.now() - start < slowMs;
        return rows;
      } finally {
        if (!isFast) excluded.set(organization, true);
      }
    },
    load: () => ({ pool: 'writes', waiting: waiting.length, ...connections.load() }),
  };
}

/** Returns the number of characters in a statement's values. */
function sizeOf(values: Runnable['values']): number {
  let size = 0;
  for (const value of values) {
    if (typeof value === 'string') size += value.length;
    else if (value !== null) size += sizeOf(value);
  }
  return size;
}
