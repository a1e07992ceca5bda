import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatTable } from '../engine/modules/command-line.ts';
import type { Grant } from '../plugins/access/profiles/grants.ts';
import { makeDatabase, type Server } from '../test/support/postgres.ts';
import { byKey, inTurn, type Load, median, round } from './load.ts';
import { rows, seed } from './seed.ts';
import { startTarget } from './target.ts';

/** CPU time per request of callers with different grants, in microseconds. Includes the server and PostgreSQL. */
export interface ScopeCost {
  readonly operation: string;
  /** CPU time by the name of the caller in {@link callers}. */
  readonly costs: Readonly<Record<string, number>>;
}

/** Every seeded lead has this source, so that all callers receive the same records. */
const scopes = 'extends: leads\nscopes:\n  web: source == "Website"\n  hot: rating == "Hot"\n';

/** The actions granted to the callers, by caller. */
const callers: Readonly<Record<string, Grant['actions']>> = {
  'without scopes': ['list', 'read'],
  'one equality': ['list:web', 'read:web'],
  'two scopes': ['list:web', 'list:hot', 'read:web', 'read:hot'],
};

/** Maximum ratio of the CPU time with a scope that is one equality to the CPU time without scopes. */
const goal = 1.2;
/** The operation without a goal, because no index combines the scope with the filter. */
const combined = 'list filtered';

/** Alternately measures the same requests of callers with and without scopes, on one service. */
export async function measureScopes(
  server: Server,
  rounds: number,
  { seconds, connections }: Pick<Load, 'seconds' | 'connections'>,
): Promise<ScopeCost[]> {
  const folder = mkdtempSync(join(tmpdir(), 'crm-scopes-'));
  cpSync(join(import.meta.dirname, '..', 'resources'), folder, { recursive: true });
  writeFileSync(join(folder, 'scopes.yaml'), scopes);
  const { url: databaseUrl } = await makeDatabase(server.url);
  const environment = { DATABASE_URL: databaseUrl, RESOURCES_DIR: folder, DATA_DIR: folder };
  const grants = Object.values(callers).map((actions) => [{ object: 'leads', actions }]);
  const keys = await seed(databaseUrl, { environment, grants });
  const target = await startTarget('engine', environment);
  try {
    const loads = keys.map((own) => ({
      ...{ url: target.url, databaseUrl, dialect: byKey(own), seconds, connections, rows },
    }));
    const processes = { server: () => [target.process.pid ?? 0], database: server.processes };
    const figures: ScopeCost[] = [];
    for (const operation of ['GET by id', 'list', combined]) {
      const costs = await inTurn(rounds, loads, async (load) => {
        const result = await round(operation, load, processes);
        return result.server + result.database;
      });
      const names = Object.keys(callers);
      figures.push({
        operation,
        costs: Object.fromEntries(costs.map((figures, index) => [names[index], median(figures)])),
      });
    }
    return figures;
  } finally {
    target.process.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Formats the figures as a table with the goal for a scope that is one equality. */
export const scopesReport = (figures: readonly ScopeCost[]): string =>
  formatTable(
    ['CPU µs', ...Object.keys(callers), 'one equality', 'goal', '', 'two scopes'],
    figures.map(({ operation, costs }) => {
      const { 'without scopes': none = 0, 'one equality': one = 0, 'two scopes': two = 0 } = costs;
      return [
        operation,
        ...Object.values(costs).map((cost) => cost.toFixed(0)),
        `${(one / none).toFixed(2)}×`,
        ...(operation === combined ? ['none', ''] : [`≤ ${goal}×`, one / none <= goal ? 'met' : 'missed']),
        `${(two / none).toFixed(2)}×`,
      ];
    }),
  );
