import type { Database, DatabaseConfig } from '../database/index.ts';
import { quote } from '../sql/index.ts';
import type { Change } from './changes/change.ts';
import { kindOf } from './changes/index.ts';
import { replacedParts } from './changes/retype-columns.ts';
import { assertNoDependents } from './dependents.ts';
import { migrationError, nothingMigrated } from './migration-error.ts';
import { migrationPath } from './migration-log.ts';
import { type Execute, hasRows } from './session.ts';
import { type DeferredStep, storedColumns } from './steps.ts';

/** The changes to make in a migration's transaction. */
interface TransactionChanges {
  readonly changes: readonly Change[];
  /** Whether types change in steps even if the table is empty, because older nodes can insert rows. */
  readonly isStaged?: boolean;
}

/** Applies a migration's changes. @returns the steps to run after the transaction */
export async function runChanges(
  { kind: driver }: Pick<Database, 'kind'>,
  config: DatabaseConfig,
  execute: Execute,
  name: string,
  { changes, isStaged = false }: TransactionChanges,
): Promise<DeferredStep[]> {
  const remaining: DeferredStep[] = [];
  /** Columns whose null values are filled after the transaction. */
  const filledLater = new Set<string>();
  const executeNamed: Execute = (sql) =>
    execute(sql).catch((cause: unknown) => {
      throw migrationError(cause, migrationPath(config, name), sql) ?? cause;
    });
  const run = async (statements: readonly string[]): Promise<void> => {
    for (const sql of statements) await executeNamed(sql);
  };
  for (const change of changes) {
    const kind = kindOf(change);
    const isRetype = change.kind === 'retypeColumns';
    const table = change.table ?? '';
    const isOnline =
      driver === 'postgresql' &&
      kind.online !== undefined &&
      ((isRetype && isStaged) || (await hasRows(executeNamed, `select from ${quote(table)} limit 1`)));
    if (isOnline && isRetype) await assertNoDependents(executeNamed, replacedParts(change), nothingMigrated);
    const online = isOnline ? kind.online?.(change, await storedColumns(executeNamed, table)) : undefined;
    if (online === undefined) {
      await run(kind.sql(change));
      continue;
    }
    const key = 'column' in change ? `${table}.${change.column}` : '';
    if (change.kind === 'backfill') filledLater.add(key);
    if (change.kind === 'nullability' && filledLater.has(key)) {
      remaining.push(...online.later);
      continue;
    }
    if (online.obstacle !== undefined && (await hasRows(executeNamed, online.obstacle))) {
      await run(kind.sql(change));
      continue;
    }
    await run(online.now);
    remaining.push(...online.later);
  }
  return remaining;
}
