import { type RawBuilder, sql } from 'kysely';
import { isStatementTimeout } from '../../../engine/database/index.ts';
import { arrayText } from '../../../engine/sql/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** A statement. */
export interface Query<Row> {
  readonly execute: (tables: Tables) => Promise<{ readonly rows: readonly Row[] }>;
}

/** Runs one statement, which reads a few rows, and returns its rows. */
export type RunStatement = <Row>(query: Query<Row>) => Promise<readonly Row[]>;

/** How a search runs. */
export interface SearchOptions {
  readonly run: RunStatement;
  /** Called after each statement, with the number of rows searched so far. May throw to stop the search. */
  readonly progress?: (rows: number) => Promise<void>;
}

/** The values of a row's primary key after the organization, as text. */
export type Key = readonly string[];

/** Columns with their PostgreSQL types. */
type Columns = readonly (readonly [column: string, type: string])[];

/** What is searched for in a table of tenants, whose rows are called `t`. */
interface Scanned {
  readonly table: string;
  /** Its primary key after the organization. */
  readonly key: Columns;
  readonly matches: RawBuilder<unknown>;
  /** Further columns of matching rows, as text. */
  readonly further?: readonly string[];
}

/** The keys of matching rows of an organization, each followed by the further columns. */
export type Scan = (scanned: Scanned) => AsyncGenerator<Key>;

/** Rows that the first statement on a table reads, and the most that one reads. */
const [firstRows, mostRows] = [100, 2000];
/** A statement that takes longer is followed by smaller ones, one that takes less than a quarter by larger ones, in milliseconds. */
const targetMs = 200;

/** Searches tables in the order of their keys, a few rows with each statement. */
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
        // Very long values: one row at a time is as little as there is.
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

/** The condition that a row `t` has one of some keys. */
export const hasKey = (key: Columns, keys: readonly Key[]): RawBuilder<unknown> => {
  const lists = key.map(
    ([, type], index) => sql`${arrayText(keys.map((each) => each[index] ?? ''))}::${sql.raw(type)}[]`,
  );
  const own = sql.join(key.map(([column]) => sql.ref(`t.${column}`)));
  return sql`(${own}) in (select * from unnest(${sql.join(lists)}))`;
};

/** Parts of a list, each with so many items at most. */
export function* chunks<T>(all: readonly T[], size: number): Generator<T[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size);
}
