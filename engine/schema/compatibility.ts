import { type DatabaseConfig, migrationsTable } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { literal, quote } from '../sql/index.ts';
import { typeName } from './drift.ts';
import { migrationName } from './migration-log.ts';
import { type Model, shapesOf } from './model.ts';
import type { Execute } from './session.ts';

/** The model and migrations with which a node started. The files may have changed since then. */
interface RunningCode {
  readonly model: Model;
  readonly migrations: readonly string[];
}

/** Returns SQL that selects the columns of tables, or of views that precede them in the search path. */
const columnsSql = (tables: readonly string[]): string => `select t.name, a.attname::text as column,
    format_type(a.atttypid, null) as type, a.attnotnull and not (a.atthasdef or a.attidentity <> '' or a.attgenerated <> '') as required
  from unnest(array[${tables.map(literal).join(', ')}]::text[]) t(name)
  left join pg_attribute a on a.attrelid = to_regclass(quote_ident(t.name)) and a.attnum > 0 and not a.attisdropped`;

/** Checks that a node's statements still work. @throws UserError if a newer migration broke one */
export async function assertCompatible(
  execute: Execute,
  config: DatabaseConfig,
  { model, migrations }: RunningCode,
): Promise<void> {
  const rows = await execute(`select "name" from ${quote(migrationsTable)} order by "id"`);
  const newer = rows.map(({ name }) => migrationName(name)).filter((name) => !migrations.includes(name));
  if (newer.length === 0) return;
  const [first, ...others] = await incompatibilities(execute, config, model);
  if (first === undefined) return;
  const suffix = others.length === 0 ? '' : `, and ${others.length} more`;
  throw new UserError(
    `the database is ahead of this code, which is not compatible with it: ${first}${suffix}. Start the version that includes ${newer.at(-1)}`,
  );
}

/** Returns the differences that break a model's statements, one line each. */
async function incompatibilities(
  execute: Execute,
  config: DatabaseConfig,
  model: Model,
): Promise<readonly string[]> {
  const shapes = await shapesOf(config, model);
  const rowsByTable = Map.groupBy(await execute(columnsSql(Object.keys(shapes))), ({ name }) => String(name));
  return Object.entries(shapes).flatMap(([table, { columns }]) => {
    const rows = (rowsByTable.get(table) ?? []).filter(({ column }) => column !== null);
    if (rows.length === 0) return [`the table ${table} is missing`];
    const types = new Map(rows.map(({ column, type }) => [String(column), String(type)]));
    return [
      ...Object.entries(columns).flatMap(([name, { type }]) => {
        const actual = types.get(name);
        if (actual === undefined) return [`the column ${table}.${name} is missing`];
        return actual === typeName(type)
          ? []
          : [`the column ${table}.${name} is ${actual}, not ${typeName(type)}`];
      }),
      ...rows
        .filter(
          ({ column, required: isRequired }) =>
            isRequired === true && !Object.hasOwn(columns, String(column)),
        )
        .map(({ column }) => `the column ${table}.${column} is required, but this code does not set it`),
    ];
  });
}
