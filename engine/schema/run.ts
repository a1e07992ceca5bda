import type { Database, DatabaseConfig } from '../database/index.ts';
import { quote } from '../sql/index.ts';
import { failureOf } from './failure.ts';
import { migrationPath } from './ledger.ts';
import { online } from './online.ts';
import { type Retype, type Step, type StoredColumn, staged, storedColumnsSql } from './retype.ts';
import { type Execute, hasRows } from './session.ts';

/** What of a migration runs in its transaction. */
interface Parts {
  readonly parts: readonly (string | Retype)[];
  /** Whether types change in steps in any case: nodes that know the old ones may store the first row. */
  readonly isStaged?: boolean;
}

/** Runs the statements of a migration. @returns what has to be done after the transaction */
export async function runEach(
  { kind }: Pick<Database, 'kind'>,
  config: DatabaseConfig,
  execute: Execute,
  name: string,
  { parts, isStaged = false }: Parts,
): Promise<Step[]> {
  const remaining: Step[] = [];
  const run = async (statement: string): Promise<void> => {
    const way = kind === 'postgresql' ? online(statement) : undefined;
    const isOnline =
      way !== undefined &&
      (await hasRows(execute, `select 'one' as name from ${quote(way.table)} limit 1`)) &&
      !(way.obstacle !== undefined && (await hasRows(execute, way.obstacle)));
    if (isOnline) remaining.push(...way.later);
    const sql = isOnline ? way.now : statement;
    if (sql === undefined) return;
    await execute(sql).catch((cause: unknown) => {
      throw failureOf(cause, migrationPath(config, name), statement) ?? cause;
    });
  };
  for (const part of parts) {
    if (typeof part === 'string') await run(part);
    else if (isStaged || (await hasRows(execute, `select from ${quote(part.table)} limit 1`))) {
      const stored = (await execute(storedColumnsSql(part.table))) as unknown as StoredColumn[];
      const { now, later } = staged(part, stored);
      for (const statement of now) await run(statement);
      remaining.push(...later);
    } else for (const statement of part.statements) await run(statement);
  }
  return remaining;
}
