import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatTable } from '../engine/modules/command-line.ts';
import { makeDatabase, type Server } from '../test/support/postgres.ts';
import { byKey, inTurn, type Load, median, round } from './load.ts';
import { seed } from './seed.ts';
import { startTarget } from './target.ts';

/** What a request costs with few and with many leads, in microseconds of CPU time of server and PostgreSQL. */
export interface Growth {
  readonly operation: string;
  readonly few: number;
  readonly many: number;
}

const [few, many] = [10_000, 1_000_000];
/** How much more a request may cost with many leads. */
const goal = 1.15;

/** Measures the same requests on few and on many leads, in turn. */
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
      const keys = await seed(databaseUrl, rows);
      const started = await startTarget('engine', { DATABASE_URL: databaseUrl, DATA_DIR: folder });
      const load = { url: started.url, databaseUrl, dialect: byKey(keys), seconds, connections, rows };
      services.push({ process: started.process, load });
    }
    const growth: Growth[] = [];
    for (const operation of ['GET by id', 'list']) {
      const costs = await inTurn(rounds, services, async ({ process: child, load }) => {
        const measured = { server: () => [child.pid ?? 0], database: server.processes };
        const result = await round(operation, load, measured);
        return result.server + result.database;
      });
      const [ofFew = 0, ofMany = 0] = costs.map(median);
      growth.push({ operation, few: ofFew, many: ofMany });
    }
    return growth;
  } finally {
    for (const { process: child } of services) child.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A table of what grows, with the goal. */
export const growthReport = (growth: readonly Growth[]): string =>
  formatTable(
    ['CPU µs', `${few} leads`, `${many} leads`, '', 'goal', ''],
    growth.map(({ operation, few, many }) => {
      const ratio = many / few;
      const verdict = ratio <= goal ? 'met' : 'missed';
      return [operation, few.toFixed(0), many.toFixed(0), `${ratio.toFixed(2)}×`, `≤ ${goal}×`, verdict];
    }),
  );
