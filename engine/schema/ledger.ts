import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Migration } from '@mikro-orm/migrations';
import { type Database, type DatabaseConfig, migrationsTable } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { quote } from '../sql/index.ts';
import { sequencesOf } from './sequences.ts';

/** Which migrations a database has, and how that differs from the files. */
export interface Ledger {
  /** In the order in which they were applied. */
  readonly applied: readonly string[];
  readonly pending: readonly string[];
  /** What is not as it should be, a line each. */
  readonly problems: readonly string[];
}

type MigrationClass = new (...args: ConstructorParameters<typeof Migration>) => Migration;

/** The name of a migration by that in the table, which may have the ending of a file. */
export const migrationName = (stored: string | undefined): string => (stored ?? '').replace(/\.[jt]s$/, '');

/** The migrations of an instance in their order, as their files name them. */
export const migrationNames = (config: DatabaseConfig): string[] =>
  sequencesOf(config)
    .flatMap(({ files }) => [...files.keys()])
    .sort();

/** The file of a migration. */
export function migrationPath(config: DatabaseConfig, name: string): string {
  const { folder, files } = sequencesOf(config).find((each) => each.files.has(name)) ?? {};
  return join(folder ?? config.migrations, files?.get(name) ?? name);
}

/** The statements of a migration. */
export async function statementsIn(
  { orm }: Pick<Database, 'orm'>,
  config: DatabaseConfig,
  name: string,
): Promise<readonly string[]> {
  const path = migrationPath(config, name);
  const exported = (await import(pathToFileURL(path).href)) as Record<string, MigrationClass>;
  const Class = exported[name] ?? Object.values(exported)[0];
  if (Class === undefined) throw new UserError(`${path} exports no migration`);
  const migration = new Class(orm.em.getDriver(), orm.config);
  await migration.up();
  return migration.getQueries().map(String);
}

/** Identifies what a migration does: its statements, however they are written down. */
export const checksumOf = (statements: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(statements)).digest('hex');

/** Compares the migrations of a database with the files. */
export async function readLedger(database: Database, config: DatabaseConfig): Promise<Ledger> {
  const table = quote(migrationsTable);
  const [known] = await database.run({
    name: '',
    text: `select to_regclass($1)::text`,
    values: [table],
  });
  const rows =
    known?.[0] === null
      ? []
      : await database.run({
          name: '',
          text: `select "name"::text, to_jsonb(m) ->> 'checksum', to_jsonb(m) ->> 'remaining' from ${table} m order by "id"`,
          values: [],
        });
  const applied = rows
    .filter(([, , remaining]) => remaining === null)
    .map(([name]) => migrationName(String(name)));
  const files = migrationNames(config);
  const pending = files.filter((name) => !applied.includes(name));
  const last = files.at(-1) ?? '';
  const problems: string[] = [];
  for (const name of applied.filter((each) => !files.includes(each))) {
    problems.push(
      name > last
        ? `the database is ahead of this code: it has ${name}, which ${config.migrations} has not`
        : `${name} was applied, and its file is missing in ${config.migrations}`,
    );
  }
  for (const { files: names } of sequencesOf(config)) {
    const latest = [...names.keys()].filter((name) => applied.includes(name)).at(-1) ?? '';
    for (const name of pending.filter((each) => names.has(each) && each < latest)) {
      problems.push(
        `${name} is not applied, although ${latest}, which comes after it, is: it will be applied now`,
      );
    }
  }
  for (const [name, checksum] of rows) {
    if (checksum === null || !files.includes(String(name))) continue;
    if (checksumOf(await statementsIn(database, config, String(name))) !== checksum) {
      problems.push(`${name} was changed after it was applied: put it back, and write another migration`);
    }
  }
  return { applied, pending, problems };
}
