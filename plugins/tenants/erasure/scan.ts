import { type RawBuilder, sql } from 'kysely';
import { isStatementTimeout } from '../../../engine/database/index.ts';
import { arrayText } from '../../../engine/sql/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** An SQL statement. */
export interface RowQuery<Row> {
  readonly execute: (tables: Tables) => Promise<{ readonly rows: readonly Row[] }>;
}

/** Runs a statement that reads only a few rows, and returns the rows. */
export type RunStatement = <Row>(query: RowQuery<Row>) => Promise<readonly Row[]>;

/** Options for a search. */
export interface SearchOptions {
  readonly run: RunStatement;
  /** Called after each statement with the number of rows searched so far. Throws to stop the search. */
  readonly progress?: (rows: number) => Promise<void>;
}

/** A row's primary key values as strings, without the organization. */
export type Key = readonly string[];

/** Columns with their PostgreSQL types. */
type Columns = readonly (readonly [column: string, type: string])[];

/** A search in a tenant table. Its conditions refer to the table's rows as `t`. */
interface TableSearch {
  readonly table: string;
  /** Primary key columns, without the organization. */
  readonly key: Columns;
  readonly matches: RawBuilder<unknown>;
  /** Additional columns to return for matching rows, as strings. */
  readonly extraColumns?: readonly string[];
}

/** Yields an organization's matching rows: each row's key values, followed by its additional columns. */
export type Scan = (search: TableSearch) => AsyncGenerator<Key>;

/** Number of rows read by the first statement on a table, and maximum number of rows per statement. */
const [firstRows, maxRows] = [100, 2000];
/**
 * Target duration for a statement, in milliseconds. If a statement takes longer, the next batch is smaller.
 * If it takes less than a quarter of this time, the next batch is larger.
 */
const targetMs = 200;

/** Creates a scan that reads tables in key order, a few rows per statement. */
export function createScan({ run, progress }: SearchOptions, organization: string): Scan {
  let searched = 0;
  return async function* ({ table, key, matches, extraColumns = [] }) {
    const columns = [...key.map(([column]) => column), ...extraColumns];
    const text = sql`array[${sql.join(columns.map((column) => sql`${sql.ref(`t.${column}`)}::text`))}]`;
    const order = sql.join(key.map(([column]) => sql.ref(`t.${column}`)));
    let size = firstRows;
    for (let after: Key | undefined; ; ) {
      const afterKey = after === undefined ? sql`true` : sql`(${order}) > (${valuesOf(key, after)})`;
      const start = performance.now();
      let rows: readonly { values: Key; found: boolean }[];
      try {
        rows = await run(sql<{ values: Key; found: boolean }>`
          select ${text} as values, ${matches} as found from ${sql.table(table)} t
          where t.organization_id = ${organization}::bigint and ${afterKey} order by ${order} limit ${sql.lit(size)}`);
      } catch (cause) {
        // The rows contain very long values, so the search continues with one row per statement.
        if (!isStatementTimeout(cause) || size === 1) throw cause;
        size = 1;
        continue;
      }
      const elapsedMs = performance.now() - start;
      searched += rows.length;
      await progress?.(searched);
      for (const { values, found } of rows) if (found) yield values;
      if (rows.length < size) return;
      after = rows.at(-1)?.values.slice(0, key.length);
      if (elapsedMs > targetMs) size = Math.max(1, Math.floor(size / 4));
      else if (elapsedMs < targetMs / 4) size = Math.min(maxRows, size * 2);
    }
  };
}

const valuesOf = (key: Columns, values: Key) =>
  sql.join(key.map(([, type], index) => sql`${values[index] ?? ''}::text::${sql.raw(type)}`));

/** Returns an SQL condition that is true if row `t` has one of the keys. */
export const keyCondition = (key: Columns, keys: readonly Key[]): RawBuilder<unknown> => {
  const lists = key.map(
    ([, type], index) => sql`${arrayText(keys.map((values) => values[index] ?? ''))}::${sql.raw(type)}[]`,
  );
  const columns = sql.join(key.map(([column]) => sql.ref(`t.${column}`)));
  return sql`(${columns}) in (select * from unnest(${sql.join(lists)}))`;
};

/** Splits a list into chunks of a maximum size. */
export function* chunks<T>(items: readonly T[], size: number): Generator<T[]> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size);
}
