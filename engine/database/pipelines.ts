import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import type { Lane } from '../sql/index.ts';
import type { AdmissionLane } from './admission.ts';
import type { Pipelines } from './database.ts';
import { fixedConnections } from './fixed-connections.ts';
import type { Pipeline, PipelineOptions } from './pipeline.ts';

/**
 * Connections. More add nothing: this process has one thread, and two server processes do more than it asks for. What
 * comes in one turn of the event loop leaves together only on the same connection, and one server process that is busy
 * costs less than two that keep waking up, so the second one helps while the first is behind or blocked.
 */
const count = 2;
/**
 * How long a statement that was late, or an organization that others waited for, is left to the pool, in milliseconds:
 * twice as long each time, if it begins again soon.
 */
const [avoidMs, longestAvoidMs] = [1000, 30_000];

const turns: Readonly<Partial<Record<Lane, AdmissionLane>>> = { read: 'short read', list: 'short list' };

/**
 * @param open connects; rejects when there is no connection
 * @param limitMs see {@link PipelineOptions}
 */
export function pipelines(open: () => Promise<pg.Client>, limitMs: number): Pipelines {
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
  const connections = fixedConnections(count, open, { limitMs, onBlocked: avoid });

  /**
   * Of the connections that are open and not blocked, the first that is not behind, otherwise the one with the fewest
   * statements. Opens those that are missing, without waiting for them.
   */
  function choose(): Pipeline | undefined {
    let best: Pipeline | undefined;
    for (let number = 0; number < count; number++) {
      const pipeline = connections.at(number);
      if (pipeline?.isBlocked !== false) continue;
      if (best === undefined || (best.isBehind && (!pipeline.isBehind || pipeline.pending < best.pending)))
        best = pipeline;
    }
    return best;
  }

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
    // A statement here waits for none.
    load: () => ({ pool: 'shared', waiting: 0, ...connections.load() }),
    yieldFor: connections.yieldFor,
    renew: connections.renew,
    close: connections.close,
  };
}
