import type { Database, TableShapes } from '../database/index.ts';

/** A table in the database: columns with types, valid indexes and constraints, and enabled triggers. */
interface ActualTable {
  readonly columns: ReadonlyMap<string, string>;
  readonly names: ReadonlySet<string>;
  readonly triggers: ReadonlySet<string>;
}

const columnsSql = `select c.relname::text, a.attname::text, format_type(a.atttypid, null), a.attnotnull::text
  from pg_attribute a join pg_class c on c.oid = a.attrelid
  where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped`;
const namesSql = `select c.relname::text, i.indexrelid::regclass::text, (i.indisvalid)::text from pg_index i join pg_class c on c.oid = i.indrelid
  where c.relnamespace = current_schema()::regnamespace
  union all select c.relname::text, k.conname::text, k.convalidated::text from pg_constraint k join pg_class c on c.oid = k.conrelid
  where c.relnamespace = current_schema()::regnamespace and k.contype in ('f', 'c')`;
const triggersSql = `select c.relname::text, g.tgname::text from pg_trigger g join pg_class c on c.oid = g.tgrelid
  where c.relnamespace = current_schema()::regnamespace and not g.tgisinternal and g.tgenabled in ('O', 'A')`;

const types: Readonly<Record<string, string>> = { int: 'integer', timestamptz: 'timestamp with time zone' };
/** Returns PostgreSQL's name for a type, without a length. */
export const typeName = (type: unknown): string => {
  const [name = ''] = String(type).split('(');
  return types[name] ?? name;
};
const unquoted = (name: string): string => name.replaceAll('"', '');

/** Returns differences between a database and its migrations, one per line. Ignores additional tables. */
export async function driftOf(
  { run }: Pick<Database, 'run'>,
  expected: TableShapes,
): Promise<readonly string[]> {
  const tables = new Map<
    string,
    ActualTable & { columns: Map<string, string>; names: Set<string>; triggers: Set<string> }
  >();
  const tableOf = (name: unknown) => {
    const table = tables.get(String(name)) ?? { columns: new Map(), names: new Set(), triggers: new Set() };
    tables.set(String(name), table);
    return table;
  };
  for (const [table, column, type, notNull] of await run({ name: '', text: columnsSql, values: [] })) {
    tableOf(table).columns.set(String(column), `${type}${notNull === 'true' ? ' not null' : ''}`);
  }
  for (const [table, name, isValid] of await run({ name: '', text: namesSql, values: [] })) {
    if (isValid === 'true') tableOf(table).names.add(unquoted(String(name)));
  }
  for (const [table, name] of await run({ name: '', text: triggersSql, values: [] })) {
    tableOf(table).triggers.add(String(name));
  }
  return Object.entries(expected).flatMap(([table, { columns, indexes, foreignKeys, checks, triggers }]) => {
    const actual = tables.get(table);
    if (actual === undefined) return [`the table ${table} is missing`];
    const lines: string[] = [];
    for (const [name, { type, nullable }] of Object.entries(columns)) {
      const expectedType = `${typeName(type)}${nullable === true ? '' : ' not null'}`;
      const actualType = actual.columns.get(name);
      if (actualType === undefined) lines.push(`the column ${table}.${name} is missing`);
      else if (actualType !== expectedType)
        lines.push(`the column ${table}.${name} is ${actualType}, not ${expectedType}`);
    }
    for (const name of actual.columns.keys()) {
      if (!Object.hasOwn(columns, name))
        lines.push(`the column ${table}.${name} was not created by a migration`);
    }
    for (const name of [indexes, foreignKeys, checks].flatMap(Object.keys)) {
      if (!actual.names.has(name)) lines.push(`${name} of ${table} is missing or invalid`);
    }
    for (const name of Object.keys(triggers)) {
      if (!actual.triggers.has(name)) lines.push(`the trigger ${name} of ${table} is missing or disabled`);
    }
    return lines;
  });
}
