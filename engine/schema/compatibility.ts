import { type DatabaseConfig, migrationsTable, openModel } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { literal, quote } from '../sql/index.ts';
import { typeName } from './drift.ts';
import { migrationName } from './migration-log.ts';
import { entitiesOf, type Model } from './model.ts';
import type { Execute } from './session.ts';

/** What a node was made from when it started: files may be others since. */
interface Known {
  readonly model: Model;
  readonly migrations: readonly string[];
}

/** The columns of tables, or of the views that connections see in their place. */
const columnsSql = (tables: readonly string[]): string => `select t.name, a.attname::text as column,
    format_type(a.atttypid, null) as type, a.attnotnull and not (a.atthasdef or a.attidentity <> '' or a.attgenerated <> '') as required
  from unnest(array[${tables.map(literal).join(', ')}]::text[]) t(name)
  left join pg_attribute a on a.attrelid = to_regclass(quote_ident(t.name)) and a.attnum > 0 and not a.attisdropped`;

/** Checks that a node can run. @throws UserError if a migration unknown to it has dropped something its statements use */
export async function assertCompatible(
  execute: Execute,
  config: DatabaseConfig,
  { model, migrations }: Known,
): Promise<void> {
  const rows = await execute(`select "name" from ${quote(migrationsTable)} order by "id"`);
  const others = rows.map(({ name }) => migrationName(name)).filter((name) => !migrations.includes(name));
  if (others.length === 0) return;
  const [first, ...more] = await lackingIn(execute, config, model);
  if (first === undefined) return;
  const rest = more.length === 0 ? '' : `, and ${more.length} more`;
  throw new UserError(
    `the database is ahead of this code, which is not compatible with it: ${first}${rest}. Start the version that has ${others.at(-1)}`,
  );
}

/** What keeps the statements of a model from running, a line each. */
async function lackingIn(execute: Execute, config: DatabaseConfig, model: Model): Promise<readonly string[]> {
  const shapes = (await openModel(config, entitiesOf(model))).shapes();
  const found = Map.groupBy(await execute(columnsSql(Object.keys(shapes))), ({ name }) => String(name));
  return Object.entries(shapes).flatMap(([table, { columns }]) => {
    const rows = (found.get(table) ?? []).filter(({ column }) => column !== null);
    if (rows.length === 0) return [`the table ${table} is missing`];
    const types = new Map(rows.map(({ column, type }) => [String(column), String(type)]));
    return [
      ...Object.entries(columns).flatMap(([name, { type }]) => {
        const is = types.get(name);
        if (is === undefined) return [`the column ${table}.${name} is missing`];
        return is === typeName(type) ? [] : [`the column ${table}.${name} is ${is}, not ${typeName(type)}`];
      }),
      ...rows
        .filter(({ column, required }) => required === true && !Object.hasOwn(columns, String(column)))
        .map(({ column }) => `the column ${table}.${column} is required, but this code does not set it`),
    ];
  });
}
