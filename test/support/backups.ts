// Backup helpers: serves a migrated instance in this process and reads and modifies backup files.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { FastifyInstance } from 'fastify';
import { readConfig } from '../../app/config.ts';
import { openInstance } from '../../app/instance.ts';
import { buildService } from '../../app/serve/build.ts';
import type { Instance as Opened } from '../../app/services.ts';
import { backgroundWork } from '../../engine/modules/index.ts';
import { createDemo, type Demo } from '../../plugins/operations/demo/demo.ts';
import { type Answer, type Call, send } from './instance.ts';
import type { Storage } from './process.ts';
import { patient } from './promised.ts';

/** The longest interval of a timer, in milliseconds. */
const maxTimerMs = 2 ** 31 - 1;

/** An instance served in this process. */
export interface Served extends Pick<Opened, 'config' | 'resources' | 'database'> {
  readonly app: FastifyInstance;
  /** The demo data, or undefined if the database was not empty. */
  readonly demo: Demo | undefined;
  readonly url: string;
  readonly call: (request: string, call?: Call) => Promise<Answer>;
  readonly close: () => Promise<void>;
}

/**
 * Serves a database. Creates the demo organization if the database is empty. The service creates a backup when it starts, but none
 * later, because it would interfere with tests that take longer than a minute on a slow machine.
 */
export async function served(
  { environment }: Pick<Storage, 'environment'>,
  more: Readonly<Record<string, string>> = {},
): Promise<Served> {
  const opened = await openInstance(readConfig({ ...patient, ...environment, LOG_LEVEL: 'fatal', ...more }));
  const demo = await createDemo(opened.database, opened.config, opened.resources);
  const background = backgroundWork();
  const app = await buildService(opened, {
    ...background,
    every: (served, name, intervalMs, work) =>
      background.every(served, name, name === 'backups' ? maxTimerMs : intervalMs, work),
  });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  return {
    ...opened,
    app,
    demo,
    url,
    call: (request, call) => send(url, request, call),
    close: async () => {
      await app.close();
      await opened.database.close();
    },
  };
}

/** Returns a backup's lines. */
export const linesIn = (file: string): string[] =>
  gunzipSync(readFileSync(file)).toString('utf8').trimEnd().split('\n');

/** Writes lines as a backup with a valid checksum. */
export function writeLines(file: string, lines: readonly string[]): void {
  const [before, last] = [lines.slice(0, -1), lines.at(-1) ?? ''];
  const sha256 = createHash('sha256')
    .update(`${before.join('\n')}\n`)
    .digest('hex');
  const { end } = JSON.parse(last) as { end: object };
  writeFileSync(file, gzipSync(`${[...before, JSON.stringify({ end: { ...end, sha256 } })].join('\n')}\n`));
}

/** Returns a table's rows in a backup, keyed by column name. */
export function rowsIn(file: string, table: string): Record<string, string | null>[] {
  const lines = linesIn(file);
  const { tables } = JSON.parse(lines[0] ?? '') as {
    tables: { name: string; columns: [string, string][] }[];
  };
  const columns = tables.find(({ name }) => name === table)?.columns ?? [];
  const start = lines.indexOf(JSON.stringify({ table })) + 1;
  const end = lines.findIndex((line, index) => index >= start && !line.startsWith('['));
  return lines.slice(start, end).map((line) => {
    const values = JSON.parse(line) as (string | null)[];
    return Object.fromEntries(columns.map(([name], index) => [name, values[index] ?? null]));
  });
}
