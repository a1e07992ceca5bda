import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseConfig } from '../database/index.ts';
import { fileReason, UserError } from '../errors.ts';

/** Migrations whose order among themselves counts. */
export interface Sequence {
  readonly folder: string;
  /** Their files by name, in their order. */
  readonly files: ReadonlyMap<string, string>;
  /** What each changed of the model, as JSON files in the folder. */
  readonly patches: readonly string[];
}

/** The file with what a migration changes of the model. @param migration the name of the migration */
export const patchFile = (migration: string): string => `${migration}.json`;

/**
 * The migrations of an instance: one sequence, or the platform's and one of its own. Then the platform's are those of
 * this package that change no resource: what becomes of the tables of resources is for the instance to say, which may
 * have changed their definitions.
 */
export function migrationSequences({
  migrations,
  platformMigrations,
}: Pick<DatabaseConfig, 'migrations' | 'platformMigrations'>): readonly Sequence[] {
  const own = sequence(migrations, () => true);
  if (platformMigrations === null) return [own];
  return [sequence(platformMigrations, (name) => changesNoResource(platformMigrations, name)), own];
}

function sequence(folder: string, has: (migration: string) => boolean): Sequence {
  const names = existsSync(folder) ? namesIn(folder) : [];
  const files = names
    .filter((name) => /^Migration\d+.*(?<!\.d)\.[jt]s$/.test(name))
    .map((name): [string, string] => [name.replace(/\.[jt]s$/, ''), name])
    .filter(([name]) => has(name));
  const patches = names
    .filter((name) => /^Migration\d+.*\.json$/.test(name))
    .map((name) => name.replace(/\.json$/, ''));
  return { folder, files: new Map(files), patches: patches.filter(has) };
}

/** @throws UserError if the path is not a folder */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).sort();
  } catch (cause) {
    throw new UserError(`cannot read the folder ${folder}: ${fileReason(cause)}`, { cause });
  }
}

/** Migrations without a patch are older than patches, and every instance begins with them. */
function changesNoResource(folder: string, migration: string): boolean {
  const path = join(folder, patchFile(migration));
  if (!existsSync(path)) return true;
  const { tables, api = {} } = JSON.parse(readFileSync(path, 'utf8')) as Record<'tables' | 'api', object>;
  return Object.keys(tables).every((name) => name.startsWith('crm_')) && Object.keys(api).length === 0;
}
