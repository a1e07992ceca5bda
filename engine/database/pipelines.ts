import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import type { Lane } from '../sql/index.ts';
import type { Turn } from './admission.ts';
import type { Pipelines } from './database.ts';
import { Pipeline } from './pipeline.ts';

/** Connections. More add nothing: this process has one thread, and two server processes do more than it asks for. */
const count = 2;
/** How long after a failed attempt to connect the next one may begin, in milliseconds. */
const pauseMs = 500;
/** How long a statement that was late, or an organization with large records, is left to the pool, in milliseconds. */
const avoidMs = 1000;
/** Bytes of a result that others would have to wait for. */
const large = 256 * 1024;

const turns: Readonly<Partial<Record<Lane, Turn>>> = { read: 'short read', list: 'short list' };

/**
 * @param open connects; rejects when there is no connection
 * @param limitMs see {@link Pipeline}
 */
export function pipelines(open: () => Promise<pg.Client>, limitMs: number): Pipelines {
  const all: (Pipeline | undefined)[] = new Array(count).fill(undefined);
  const opening = new Set<number>();
  /** Names of statements, and ids of organizations. */
  const avoided = new LRUCache<string, true>({ max: 10_000, ttl: avoidMs });
  let openAfter = 0;
  let isClosed = false;

  async function connect(slot: number): Promise<void> {
    opening.add(slot);
    try {
      const client = await open();
      const pipeline = new Pipeline(client, limitMs);
      if (isClosed) pipeline.close();
      else all[slot] = pipeline;
    } catch {
      openAfter = performance.now() + pauseMs;
    } finally {
      opening.delete(slot);
    }
  }

  /** The open connection with the fewest statements. Opens those that are missing, without waiting for them. */
  function choose(): Pipeline | undefined {
    let best: Pipeline | undefined;
    for (let slot = 0; slot < count; slot++) {
      const pipeline = all[slot];
      if (pipeline?.isOpen !== true) {
        if (!isClosed && !opening.has(slot) && performance.now() >= openAfter) void connect(slot);
      } else if (best === undefined || pipeline.pending < best.pending) best = pipeline;
    }
    return best;
  }

  const renew = () => {
    for (const pipeline of all) pipeline?.close();
  };
  return {
    turn: (statement, organization) => {
      const turn = statement.lane && turns[statement.lane];
      if (turn === undefined || statement.name === '') return undefined;
      if (avoided.size > 0 && (avoided.has(statement.name) || avoided.has(organization))) return undefined;
      return choose() === undefined ? undefined : turn;
    },
    run: async (statement, organization) => {
      const outcome = await choose()?.run(statement);
      if (outcome === 'late') avoided.set(statement.name, true);
      if (outcome === undefined || typeof outcome === 'string') return undefined;
      if ((outcome[0]?.[0]?.length ?? 0) > large) avoided.set(organization, true);
      return outcome;
    },
    renew,
    close: () => {
      isClosed = true;
      renew();
    },
  };
}
