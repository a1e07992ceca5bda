import type { Database, DatabaseConfig } from '../database/index.ts';
import { quote } from '../sql/index.ts';
import { assertNoDependents, droppedParts } from './dependents.ts';
import { migrationError, nothingMigrated } from './migration-error.ts';
import { migrationPath } from './migration-log.ts';
import { onlineForm } from './online.ts';
import {
  type DeferredStep,
  type Retype,
  type StoredColumn,
  stageRetype,
  storedColumnsSql,
} from './retype.ts';
import { type Execute, hasRows } from './session.ts';

const backfillPattern = /^update "(\w+)" set "(\w+)" = (.*) where "\2" is null;?$/s;
/** Whether a statement fills missing values, which can run in batches after the transaction. */
export const isBackfill = (sql: string): boolean => backfillPattern.test(sql);

const rowsOf = (table: string): string => `select from ${quote(table)} limit 1`;

/** The statements of a migration's transaction. */
interface TransactionSteps {
  readonly parts: readonly (string | Retype)[];
  /** Whether types change in steps even if the table is empty, because older nodes can store rows. */
  readonly isStaged?: boolean;
}

/** Runs the statements of a migration. @returns the steps to run after the transaction */
export async function runStatements(
  { kind }: Pick<Database, 'kind'>,
  config: DatabaseConfig,
  execute: Execute,
  name: string,
  { parts, isStaged = false }: TransactionSteps,
): Promise<DeferredStep[]> {
  const remaining: DeferredStep[] = [];
  const deferredNotNull = new Set<string>();
  const run = async (statement: string): Promise<void> => {
    const [, table = '', column = '', value] = backfillPattern.exec(statement) ?? [];
    if (value !== undefined && kind === 'postgresql' && (await hasRows(execute, rowsOf(table)))) {
      // A single UPDATE would lock the rows until the migration commits, so they are backfilled in batches later.
      remaining.push({ fill: table, missing: { column, value } });
      deferredNotNull.add(`alter table ${quote(table)} alter column ${quote(column)} set not null`);
      return;
    }
    const online = kind === 'postgresql' ? onlineForm(statement) : undefined;
    if (online !== undefined && deferredNotNull.has(statement.replace(/;$/, ''))) {
      remaining.push(...online.later);
      return;
    }
    const isOnline =
      online !== undefined &&
      (await hasRows(execute, rowsOf(online.table))) &&
      !(online.obstacle !== undefined && (await hasRows(execute, online.obstacle)));
    if (isOnline) remaining.push(...online.later);
    const sql = isOnline ? online.now : statement;
    if (sql === undefined) return;
    await execute(sql).catch((cause: unknown) => {
      throw migrationError(cause, migrationPath(config, name), statement) ?? cause;
    });
  };
  for (const step of parts) {
    if (typeof step === 'string') await run(step);
    else if (isStaged || (await hasRows(execute, rowsOf(step.table)))) {
      const { columns, gone, drops } = step;
      const retyped = {
        table: step.table,
        columns: [...columns.map((column) => column.name), ...gone],
        known: droppedParts(drops),
      };
      await assertNoDependents(execute, retyped, nothingMigrated);
      const storedColumns = (await execute(storedColumnsSql(step.table))) as unknown as StoredColumn[];
      const { now, later } = stageRetype(step, storedColumns);
      for (const statement of now) await run(statement);
      remaining.push(...later);
    } else for (const statement of step.statements) await run(statement);
  }
  return remaining;
}
