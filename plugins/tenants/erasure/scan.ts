import { type RawBuilder, sql } from 'kysely';
import { isStatementTimeout } from '../../../engine/database/index.ts';
import { arrayText } from '../../../engine/sql/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** A SQL statement. */
export interface Query<Row> {
  readonly execute: (tables: Tables) => Promise<{ readonly rows: readonly Row[] }>;
}

/** Runs a statement that reads a few rows, and returns them. */
export type RunStatement = <Row>(query: Query<Row>) => Promise<readonly Row[]>;

/** Options of a search. */
export interface SearchOptions {
  readonly run: RunStatement;
  /** Called after each statement with the number of rows searched so far. Can throw to stop the search. */
  readonly progress?: (rows: number) => Promise<void>;
}

/** The primary key of a row, without the organization, as text. */
export type Key = readonly string[];

/** Columns with their PostgreSQL types. */
type Columns = readonly (readonly [column: string, type: string])[];

/** A search in a tenant table. Conditions refer to its rows as `t`. */
interface Scanned {
  readonly table: string;
  /** The primary key, without the organization. */
  readonly key: Columns;
  readonly matches: RawBuilder<unknown>;
  /** Additional columns of matching rows to return as text. */
  readonly further?: readonly string[];
}

/** Yields the keys of an organization's matching rows, each followed by the additional columns. */
export type Scan = (scanned: Scanned) => AsyncGenerator<Key>;

/** Number of rows that the first statement on a table reads, and the maximum. */
const [firstRows, mostRows] = [100, 2000];
/** Target duration of a statement in milliseconds. Slower statements shrink the next batch; those four times faster enlarge it. */
const targetMs = 200;

/** Searches tables in key order, a few rows per statement. */
export function scanning({ run, progress }: SearchOptions, organization: string): Scan {
  let searched = 0;
  return async function* ({ table, key, matches, further = [] }) {
    const columns = [...key.map(([column]) => column), ...further];
    const text = sql`array[${sql.join(columns.map((column) => sql`${sql.ref(`t.${column}`)}::text`))}]`;
    const order = sql.join(key.map(([column]) => sql.ref(`t.${column}`)));
    let size = firstRows;
    for (let after: Key | undefined; ; ) {
      const beyond = after === undefined ? sql`true` : sql`(${order}) > (${valuesOf(key, after)})`;
      const start = performance.now();
      let rows: readonly { values: Key; found: boolean }[];
      try {
        rows = await run(sql<{ values: Key; found: boolean }>`
          select ${text} as values, ${matches} as found from ${sql.table(table)} t
          where t.organization_id = ${organization}::bigint and ${beyond} order by ${order} limit ${sql.lit(size)}`);
      } catch (cause) {
        // With very long values, one row per statement is the minimum.
        if (!isStatementTimeout(cause) || size === 1) throw cause;
        size = 1;
        continue;
      }
      const took = performance.now() - start;
      searched += rows.length;
      await progress?.(searched);
      for (const { values, found } of rows) if (found) yield values;
      if (rows.length < size) return;
      after = rows.at(-1)?.values.slice(0, key.length);
      if (took > targetMs) size = Math.max(1, Math.floor(size / 4));
      else if (took < targetMs / 4) size = Math.min(mostRows, size * 2);
    }
  };
}

const valuesOf = (key: Columns, values: Key) =>
  sql.join(key.map(([, type], index) => sql`${values[index] ?? ''}::text::${sql.raw(type)}`));

/** SQL condition that row `t` has one of the keys. */
export const hasKey = (key: Columns, keys: readonly Key[]): RawBuilder<unknown> => {
  const lists = key.map(
    ([, type], index) => sql`${arrayText(keys.map((each) => each[index] ?? ''))}::${sql.raw(type)}[]`,
  );
  const own = sql.join(key.map(([column]) => sql.ref(`t.${column}`)));
  return sql`(${own}) in (select * from unnest(${sql.join(lists)}))`;
};

/** Splits a list into chunks of a maximum size. */
export function* chunks<T>(all: readonly T[], size: number): Generator<T[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size);
}
