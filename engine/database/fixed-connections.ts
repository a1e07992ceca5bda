import type pg from 'pg';
import type { SharedConnections } from './database.ts';
import { Pipeline, type PipelineOptions } from './pipeline.ts';

/** Interval at which connections are checked while they drain, in milliseconds. */
const drainMs = 20;
/** Delay after a failed connection attempt, in milliseconds. */
const pauseMs = 500;

/** A fixed number of connections. Missing connections are opened in the background. */
export interface FixedConnections extends Pick<SharedConnections, 'yieldFor' | 'renew' | 'close'> {
  /** Returns the connection at this index, or undefined if it is not open yet. */
  readonly at: (index: number) => Pipeline | undefined;
  /** Returns the number of busy and idle connections, and their limit. */
  readonly load: () => { readonly inUse: number; readonly idle: number; readonly limit: number };
}

/** Creates the connections. @param open connects a client, or rejects */
export function fixedConnections(
  count: number,
  open: () => Promise<pg.Client>,
  options: PipelineOptions,
): FixedConnections {
  const connections: (Pipeline | undefined)[] = new Array(count).fill(undefined);
  const openingIndexes = new Set<number>();
  let openAfter = 0;
  let isClosed = false;
  let isYielding = false;

  async function connect(index: number): Promise<void> {
    openingIndexes.add(index);
    try {
      const connection = new Pipeline(await open(), options);
      if (isClosed) connection.close();
      else connections[index] = connection;
    } catch {
      openAfter = performance.now() + pauseMs;
    } finally {
      openingIndexes.delete(index);
    }
  }

  const renew = () => {
    for (const connection of connections) connection?.close();
  };
  /** Closes idle connections until all are closed. */
  const drain = () => {
    for (const connection of connections) if (connection?.pending === 0) connection.close();
    if (connections.some((connection) => connection?.isOpen === true)) setTimeout(drain, drainMs).unref();
    else isYielding = false;
  };
  return {
    at: (index) => {
      if (isYielding) return undefined;
      const connection = connections[index];
      if (connection?.isOpen === true) return connection;
      if (!isClosed && !openingIndexes.has(index) && performance.now() >= openAfter) void connect(index);
      return undefined;
    },
    load: () => {
      const openConnections = connections.filter((connection) => connection?.isOpen === true);
      const inUse = openConnections.filter(
        (connection) => connection !== undefined && connection.pending > 0,
      ).length;
      return { inUse, idle: openConnections.length - inUse, limit: count };
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
