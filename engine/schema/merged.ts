import { join } from 'node:path';
import type { DatabaseConfig } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { type Change, ofKind } from './changes/change.ts';
import { listedChanges } from './migration-log.ts';
import { migrationSequences, patchFile, readJson, type Sequence } from './sequences.ts';
import type { ModelPatch } from './stored-model.ts';

/**
 * Checks that no two migrations add the same column. Merging two branches that add the same field can cause
 * this: each migration is valid on its own, but they cannot both be applied.
 * @throws UserError with each column and both migrations
 */
export async function assertAddedOnce(config: DatabaseConfig): Promise<void> {
  const problems: string[] = [];
  for (const sequence of migrationSequences(config)) problems.push(...(await duplicateAdditions(sequence)));
  if (problems.length > 0) throw new UserError(problems.join('\n'));
}

async function duplicateAdditions({ folder, files, patches }: Sequence): Promise<string[]> {
  /** The migration that first added each column, keyed by `table.column`. */
  const firstAdditions = new Map<string, string>();
  const problems: string[] = [];
  for (const migration of patches) {
    const file = files.get(migration);
    if (file === undefined) continue;
    const patch = readJson(join(folder, patchFile(migration))) as ModelPatch;
    rename(firstAdditions, patch.renamed);
    for (const [table, change] of Object.entries(patch.tables)) {
      for (const key of firstAdditions.keys()) {
        const column = key.slice(table.length + 1);
        const isDropped = change === null || change.columns?.[column] === null;
        if (key.startsWith(`${table}.`) && isDropped) firstAdditions.delete(key);
      }
    }
    for (const key of addedColumns(await listedChanges(join(folder, file), migration))) {
      const firstMigration = firstAdditions.get(key);
      firstAdditions.set(key, migration);
      if (firstMigration === undefined) continue;
      problems.push(
        `${join(folder, file)}  adds ${key}, which ${firstMigration} already adds. Delete this migration and ${patchFile(migration)}, then run "crm migrate --create" for the rest of its changes.`,
      );
    }
  }
  return problems;
}

/** Returns the added columns as `table.column`, except columns that a migration replaces. */
function addedColumns(changes: readonly Change[]): readonly string[] {
  const replaced = ofKind(changes, 'dropColumns').flatMap(({ table, columns }) =>
    columns.map((column) => `${table}.${column}`),
  );
  return ofKind(changes, 'addColumns')
    .flatMap(({ table, columns }) => Object.keys(columns).map((column) => `${table}.${column}`))
    .filter((name) => !replaced.includes(name));
}

/** Updates the keys when tables and columns are renamed. */
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
