import type { Database, DatabaseConfig } from '../database/index.ts';
import { quote } from '../sql/index.ts';
import { migrationError } from './migration-error.ts';
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

const missing = /^update "(\w+)" set "(\w+)" = (.*) where "\2" is null;?$/s;
const rowsOf = (table: string): string => `select from ${quote(table)} limit 1`;

/** What of a migration runs in its transaction. */
interface Parts {
  readonly parts: readonly (string | Retype)[];
  /** Whether types change in steps in any case: nodes that know the old ones may store the first row. */
  readonly isStaged?: boolean;
}

/** Runs the statements of a migration. @returns what has to be done after the transaction */
export async function runStatements(
  { kind }: Pick<Database, 'kind'>,
  config: DatabaseConfig,
  execute: Execute,
  name: string,
  { parts, isStaged = false }: Parts,
): Promise<DeferredStep[]> {
  const remaining: DeferredStep[] = [];
  const filled = new Set<string>();
  const run = async (statement: string): Promise<void> => {
    const [, table = '', column = '', value] = missing.exec(statement) ?? [];
    if (value !== undefined && kind === 'postgresql' && (await hasRows(execute, rowsOf(table)))) {
      // In one statement, others would wait for the rows until the end of the migration.
      remaining.push({ fill: table, missing: { column, value } });
      filled.add(`alter table ${quote(table)} alter column ${quote(column)} set not null`);
      return;
    }
    const way = kind === 'postgresql' ? onlineForm(statement) : undefined;
    if (way !== undefined && filled.has(statement.replace(/;$/, ''))) {
      remaining.push(...way.later);
      return;
    }
    const isOnline =
      way !== undefined &&
      (await hasRows(execute, rowsOf(way.table))) &&
      !(way.obstacle !== undefined && (await hasRows(execute, way.obstacle)));
    if (isOnline) remaining.push(...way.later);
    const sql = isOnline ? way.now : statement;
    if (sql === undefined) return;
    await execute(sql).catch((cause: unknown) => {
      throw migrationError(cause, migrationPath(config, name), statement) ?? cause;
    });
  };
  for (const part of parts) {
    if (typeof part === 'string') await run(part);
    else if (isStaged || (await hasRows(execute, rowsOf(part.table)))) {
      const stored = (await execute(storedColumnsSql(part.table))) as unknown as StoredColumn[];
      const { now, later } = stageRetype(part, stored);
      for (const statement of now) await run(statement);
      remaining.push(...later);
    } else for (const statement of part.statements) await run(statement);
  }
  return remaining;
}
