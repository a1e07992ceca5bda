import { loadResources } from '../app.ts';
import type { Resource } from '../compile/index.ts';
import { type Config, readConfig } from '../config.ts';
import { type Database, openDatabase } from '../database/index.ts';
import { applyPending, assertMigrationsComplete, assertUpToDate, migrate, model } from '../schema/index.ts';

/** What commands print: for people, or one JSON object. */
export interface Result {
  /** With --json, the whole of standard output. */
  readonly json: Readonly<Record<string, unknown>>;
  /** Without. */
  readonly text: string;
}

/** What a command needs of the instance. */
export interface Instance {
  readonly config: Config;
  readonly resources: readonly Resource[];
  readonly database: Database;
}

/**
 * Opens the instance's database, ready for use: the embedded one is migrated, as is PostgreSQL where
 * MIGRATE_ON_START says so.
 * @throws UserError when it cannot be opened or is behind the definitions
 */
export async function openInstance(config: Config = readConfig()): Promise<Instance> {
  const resources = await loadResources(config);
  await assertMigrationsComplete(config, resources);
  if (config.databaseAddress !== undefined && config.migrateOnStart) await migrate(config, resources);
  const database = await openDatabase(config, model(resources));
  database.lost?.then(endAtOnce);
  try {
    if (database.kind === 'embedded') await applyPending(database);
    await assertUpToDate(database);
    return { config, resources, database };
  } catch (cause) {
    await database.close();
    throw cause;
  }
}

/** Without closing anything: what is written now can only be lost, or spoil what is there instead. */
function endAtOnce({ message }: Error): void {
  process.stderr.write(`crm: ${message}\n`);
  process.exit(1);
}

/** Opens the instance, does some work, and closes it. */
export async function withInstance<T>(work: (instance: Instance) => Promise<T>): Promise<T> {
  const instance = await openInstance();
  try {
    return await work(instance);
  } finally {
    await instance.database.close();
  }
}

/** Rows as lines with aligned columns, a line of titles first. */
export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = titles.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  return [titles, ...rows]
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** The first line of standard input, once that is closed: secrets come so, because arguments are seen by everybody. */
export async function firstLineOfInput(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8').split(/\r?\n/)[0] ?? '';
}
