import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseConfig } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { migrationSequences, patchFile, type Sequence } from './sequences.ts';
import type { ModelPatch } from './stored.ts';

/**
 * Checks that two migrations do not add the same column. This happens when two branches that add the same
 * field are merged. Each migration is valid on its own, but they cannot both be applied.
 * @throws UserError with each column and both migrations
 */
export function assertAddedOnce(config: DatabaseConfig): void {
  const problems = migrationSequences(config).flatMap(duplicateAdditions);
  if (problems.length > 0) throw new UserError(problems.join('\n'));
}

function duplicateAdditions({ folder, files, patches }: Sequence): string[] {
  /** The migration that first added each column, by `table.column`. */
  const firstAdditions = new Map<string, string>();
  return patches.flatMap((migration) => {
    const file = files.get(migration);
    if (file === undefined) return [];
    const sql = readFileSync(join(folder, file), 'utf8');
    const patch = JSON.parse(readFileSync(join(folder, patchFile(migration)), 'utf8')) as ModelPatch;
    rename(firstAdditions, patch.renamed);
    return Object.entries(patch.tables).flatMap(([table, change]) => {
      if (change === null) {
        for (const key of firstAdditions.keys()) if (key.startsWith(`${table}.`)) firstAdditions.delete(key);
        return [];
      }
      return Object.entries(change.columns ?? {}).flatMap(([column, columnShape]) => {
        const key = `${table}.${column}`;
        if (columnShape === null) firstAdditions.delete(key);
        if (columnShape === null || !addsColumn(sql, table, column)) return [];
        const firstMigration = firstAdditions.get(key);
        firstAdditions.set(key, migration);
        if (firstMigration === undefined) return [];
        return [
          `${join(folder, file)}  adds ${key}, which ${firstMigration} already adds. Delete this migration and ${patchFile(migration)}, then run "crm migrate --create" for the rest of its changes.`,
        ];
      });
    });
  });
}

/** Returns whether SQL adds a column, rather than changing or replacing it. */
function addsColumn(sql: string, table: string, column: string): boolean {
  const matches = (change: string) =>
    new RegExp(`alter table "${table}" [^;]*\\b${change} "${column}"`).test(sql);
  return matches('add(?: column)?') && !matches('drop column');
}

/** Renames the keys of renamed tables and columns. */
function rename(
  additions: Map<string, string>,
  { tables = {}, columns = {} }: ModelPatch['renamed'] = {},
): void {
  const move = (from: string, to: string) => {
    const migration = additions.get(from);
    if (migration === undefined) return;
    additions.delete(from);
    additions.set(to, migration);
  };
  for (const [from, to] of Object.entries(tables)) {
    for (const key of [...additions.keys()]) {
      if (key.startsWith(`${from}.`)) move(key, `${to}${key.slice(from.length)}`);
    }
  }
  for (const [table, names] of Object.entries(columns)) {
    for (const [from, to] of Object.entries(names)) move(`${table}.${from}`, `${table}.${to}`);
  }
}
