import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseConfig } from '../database/index.ts';
import { fileReason, UserError } from '../errors.ts';

/** The migrations in a folder, which are applied in order. */
export interface Sequence {
  readonly folder: string;
  /** File names, keyed by migration name, in order. */
  readonly files: ReadonlyMap<string, string>;
  /** Names of the migrations with a model patch, in order. */
  readonly patches: readonly string[];
}

/** Returns the name of a migration's model patch file. */
export const patchFile = (migration: string): string => `${migration}.json`;

/** Reads a migration's JSON file. @throws UserError if it is not valid JSON */
export function readJson(path: string): unknown {
  const text = readFileSync(path, 'utf8');
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new UserError(`${path} is not valid JSON`, { cause });
  }
}

/**
 * Returns an instance's migrations: the platform's sequence, if configured, followed by its own. Platform
 * migrations that change resources are excluded, because the instance can define its resources differently.
 */
export function migrationSequences({
  migrations,
  platformMigrations,
}: Pick<DatabaseConfig, 'migrations' | 'platformMigrations'>): readonly Sequence[] {
  const ownSequence = sequence(migrations, () => true);
  if (platformMigrations === null) return [ownSequence];
  return [sequence(platformMigrations, (name) => changesNoResource(platformMigrations, name)), ownSequence];
}

function sequence(folder: string, isIncluded: (migration: string) => boolean): Sequence {
  const names = existsSync(folder) ? namesIn(folder) : [];
  const files = names
    .filter((name) => /^Migration\d+.*(?<!\.d)\.[jt]s$/.test(name))
    .map((name): [string, string] => [name.replace(/\.[jt]s$/, ''), name])
    .filter(([name]) => isIncluded(name));
  const patches = names
    .filter((name) => /^Migration\d+.*\.json$/.test(name))
    .map((name) => name.replace(/\.json$/, ''));
  return { folder, files: new Map(files), patches: patches.filter(isIncluded) };
}

/** Returns the sorted names of the files in a folder. @throws UserError if the folder cannot be read */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).sort();
  } catch (cause) {
    throw new UserError(`cannot read the folder ${folder}: ${fileReason(cause)}`, { cause });
  }
}

/**
 * Returns whether a migration changes only platform tables. Migrations without a patch are older than patches
 * and are part of every instance.
 */
function changesNoResource(folder: string, migration: string): boolean {
  const path = join(folder, patchFile(migration));
  if (!existsSync(path)) return true;
  const { tables, api = {} } = readJson(path) as Record<'tables' | 'api', object>;
  return Object.keys(tables).every((name) => name.startsWith('crm_')) && Object.keys(api).length === 0;
}
