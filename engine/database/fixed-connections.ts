import type pg from 'pg';
import { Pipeline, type PipelineOptions } from './pipeline.ts';

/** Interval at which a closing connection is checked, in milliseconds. */
const drainMs = 20;
/** Delay after a failed connection attempt, in milliseconds. */
const pauseMs = 500;

/** A fixed number of connections. Missing ones are opened in the background. */
export interface FixedConnections {
  /** Returns the connection at an index, or undefined if it is not open yet. */
  readonly at: (number: number) => Pipeline | undefined;
  /** Returns the number of busy and of idle connections. */
  readonly load: () => { readonly inUse: number; readonly idle: number; readonly limit: number };
  /** Closes each connection when it is idle, and opens none for this time, in milliseconds. */
  readonly yieldFor: (ms: number) => void;
  /** Replaces all connections. */
  readonly renew: () => void;
  readonly close: () => void;
}

/** Creates the connections. @param open connects, and rejects if that fails */
export function fixedConnections(
  count: number,
  open: () => Promise<pg.Client>,
  options: PipelineOptions,
): FixedConnections {
  const all: (Pipeline | undefined)[] = new Array(count).fill(undefined);
  const opening = new Set<number>();
  let openAfter = 0;
  let isClosed = false;
  let isYielding = false;

  async function connect(number: number): Promise<void> {
    opening.add(number);
    try {
      const connection = new Pipeline(await open(), options);
      if (isClosed) connection.close();
      else all[number] = connection;
    } catch {
      openAfter = performance.now() + pauseMs;
    } finally {
      opening.delete(number);
    }
  }

  const renew = () => {
    for (const connection of all) connection?.close();
  };
  /** Closes idle connections until none is left. */
  const drain = () => {
    for (const connection of all) if (connection?.pending === 0) connection.close();
    if (all.some((connection) => connection?.isOpen === true)) setTimeout(drain, drainMs).unref();
    else isYielding = false;
  };
  return {
    at: (number) => {
      if (isYielding) return undefined;
      const connection = all[number];
      if (connection?.isOpen === true) return connection;
      if (!isClosed && !opening.has(number) && performance.now() >= openAfter) void connect(number);
      return undefined;
    },
    load: () => {
      const open = all.filter((connection) => connection?.isOpen === true);
      const inUse = open.filter((connection) => connection !== undefined && connection.pending > 0).length;
      return { inUse, idle: open.length - inUse, limit: count };
    },
    yieldFor: (ms) => {
      openAfter = performance.now() + ms;
      if (isYielding) return;
      isYielding = true;
      drain();
    },
    renew,
    close: () => {
      isClosed = true;
      renew();
    },
  };
}
