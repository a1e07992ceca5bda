import type { Database, TableShapes } from '../database/index.ts';

/** The tables of ours that a database has: columns with their types, indexes and foreign keys. */
interface Found {
  readonly columns: ReadonlyMap<string, string>;
  readonly names: ReadonlySet<string>;
}

const columnsSql = `select c.relname::text, a.attname::text, format_type(a.atttypid, null), a.attnotnull::text
  from pg_attribute a join pg_class c on c.oid = a.attrelid
  where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped`;
const namesSql = `select c.relname::text, i.indexrelid::regclass::text, (i.indisvalid)::text from pg_index i join pg_class c on c.oid = i.indrelid
  where c.relnamespace = current_schema()::regnamespace
  union all select c.relname::text, k.conname::text, k.convalidated::text from pg_constraint k join pg_class c on c.oid = k.conrelid
  where c.relnamespace = current_schema()::regnamespace and k.contype = 'f'`;

const types: Readonly<Record<string, string>> = { int: 'integer', timestamptz: 'timestamp with time zone' };
/** A type as PostgreSQL names it, without its length. */
export const typeName = (type: unknown): string => {
  const [name = ''] = String(type).split('(');
  return types[name] ?? name;
};
const unquoted = (name: string): string => name.replaceAll('"', '');

/**
 * How the tables of a database differ from what its migrations made, a line for each difference. Tables that are none of
 * ours are nobody's business.
 */
export async function driftOf(
  { run }: Pick<Database, 'run'>,
  expected: TableShapes,
): Promise<readonly string[]> {
  const found = new Map<string, Found & { columns: Map<string, string>; names: Set<string> }>();
  const tableOf = (name: unknown) => {
    const table = found.get(String(name)) ?? { columns: new Map(), names: new Set<string>() };
    found.set(String(name), table);
    return table;
  };
  for (const [table, column, type, notNull] of await run({ name: '', text: columnsSql, values: [] })) {
    tableOf(table).columns.set(String(column), `${type}${notNull === 'true' ? ' not null' : ''}`);
  }
  for (const [table, name, isValid] of await run({ name: '', text: namesSql, values: [] })) {
    if (isValid === 'true') tableOf(table).names.add(unquoted(String(name)));
  }
  return Object.entries(expected).flatMap(([table, { columns, indexes, foreignKeys }]) => {
    const actual = found.get(table);
    if (actual === undefined) return [`the table ${table} is missing`];
    const lines: string[] = [];
    for (const [name, { type, nullable }] of Object.entries(columns)) {
      const wanted = `${typeName(type)}${nullable === true ? '' : ' not null'}`;
      const is = actual.columns.get(name);
      if (is === undefined) lines.push(`the column ${table}.${name} is missing`);
      else if (is !== wanted) lines.push(`the column ${table}.${name} is ${is}, not ${wanted}`);
    }
    for (const name of actual.columns.keys()) {
      if (!Object.hasOwn(columns, name)) lines.push(`the column ${table}.${name} is in no migration`);
    }
    for (const name of [...Object.keys(indexes), ...Object.keys(foreignKeys)]) {
      if (!actual.names.has(name)) lines.push(`${name} of ${table} is missing, or not valid`);
    }
    return lines;
  });
}
