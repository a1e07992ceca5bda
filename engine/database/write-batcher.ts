import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import type { Runnable, TextRows, WriteBatcher } from './database.ts';
import { fixedConnections } from './fixed-connections.ts';
import type { Pipeline } from './pipeline.ts';

/** Number of connections: while one waits for its commit, the other one works. */
const count = 2;
/** Maximum number of statements in a batch, and of characters in their values. */
const [most, longest] = [32, 64 * 1024];
/** Time for which a slow or failing organization uses the pool, and the duration that counts as slow, in milliseconds. */
const [avoidMs, slowMs] = [1000, 50];

/** A statement waiting for its batch. */
interface Waiting {
  readonly statement: Runnable;
  /** The record that it changes; empty if it creates one. */
  readonly record: string;
  readonly size: number;
  readonly resolve: (rows: TextRows | undefined) => void;
  readonly reject: (cause: Error) => void;
}

/**
 * Executes writes that arrive while others are running in batches: one statement and one transaction for writes of the same
 * kind to different records.
 * @param open connects, and rejects if that fails
 * @param limitMs time limit of a statement, after which its connection is dropped
 */
export function createWriteBatcher(open: () => Promise<pg.Client>, limitMs: number): WriteBatcher {
  const connections = fixedConnections(count, open, { limitMs, onBlocked: () => {} });
  /** IDs of organizations. */
  const avoided = new LRUCache<string, true>({ max: 10_000, ttl: avoidMs });
  let waiting: Waiting[] = [];
  /** Records being changed. Their next changes wait here instead of for a lock, which preserves their order. */
  const changing = new Set<string>();
  let isScheduled = false;

  /** Open connections. */
  function opened(): Pipeline[] {
    const all: Pipeline[] = [];
    for (let number = 0; number < count; number++) {
      const connection = connections.at(number);
      if (connection !== undefined) all.push(connection);
    }
    return all;
  }

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    // Other statements of this tick join the batch.
    setImmediate(() => {
      isScheduled = false;
      send();
    });
  }

  function send(): void {
    const all = opened();
    // The pool runs them.
    if (all.length === 0) for (const { resolve } of waiting.splice(0)) resolve(undefined);
    for (const connection of all) {
      if (!connection.isOpen || connection.pending > 0) continue;
      const group = nextGroup();
      if (group.length === 0) return;
      void runGroup(connection, group);
    }
  }

  /** Takes the longest-waiting statement and those that can run with it. */
  function nextGroup(): Waiting[] {
    const group: Waiting[] = [];
    const rest: Waiting[] = [];
    let size = 0;
    for (const each of waiting) {
      const fits =
        group.length === 0 ||
        (each.statement.many?.name === group[0]?.statement.many?.name &&
          group.length < most &&
          size + each.size <= longest);
      if (!fits || changing.has(each.record)) {
        rest.push(each);
        continue;
      }
      if (each.record !== '') changing.add(each.record);
      size += each.size;
      group.push(each);
    }
    waiting = rest;
    return group;
  }

  async function runGroup(connection: Pipeline, group: readonly Waiting[]): Promise<void> {
    // They are sent in one tick, so they become one statement.
    const outcomes = await Promise.all(group.map(({ statement }) => connection.run(statement, '')));
    for (const { record } of group) changing.delete(record);
    if (waiting.length > 0) schedule();
    for (const [index, { resolve, reject }] of group.entries()) {
      const outcome = outcomes[index];
      if (outcome === 'lost') reject(new Error('Connection terminated unexpectedly'));
      else resolve(typeof outcome === 'string' ? undefined : outcome);
    }
  }

  return {
    takes: ({ name, lane, many, values }, organization) =>
      lane === 'write' &&
      many !== undefined &&
      name !== '' &&
      !(avoided.size > 0 && avoided.has(organization)) &&
      sizeOf(values) <= longest &&
      opened().length > 0,
    run: (statement) =>
      new Promise((resolve, reject) => {
        const { many, values } = statement;
        const record = many === undefined || many.differ === 0 ? '' : values.slice(0, many.differ).join();
        waiting.push({ statement, record, size: sizeOf(values), resolve, reject });
        schedule();
      }),
    alone: async (organization, work) => {
      const began = performance.now();
      let isFast = false;
      try {
        const rows = await work();
        isFast = performance.now() - began < slowMs;
        return rows;
      } finally {
        if (!isFast) avoided.set(organization, true);
      }
    },
    load: () => ({ pool: 'writes', waiting: waiting.length, ...connections.load() }),
    yieldFor: connections.yieldFor,
    renew: connections.renew,
    close: connections.close,
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
