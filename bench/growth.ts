import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatTable } from '../engine/modules/command-line.ts';
import { makeDatabase, type Server } from '../test/support/postgres.ts';
import { byKey, inTurn, type Load, median, round } from './load.ts';
import { seed } from './seed.ts';
import { startTarget } from './target.ts';

/** CPU time per request with few and with many leads, in microseconds. Includes the server and PostgreSQL. */
export interface Growth {
  readonly operation: string;
  readonly few: number;
  readonly many: number;
}

const [few, many] = [10_000, 1_000_000];
/** Maximum ratio of the CPU time with many leads to the CPU time with few leads. */
const goal = 1.15;

/** Alternately measures the same requests with few and with many leads. */
export async function measureGrowth(
  server: Server,
  rounds: number,
  { seconds, connections }: Pick<Load, 'seconds' | 'connections'>,
): Promise<Growth[]> {
  const folder = mkdtempSync(join(tmpdir(), 'crm-growth-'));
  const services = [];
  try {
    for (const rows of [few, many]) {
      const { url: databaseUrl } = await makeDatabase(server.url);
      const [keys = []] = await seed(databaseUrl, { count: rows });
      const target = await startTarget('engine', { DATABASE_URL: databaseUrl, DATA_DIR: folder });
      const load = { url: target.url, databaseUrl, dialect: byKey(keys), seconds, connections, rows };
      services.push({ process: target.process, load });
    }
    const growth: Growth[] = [];
    for (const operation of ['GET by id', 'list']) {
      const costs = await inTurn(rounds, services, async ({ process: child, load }) => {
        const processes = { server: () => [child.pid ?? 0], database: server.processes };
        const result = await round(operation, load, processes);
        return result.server + result.database;
      });
      const [fewCost = 0, manyCost = 0] = costs.map(median);
      growth.push({ operation, few: fewCost, many: manyCost });
    }
    return growth;
  } finally {
    for (const { process: child } of services) child.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Formats the growth figures as a table with the goal. */
export const growthReport = (growth: readonly Growth[]): string =>
  formatTable(
    ['CPU µs', `${few} leads`, `${many} leads`, '', 'goal', ''],
    growth.map(({ operation, few, many }) => {
      const ratio = many / few;
      const verdict = ratio <= goal ? 'met' : 'missed';
      return [operation, few.toFixed(0), many.toFixed(0), `${ratio.toFixed(2)}×`, `≤ ${goal}×`, verdict];
    }),
  );
