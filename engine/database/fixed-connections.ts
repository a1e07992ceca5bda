import type pg from 'pg';
import { Pipeline, type PipelineOptions } from './pipeline.ts';

/** How often a connection that is to be closed is checked, in milliseconds. */
const drainMs = 20;
/** How long after a failed attempt to connect the next one may begin, in milliseconds. */
const pauseMs = 500;

/** A fixed number of connections; those that are missing are opened, and nobody waits for that. */
export interface FixedConnections {
  /** One of them, by its number; undefined if it is not open yet. */
  readonly at: (number: number) => Pipeline | undefined;
  /** How many are open and have something to do, and how many have not. */
  readonly load: () => { readonly inUse: number; readonly idle: number; readonly limit: number };
  /** Closes each connection once it has nothing to do, and opens none for this time, in milliseconds. */
  readonly yieldFor: (ms: number) => void;
  /** Gives all connections up; others take their places. */
  readonly renew: () => void;
  readonly close: () => void;
}

/** @param open connects; rejects when there is no connection */
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
  /** Closes what has nothing to do, until nothing is left. */
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
