import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import { valuesOfMany } from '../sql/index.ts';
import type { Groups, Rows, Runnable } from './database.ts';
import { Pipeline } from './pipeline.ts';

/** Connections: while one waits for its commit, the other one works. */
const count = 2;
/** Statements of a group, and characters of their values. */
const [most, longest] = [32, 64 * 1024];
/** How long after a failed attempt to connect the next one may begin, in milliseconds. */
const pauseMs = 500;
/** What holds others up or fails is left to the pool for a while, in milliseconds: after a statement that took this long. */
const [avoidMs, slowMs] = [1000, 50];

/** A statement that waits for its group. */
interface Waiting {
  readonly statement: Runnable;
  /** The record that it changes; empty if it makes a new one. */
  readonly record: string;
  readonly size: number;
  readonly resolve: (rows: Rows | undefined) => void;
  readonly reject: (cause: Error) => void;
}

/**
 * Writes that come while others are under way are carried out together: one statement and one transaction for all that
 * do the same to different records.
 * @param open connects; rejects when there is no connection
 * @param limitMs how long the server may take for a statement before its connection is given up
 */
export function groups(open: () => Promise<pg.Client>, limitMs: number): Groups {
  const connections: (Pipeline | undefined)[] = new Array(count).fill(undefined);
  const opening = new Set<number>();
  /** Ids of organizations. */
  const avoided = new LRUCache<string, true>({ max: 10_000, ttl: avoidMs });
  let waiting: Waiting[] = [];
  /** Records that are being changed. Their next changes wait here and not for a lock, so they also keep their order. */
  const changing = new Set<string>();
  let isScheduled = false;
  let openAfter = 0;
  let isClosed = false;

  async function connect(slot: number): Promise<void> {
    opening.add(slot);
    try {
      const connection = new Pipeline(await open(), { limitMs, onBlocked: () => {} });
      if (isClosed) connection.close();
      else connections[slot] = connection;
    } catch {
      openAfter = performance.now() + pauseMs;
    } finally {
      opening.delete(slot);
    }
  }

  /** The open connections. Opens those that are missing, without waiting for them. */
  function opened(): Pipeline[] {
    return connections.flatMap((connection, slot) => {
      if (connection?.isOpen === true) return [connection];
      if (!isClosed && !opening.has(slot) && performance.now() >= openAfter) void connect(slot);
      return [];
    });
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
    const outcome = await connection.run(together(group.map(({ statement }) => statement)), '');
    for (const { record } of group) changing.delete(record);
    if (waiting.length > 0) schedule();
    if (outcome === 'lost') {
      for (const { reject } of group) reject(new Error('Connection terminated unexpectedly'));
    } else if (typeof outcome === 'string') {
      for (const { resolve } of group) resolve(undefined);
    } else if (group.length === 1) {
      group[0]?.resolve(outcome);
    } else {
      const rows = new Map(outcome.map((row) => [Number(row.at(-1)), row]));
      for (const [index, { resolve }] of group.entries()) {
        const row = rows.get(index + 1);
        resolve(row === undefined ? [] : [row]);
      }
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
    renew: () => {
      for (const connection of connections) connection?.close();
    },
    close: () => {
      isClosed = true;
      for (const connection of connections) connection?.close();
    },
  };
}

/** One statement for all of a group. */
function together(statements: readonly Runnable[]): Runnable {
  const [first] = statements;
  if (first?.many === undefined) throw new Error('a statement that runs alone is in a group');
  if (statements.length === 1) return first;
  return { name: first.many.name, text: first.many.text, values: valuesOfMany(statements) };
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
