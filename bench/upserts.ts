import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatTable } from '../engine/modules/command-line.ts';
import { makeDatabase, type Server } from '../test/support/postgres.ts';
import { cpuOf } from './cpu.ts';
import { inTurn, type Load, median } from './load.ts';
import { rows, seed, seededOrganization } from './seed.ts';
import { startTarget } from './target.ts';

/** Cost of an import whose lines are matched with existing records. */
export interface UpsertCost {
  readonly name: string;
  /** Lines per second. */
  readonly rate: number;
  /** CPU time per line, in microseconds. Includes the server and PostgreSQL. */
  readonly cost: number;
}

/** Leads can be matched by their email address. */
const upserts = 'extends: leads\nunique: [[email]]\n';
/** Number of lines in an import. */
const lines = 1000;
/** Organization whose leads are imported. */
const organization = 2;

/** The email addresses of an import's lines, by the import's name. */
const imports: Readonly<Record<string, (index: number, run: number) => string>> = {
  'only new records': (index, run) => `new${run}-${index}@example.com`,
  'only existing records': (index) => `person${existingLeads[index]}@example.com`,
};
const existingLeads = Array.from({ length: rows }, (_, index) => index + 1)
  .filter((lead) => seededOrganization(lead) === organization)
  .slice(0, lines);

/** Alternately measures imports with `match` that create all records and that update all records, one at a time. */
export async function measureUpserts(
  server: Server,
  rounds: number,
  { seconds }: Pick<Load, 'seconds'>,
): Promise<UpsertCost[]> {
  const folder = mkdtempSync(join(tmpdir(), 'crm-upserts-'));
  cpSync(join(import.meta.dirname, '..', 'resources'), folder, { recursive: true });
  writeFileSync(join(folder, 'upserts.yaml'), upserts);
  const { url: databaseUrl } = await makeDatabase(server.url);
  const environment = { DATABASE_URL: databaseUrl, RESOURCES_DIR: folder, DATA_DIR: folder };
  const [keys = []] = await seed(databaseUrl, { environment });
  const target = await startTarget('engine', environment);
  const cpu = () => cpuOf([target.process.pid ?? 0]) + cpuOf(server.processes());
  let run = 0;
  const upload = async (emailOf: (index: number, run: number) => string): Promise<void> => {
    run++;
    const body = existingLeads.map((_, index) =>
      JSON.stringify({ email: emailOf(index, run), rating: 'Hot' }),
    );
    const response = await fetch(new URL('/api/v1/leads/import?match=email', target.url), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${keys[organization - 1]}`,
        'content-type': 'application/x-ndjson',
      },
      body: body.join('\n'),
    });
    const { failed } = (await response.json()) as { readonly failed?: number };
    if (failed !== 0) throw new Error(`import: ${response.status}, ${failed} failed lines`);
  };
  try {
    const results = await inTurn(rounds, Object.values(imports), async (emailOf) => {
      const [startedAt, before] = [performance.now(), cpu()];
      let count = 0;
      do {
        await upload(emailOf);
        count += lines;
      } while (performance.now() < startedAt + seconds * 1000);
      const elapsed = (performance.now() - startedAt) / 1000;
      return { rate: count / elapsed, cost: (cpu() - before) / count };
    });
    return Object.keys(imports).map((name, index) => ({
      name,
      rate: median((results[index] ?? []).map(({ rate }) => rate)),
      cost: median((results[index] ?? []).map(({ cost }) => cost)),
    }));
  } finally {
    target.process.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Formats the figures as a table. */
export const upsertsReport = (figures: readonly UpsertCost[]): string =>
  formatTable(
    ['import with match', 'lines/s', 'CPU µs per line'],
    figures.map(({ name, rate, cost }) => [name, rate.toFixed(0), cost.toFixed(0)]),
  );
