import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import type { Runnable, TextRows, WriteBatcher } from './database.ts';
import { fixedConnections } from './fixed-connections.ts';
import type { Pipeline } from './pipeline.ts';

/** Connections: while one waits for its commit, the other one works. */
const count = 2;
/** Statements of a group, and characters of their values. */
const [most, longest] = [32, 64 * 1024];
/** What holds others up or fails is left to the pool for a while, in milliseconds: after a statement that took this long. */
const [avoidMs, slowMs] = [1000, 50];

/** A statement that waits for its group. */
interface Waiting {
  readonly statement: Runnable;
  /** The record that it changes; empty if it makes a new one. */
  readonly record: string;
  readonly size: number;
  readonly resolve: (rows: TextRows | undefined) => void;
  readonly reject: (cause: Error) => void;
}

/**
 * Writes that come while others are under way are carried out together: one statement and one transaction for all that
 * do the same to different records.
 * @param open connects; rejects when there is no connection
 * @param limitMs how long the server may take for a statement before its connection is given up
 */
export function createWriteBatcher(open: () => Promise<pg.Client>, limitMs: number): WriteBatcher {
  const connections = fixedConnections(count, open, { limitMs, onBlocked: () => {} });
  /** Ids of organizations. */
  const avoided = new LRUCache<string, true>({ max: 10_000, ttl: avoidMs });
  let waiting: Waiting[] = [];
  /** Records that are being changed. Their next changes wait here and not for a lock, so they also keep their order. */
  const changing = new Set<string>();
  let isScheduled = false;

  /** The open connections. */
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
    // What else comes in this turn of the event loop joins.
    setImmediate(() => {
      isScheduled = false;
      send();
    });
  }

  function send(): void {
    const all = opened();
    // The pool takes them.
    if (all.length === 0) for (const { resolve } of waiting.splice(0)) resolve(undefined);
    for (const connection of all) {
      if (!connection.isOpen || connection.pending > 0) continue;
      const group = nextGroup();
      if (group.length === 0) return;
      void runGroup(connection, group);
    }
  }

  /** Takes the statement that has waited longest, and those that can be carried out with it. */
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
    // They leave in one turn of the event loop, so they are one statement.
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

/** Characters of a statement's values. */
function sizeOf(values: Runnable['values']): number {
  let size = 0;
  for (const value of values) {
    if (typeof value === 'string') size += value.length;
    else if (value !== null) size += sizeOf(value);
  }
  return size;
}
