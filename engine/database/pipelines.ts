import { LRUCache } from 'lru-cache';
import type pg from 'pg';
import type { Lane } from '../sql/index.ts';
import type { AdmissionLane } from './admission.ts';
import type { SharedConnections } from './database.ts';
import { fixedConnections } from './fixed-connections.ts';
import type { Pipeline, PipelineOptions } from './pipeline.ts';

/**
 * Number of connections. More would not help, because this process has one thread and cannot keep more than
 * two server processes busy. Statements from one tick are written together only on the same connection, and
 * one busy server process costs less than two that keep waking up. Therefore, the second connection is used
 * only while the first is behind or blocked.
 */
const count = 2;
/**
 * How long a slow statement, or an organization that delayed others, is confined to the pool, in
 * milliseconds. The time doubles, up to a maximum, if the delay soon recurs.
 */
const [excludeMs, maxExcludeMs] = [1000, 30_000];

const pipelinedLanes: Readonly<Partial<Record<Lane, AdmissionLane>>> = {
  read: 'short read',
  list: 'short list',
};

/**
 * Creates pipelined connections for short reads.
 * @param open connects a client, or rejects
 * @param limitMs see {@link PipelineOptions}
 */
export function pipelines(open: () => Promise<pg.Client>, limitMs: number): SharedConnections {
  /** Names of statements, and IDs of organizations, that must use the pool. */
  const excluded = new LRUCache<string, true>({ max: 10_000, ttl: excludeMs });
  /** Duration of each organization's last exclusion. */
  const lastDuration = new LRUCache<string, number>({ max: 10_000, ttl: 2 * maxExcludeMs });
  const exclude = (organization: string): void => {
    // Several statements can report the same delay.
    if (excluded.has(organization)) return;
    const ttl = Math.min(2 * (lastDuration.get(organization) ?? excludeMs / 2), maxExcludeMs);
    lastDuration.set(organization, ttl);
    excluded.set(organization, true, { ttl });
  };
  const connections = fixedConnections(count, open, { limitMs, onBlocked: exclude });

  /**
   * Returns the first open, unblocked connection that is not behind, otherwise the one with the fewest
   * statements. Opens missing connections in the background.
   */
  function choose(): Pipeline | undefined {
    let best: Pipeline | undefined;
    for (let index = 0; index < count; index++) {
      const pipeline = connections.at(index);
      if (pipeline?.isBlocked !== false) continue;
      if (best === undefined || (best.isBehind && (!pipeline.isBehind || pipeline.pending < best.pending)))
        best = pipeline;
    }
    return best;
  }

  return {
    ...connections,
    laneOf: (statement, organization) => {
      const lane = statement.lane && pipelinedLanes[statement.lane];
      if (lane === undefined || statement.name === '') return undefined;
      if (excluded.size > 0 && (excluded.has(statement.name) || excluded.has(organization))) return undefined;
      return choose() === undefined ? undefined : lane;
    },
    run: async (statement, organization) => {
      const result = await choose()?.run(statement, organization);
      if (result === 'late') excluded.set(statement.name, true);
      return typeof result === 'string' ? undefined : result;
    },
    runAlone: (_organization, runInPool) => runInPool(),
    // Statements are sent without waiting for a connection.
    load: () => ({ pool: 'shared', waiting: 0, ...connections.load() }),
  };
}
