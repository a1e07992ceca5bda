import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Migration } from '@mikro-orm/migrations';
import { type Database, type DatabaseConfig, migrationsTable } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { quote } from '../sql/index.ts';
import type { Change } from './changes/change.ts';
import { problemIn } from './changes/index.ts';
import { raw } from './changes/raw.ts';
import { listNodes, nodesWithoutMigration } from './nodes.ts';
import { migrationSequences } from './sequences.ts';
import { finishingContract } from './session.ts';
import { type DeferredStep, stepTables } from './steps.ts';

/** The state of a database's migrations, compared with the migration files. */
export interface MigrationLog {
  /** Applied migrations, in the order in which they were applied. */
  readonly applied: readonly string[];
  readonly pending: readonly string[];
  /** Migrations whose contract is pending, with the reason, one line each. */
  readonly waiting: readonly string[];
  /** Migrations whose transaction is committed but whose deferred steps are not complete. Also pending. */
  readonly unfinished: readonly UnfinishedMigration[];
  /** Tables with remaining steps or contract statements, which can differ from the model. */
  readonly unfinishedTables: readonly string[];
  /** Differences between the migration log and the files, one line each. */
  readonly problems: readonly string[];
}

/** A migration with remaining steps. */
export interface UnfinishedMigration {
  readonly name: string;
  /** Description of the migration's state, including the command that finishes it. */
  readonly text: string;
}

type MigrationClass = new (...args: ConstructorParameters<typeof Migration>) => Migration;

/** Returns a migration's name from the name in the migration log, which can include a file extension. */
export const migrationName = (stored: string | undefined): string => (stored ?? '').replace(/\.[jt]s$/, '');

/** Returns the names of an instance's migration files without extensions, in order. */
export const migrationNames = (config: DatabaseConfig): string[] =>
  migrationSequences(config)
    .flatMap(({ files }) => [...files.keys()])
    .sort();

/** Returns the path of a migration's file. */
export function migrationPath(config: DatabaseConfig, name: string): string {
  const { folder, files } = migrationSequences(config).find((sequence) => sequence.files.has(name)) ?? {};
  return join(folder ?? config.migrations, files?.get(name) ?? name);
}

/** The changes in a migration file. */
export interface MigrationFile {
  readonly changes: readonly Change[];
  /** A checksum that does not depend on the file's formatting. */
  readonly checksum: string;
}

/**
 * Reads a migration file, which exports either a list of changes or a class with hand-written statements.
 * @throws UserError if it exports neither, or an invalid change
 */
export async function readMigration(
  { orm }: Pick<Database, 'orm'>,
  config: DatabaseConfig,
  name: string,
): Promise<MigrationFile> {
  const exported = await importMigration(migrationPath(config, name), name);
  if (typeof exported !== 'function') return { changes: exported, checksum: checksumOf(exported) };
  const migration = new exported(orm.em.getDriver(), orm.config);
  await migration.up();
  const statements = migration.getQueries().map(String);
  return { changes: statements.map(raw), checksum: checksumOf(statements) };
}

/**
 * Returns the changes listed in a migration file, or a hand-written statement in place of a class.
 * @throws UserError for the same reasons as {@link readMigration}
 */
export async function listedChanges(path: string, name: string): Promise<readonly Change[]> {
  const exported = await importMigration(path, name);
  return typeof exported === 'function' ? [raw(String(exported))] : exported;
}

async function importMigration(path: string, name: string): Promise<readonly Change[] | MigrationClass> {
  const exported = (await import(pathToFileURL(path).href).catch((cause: unknown) => {
    const [reason] = String(cause).split('\n');
    throw new UserError(`cannot read ${path}: ${reason}`, { cause });
  })) as Readonly<Record<string, readonly Change[] | MigrationClass>>;
  const content = exported.changes ?? exported[name] ?? Object.values(exported)[0];
  if (content === undefined) throw new UserError(`${path} does not export a migration`);
  if (typeof content === 'function') return content;
  const problem = problemIn(content);
  if (problem === undefined) return content;
  throw new UserError(`${path}: ${problem}`);
}

const checksumOf = (value: readonly unknown[]): string =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex');

/** Parses the changes in a row's `contract` column, in which earlier versions stored statements. */
export const contractChanges = (json: string): readonly Change[] =>
  (JSON.parse(json) as (string | Change)[]).map((change) =>
    typeof change === 'string' ? raw(change) : change,
  );

/** Reads the migration log and compares it with the migration files. */
export async function readMigrationLog(database: Database, config: DatabaseConfig): Promise<MigrationLog> {
  const table = quote(migrationsTable);
  const [exists] = await database.run({
    name: '',
    text: `select to_regclass($1)::text`,
    values: [table],
  });
  const rows =
    exists?.[0] === null
      ? []
      : await database.run({
          name: '',
          text: `select "name"::text, to_jsonb(m) ->> 'checksum', to_jsonb(m) ->> 'remaining', to_jsonb(m) ->> 'contract' from ${table} m order by "id"`,
          values: [],
        });
  const applied = rows
    .filter(([, , remaining, contract]) => remaining === null || contract === finishingContract)
    .map(([name]) => migrationName(String(name)));
  const files = migrationNames(config);
  const pending = files.filter((name) => !applied.includes(name));
  const lastFile = files.at(-1) ?? '';
  const problems: string[] = [];
  for (const name of applied.filter((candidate) => !files.includes(candidate))) {
    problems.push(
      name > lastFile
        ? `the database is ahead of this code: it has ${name}, which is not in ${config.migrations}`
        : `${name} was applied, but its file is missing from ${config.migrations}`,
    );
  }
  for (const { files: names } of migrationSequences(config)) {
    const latest = [...names.keys()].filter((name) => applied.includes(name)).at(-1) ?? '';
    for (const name of pending.filter((candidate) => names.has(candidate) && candidate < latest)) {
      problems.push(
        `${name} was skipped, because the later migration ${latest} is already applied. It will be applied now.`,
      );
    }
  }
  for (const [storedName, checksum] of rows) {
    const name = migrationName(String(storedName));
    if (checksum === null || !files.includes(name)) continue;
    if ((await readMigration(database, config, name)).checksum !== checksum) {
      problems.push(`${name} was changed after it was applied. Restore it, and create another migration.`);
    }
  }
  const waiting: string[] = [];
  const unfinishedTables = new Set<string>();
  const contracts = rows.filter(([, , , contract]) => contract !== null);
  const nodes =
    contracts.length === 0
      ? []
      : await listNodes((sql) => database.orm.em.fork().getConnection().execute(sql, [], 'all'));
  for (const [storedName] of contracts) {
    const name = migrationName(String(storedName));
    const outdatedNodes = nodesWithoutMigration(nodes, name).map(({ description }) => description);
    const reason =
      outdatedNodes.length === 0
        ? 'a node or the next "crm migrate" will do it'
        : `it is waiting for ${outdatedNodes.join(', and for ')}`;
    waiting.push(`${name} still has to drop objects that older nodes use: ${reason}`);
  }
  const unfinished: UnfinishedMigration[] = [];
  for (const [storedName, , remaining, contract] of rows) {
    const steps = parseSteps(remaining);
    const later = typeof contract === 'string' ? contractChanges(contract) : [];
    for (const table of [...stepTables(steps), ...later.flatMap(({ table }) => table ?? [])])
      unfinishedTables.add(table);
    const name = migrationName(String(storedName));
    if (steps.length === 0 || applied.includes(name)) continue;
    const tables = [...new Set(stepTables(steps))].join(', ');
    const location = tables === '' ? '' : ` on ${tables}`;
    unfinished.push({
      name,
      text: `${name} is not finished: ${steps.length} ${steps.length === 1 ? 'step remains' : 'steps remain'}${location}. Unless it is still running, run "crm migrate" to finish it.`,
    });
  }
  return { applied, pending, problems, waiting, unfinished, unfinishedTables: [...unfinishedTables] };
}

const parseSteps = (json: unknown): DeferredStep[] =>
  typeof json === 'string' ? (JSON.parse(json) as DeferredStep[]) : [];
