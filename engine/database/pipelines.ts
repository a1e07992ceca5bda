import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import type { Lane } from '../sql/index.ts';
import type { AdmissionLane } from './admission.ts';
import type { Pipelines } from './database.ts';
import { fixedConnections } from './fixed-connections.ts';
import type { Pipeline, PipelineOptions } from './pipeline.ts';

/**
 * Number of connections. More would not help: this process has one thread, and two server processes do more than it requests.
 * Statements of one tick leave together only on one connection, and one busy server process costs less than two that keep
 * waking up, so the second connection is used only while the first is behind or blocked.
 */
const count = 2;
/**
 * Time for which a late statement, or an organization that delayed others, uses the pool, in milliseconds. It doubles if the
 * delay recurs soon.
 */
const [avoidMs, longestAvoidMs] = [1000, 30_000];

const turns: Readonly<Partial<Record<Lane, AdmissionLane>>> = { read: 'short read', list: 'short list' };

/**
 * Creates the pipelines.
 * @param open connects, and rejects if that fails
 * @param limitMs see {@link PipelineOptions}
 */
export function pipelines(open: () => Promise<pg.Client>, limitMs: number): Pipelines {
  /** Names of statements, and IDs of organizations. */
  const avoided = new LRUCache<string, true>({ max: 10_000, ttl: avoidMs });
  /** Duration for which organizations were last excluded. */
  const lastTime = new LRUCache<string, number>({ max: 10_000, ttl: 2 * longestAvoidMs });
  const avoid = (organization: string): void => {
    // Statements sent earlier report the same delay repeatedly.
    if (avoided.has(organization)) return;
    const ttl = Math.min(2 * (lastTime.get(organization) ?? avoidMs / 2), longestAvoidMs);
    lastTime.set(organization, ttl);
    avoided.set(organization, true, { ttl });
  };
  const connections = fixedConnections(count, open, { limitMs, onBlocked: avoid });

  /**
   * Returns the first open, unblocked connection that is not behind, otherwise the one with the fewest statements. Opens
   * missing connections in the background.
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
    // Statements here do not wait for a connection.
    load: () => ({ pool: 'shared', waiting: 0, ...connections.load() }),
    yieldFor: connections.yieldFor,
    renew: connections.renew,
    close: connections.close,
  };
}
