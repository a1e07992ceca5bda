import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import type { Lane } from '../sql/index.ts';
import type { Turn } from './admission.ts';
import type { Pipelines } from './database.ts';
import { Pipeline, type PipelineOptions } from './pipeline.ts';

/** Connections. More add nothing: this process has one thread, and two server processes do more than it asks for. */
const count = 2;
/** How long after a failed attempt to connect the next one may begin, in milliseconds. */
const pauseMs = 500;
/**
 * How long a statement that was late, or an organization that others waited for, is left to the pool, in milliseconds:
 * twice as long each time, if it begins again soon.
 */
const [avoidMs, longestAvoidMs] = [1000, 30_000];

const turns: Readonly<Partial<Record<Lane, Turn>>> = { read: 'short read', list: 'short list' };

/**
 * @param open connects; rejects when there is no connection
 * @param limitMs see {@link PipelineOptions}
 */
export function pipelines(open: () => Promise<pg.Client>, limitMs: number): Pipelines {
  const all: (Pipeline | undefined)[] = new Array(count).fill(undefined);
  const opening = new Set<number>();
  /** Names of statements, and ids of organizations. */
  const avoided = new LRUCache<string, true>({ max: 10_000, ttl: avoidMs });
  /** How long organizations were avoided the last time. */
  const lastTime = new LRUCache<string, number>({ max: 10_000, ttl: 2 * longestAvoidMs });
  const avoid = (organization: string): void => {
    // What was on its way before shows it again and again.
    if (avoided.has(organization)) return;
    const ttl = Math.min(2 * (lastTime.get(organization) ?? avoidMs / 2), longestAvoidMs);
    lastTime.set(organization, ttl);
    avoided.set(organization, true, { ttl });
  };
  const options: PipelineOptions = { limitMs, onBlocked: avoid };
  let openAfter = 0;
  let isClosed = false;

  async function connect(slot: number): Promise<void> {
    opening.add(slot);
    try {
      const client = await open();
      const pipeline = new Pipeline(client, options);
      if (isClosed) pipeline.close();
      else all[slot] = pipeline;
    } catch {
      openAfter = performance.now() + pauseMs;
    } finally {
      opening.delete(slot);
    }
  }

  /** The connection with the fewest statements, of those that are open and not blocked. Opens those that are missing, without waiting for them. */
  function choose(): Pipeline | undefined {
    let best: Pipeline | undefined;
    for (let slot = 0; slot < count; slot++) {
      const pipeline = all[slot];
      if (pipeline?.isOpen !== true) {
        if (!isClosed && !opening.has(slot) && performance.now() >= openAfter) void connect(slot);
      } else if (!pipeline.isBlocked && (best === undefined || pipeline.pending < best.pending))
        best = pipeline;
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
      const outcome = await choose()?.run(statement, organization);
      if (outcome === 'late') avoided.set(statement.name, true);
      return typeof outcome === 'string' ? undefined : outcome;
    },
    renew,
    close: () => {
      isClosed = true;
      renew();
    },
  };
}
