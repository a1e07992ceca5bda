import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseConfig } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { migrationSequences, patchFile, type Sequence } from './sequences.ts';
import type { ModelPatch } from './stored.ts';

/**
 * Checks that no column is added by two migrations. Each of them is right by itself, as when two branches that add the same
 * field are merged, but together they cannot be applied.
 * @throws UserError naming each column with both migrations
 */
export function assertAddedOnce(config: DatabaseConfig): void {
  const problems = migrationSequences(config).flatMap(addedTwice);
  if (problems.length > 0) throw new UserError(problems.join('\n'));
}

function addedTwice({ folder, files, patches }: Sequence): string[] {
  /** The migrations that added columns, by table and column. */
  const added = new Map<string, string>();
  return patches.flatMap((migration) => {
    const file = files.get(migration);
    if (file === undefined) return [];
    const sql = readFileSync(join(folder, file), 'utf8');
    const patch = JSON.parse(readFileSync(join(folder, patchFile(migration)), 'utf8')) as ModelPatch;
    rename(added, patch.renamed);
    return Object.entries(patch.tables).flatMap(([table, change]) => {
      if (change === null) {
        for (const key of added.keys()) if (key.startsWith(`${table}.`)) added.delete(key);
        return [];
      }
      return Object.entries(change.columns ?? {}).flatMap(([column, part]) => {
        const key = `${table}.${column}`;
        if (part === null) added.delete(key);
        if (part === null || !adds(sql, table, column)) return [];
        const first = added.get(key);
        added.set(key, migration);
        if (first === undefined) return [];
        return [
          `${join(folder, file)}  adds ${key}, which ${first} adds already. Delete this migration and ${patchFile(migration)}, then run "crm migrate --create" for the rest of its changes.`,
        ];
      });
    });
  });
}

/** Whether SQL adds a column, rather than changing or replacing it. */
function adds(sql: string, table: string, column: string): boolean {
  const altered = (change: string) =>
    new RegExp(`alter table "${table}" [^;]*\\b${change} "${column}"`).test(sql);
  return altered('add(?: column)?') && !altered('drop column');
}

/** Moves columns to their new names. */
function rename(added: Map<string, string>, { tables = {}, columns = {} }: ModelPatch['renamed'] = {}): void {
  const move = (from: string, to: string) => {
    const migration = added.get(from);
    if (migration === undefined) return;
    added.delete(from);
    added.set(to, migration);
  };
  for (const [from, to] of Object.entries(tables)) {
    for (const key of [...added.keys()]) {
      if (key.startsWith(`${from}.`)) move(key, `${to}${key.slice(from.length)}`);
    }
  }
  for (const [table, names] of Object.entries(columns)) {
    for (const [from, to] of Object.entries(names)) move(`${table}.${from}`, `${table}.${to}`);
  }
}
