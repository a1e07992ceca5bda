import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Migration } from '@mikro-orm/migrations';
import { type Database, type DatabaseConfig, migrationsTable } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { quote } from '../sql/index.ts';
import { listNodes, nodesWithoutMigration } from './nodes.ts';
import { type DeferredStep, stepTables } from './retype.ts';
import { migrationSequences } from './sequences.ts';
import { finishingContract } from './session.ts';

/** State of a database's migrations compared with the migration files. */
export interface MigrationLog {
  /** Applied migrations, in the order in which they were applied. */
  readonly applied: readonly string[];
  readonly pending: readonly string[];
  /** Migrations that are not contracted yet, with the reason, one line each. */
  readonly waiting: readonly string[];
  /** Migrations whose transaction is committed, but not all of their deferred steps. They are also pending. */
  readonly unfinished: readonly UnfinishedMigration[];
  /** Tables with remaining steps or contract statements, which can differ from the model. */
  readonly unfinishedTables: readonly string[];
  /** Differences between the migration log and the files, one line each. */
  readonly problems: readonly string[];
}

/** A migration with remaining steps. */
export interface UnfinishedMigration {
  readonly name: string;
  /** Describes the state and names the command that finishes it. */
  readonly text: string;
}

type MigrationClass = new (...args: ConstructorParameters<typeof Migration>) => Migration;

/** Returns the name of a migration from its row in the migration log, which can include a file extension. */
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

/** Returns the statements of a migration. @throws UserError if its file does not export a migration */
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

/** Returns a checksum of a migration's statements. It does not depend on the formatting of the file. */
export const checksumOf = (statements: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(statements)).digest('hex');

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
        ? `the database is ahead of this code: it has ${name}, which ${config.migrations} has not`
        : `${name} was applied, and its file is missing in ${config.migrations}`,
    );
  }
  for (const { files: names } of migrationSequences(config)) {
    const latest = [...names.keys()].filter((name) => applied.includes(name)).at(-1) ?? '';
    for (const name of pending.filter((candidate) => names.has(candidate) && candidate < latest)) {
      problems.push(
        `${name} is not applied, although ${latest}, which comes after it, is: it will be applied now`,
      );
    }
  }
  for (const [storedName, checksum] of rows) {
    const name = migrationName(String(storedName));
    if (checksum === null || !files.includes(name)) continue;
    if (checksumOf(await statementsIn(database, config, name)) !== checksum) {
      problems.push(`${name} was changed after it was applied: put it back, and write another migration`);
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
        ? 'the next migrate, or a node, does it'
        : `it waits for ${outdatedNodes.join(', and for ')}`;
    waiting.push(`${name} still has to drop what older nodes use: ${reason}`);
  }
  const unfinished: UnfinishedMigration[] = [];
  for (const [storedName, , remaining, contract] of rows) {
    const steps = parseSteps(remaining);
    for (const table of stepTables([...steps, ...parseSteps(contract)])) unfinishedTables.add(table);
    const name = migrationName(String(storedName));
    if (steps.length === 0 || applied.includes(name)) continue;
    const tables = [...new Set(stepTables(steps))].join(', ');
    unfinished.push({
      name,
      text: `${name} is not finished: ${steps.length} ${steps.length === 1 ? 'step remains' : 'steps remain'} on ${tables}. Unless it is still running, run "crm migrate" to finish it.`,
    });
  }
  return { applied, pending, problems, waiting, unfinished, unfinishedTables: [...unfinishedTables] };
}

const parseSteps = (json: unknown): DeferredStep[] =>
  typeof json === 'string' ? (JSON.parse(json) as DeferredStep[]) : [];
