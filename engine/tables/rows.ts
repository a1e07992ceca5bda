import { type RawBuilder, sql } from 'kysely';
import { isStorable } from '../fields/index.ts';
import type { Tables } from './handle.ts';

/** The rows of a list: SQL fragments, which must not contain values from requests. */
export interface RowSource<Row extends { readonly id: string }> {
  /** The tables and their joins. */
  readonly from: string;
  /** Column that contains the ID of the organization or user to which a row belongs. */
  readonly owner: string;
  /** Condition that applies to every list. */
  readonly where?: string;
  /** SQL expression for each property of a row. `id` is unique per owner. */
  readonly columns: { readonly [Name in keyof Row]-?: string };
  /** SQL expressions for the text to search. */
  readonly search?: readonly string[];
  /** Default order, which must be unique. It also breaks ties in any other order. */
  readonly order: string;
}

/** Selects rows of a {@link RowSource}. */
interface RowQuery {
  /** Additional conditions. */
  readonly where?: readonly RawBuilder<unknown>[];
  /** Words that a row must contain, ignoring case. */
  readonly words?: readonly string[];
  /** Expression to sort by. */
  readonly sort?: { readonly by: string; readonly isDescending: boolean } | undefined;
  readonly limit?: number;
  readonly offset?: number;
}

/** Maximum number of words in a search. Additional words are ignored. */
const maxWords = 10;

/** Returns the condition for one word. With the default collation, case is ignored in all alphabets. */
const contains = (search: readonly string[], word: string) =>
  isStorable(word)
    ? sql`strpos(lower(${sql.raw(`concat_ws(E'\\n', ${search.join(', ')}) collate "default"`)}), lower(${word}::text)) > 0`
    : sql`false`;

/** Returns the FROM and WHERE clauses. Every statement is limited to the owner's rows. */
function matching<Row extends { readonly id: string }>(
  { from, owner, where, search = [] }: RowSource<Row>,
  ownerId: string,
  query: RowQuery,
): RawBuilder<unknown> {
  const conditions = [
    sql`${sql.raw(owner)} = ${ownerId}::bigint`,
    ...[...(where === undefined ? [] : [sql.raw(where)]), ...(query.where ?? [])].map(
      (condition) => sql`(${condition})`,
    ),
    ...(query.words ?? []).slice(0, maxWords).map((word) => contains(search, word)),
  ];
  return sql`from ${sql.raw(from)} where ${sql.join(conditions, sql` and `)}`;
}

/** Returns the statement for {@link listRows}. */
export function rowsStatement<Row extends { readonly id: string }>(
  source: RowSource<Row>,
  owner: string,
  query: RowQuery,
): RawBuilder<Row> {
  const columns = Object.entries<string>(source.columns).map(
    ([name, expression]) => sql`${sql.raw(expression)} as ${sql.ref(name)}`,
  );
  const { sort, limit, offset = 0 } = query;
  const order = sort === undefined ? '' : `${sort.by} ${sort.isDescending ? 'desc' : 'asc'}, `;
  const page = limit === undefined ? sql`` : sql`limit ${limit}::int offset ${offset}::bigint`;
  return sql<Row>`select ${sql.join(columns)} ${matching(source, owner, query)}
    order by ${sql.raw(order + source.order)} ${page}`;
}

/** Lists an owner's rows. IDs are decimal text, times are Date objects. */
export const listRows = async <Row extends { readonly id: string }>(
  tables: Tables,
  source: RowSource<Row>,
  owner: string,
  query: RowQuery = {},
): Promise<Row[]> => (await rowsStatement(source, owner, query).execute(tables)).rows;

/** Counts an owner's rows, up to the query's limit. */
export async function countRows<Row extends { readonly id: string }>(
  tables: Tables,
  source: RowSource<Row>,
  owner: string,
  query: RowQuery = {},
): Promise<number> {
  const { limit } = query;
  const rowsToCount = matching(source, owner, query);
  const statement = sql<{ readonly count: string }>`select count(*) as count ${
    limit === undefined ? rowsToCount : sql`from (select ${rowsToCount} limit ${limit}::int) _c`
  }`;
  const { rows } = await statement.execute(tables);
  return Number(rows[0]?.count);
}

/** Reads one of an owner's rows. */
export async function findRow<Row extends { readonly id: string }>(
  tables: Tables,
  source: RowSource<Row>,
  owner: string,
  id: string,
): Promise<Row | undefined> {
  const where = [sql`${sql.raw(source.columns.id)} = ${id}::bigint`];
  return (await listRows(tables, source, owner, { where, limit: 1 }))[0];
}
