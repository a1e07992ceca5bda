import { type RawBuilder, sql } from 'kysely';
import { type Database, foreignKeyViolation, sqlState } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { type Tables, tablesOf } from '../../../engine/tables/index.ts';

/** Rows that one statement deletes: other statements run between two of them. */
const rowsAtOnce = 1000;
/** How often to look again for rows that requests wrote meanwhile. */
const rounds = 5;

/** A step of a deletion: the rows of a table go, or what a column of them refers to. */
interface Step {
  readonly table: RawBuilder<unknown>;
  readonly emptied?: string;
}

/** A table with rows of organizations, whatever it belongs to: also one of a resource that is not defined any more. */
interface TenantTable {
  readonly schema: string;
  readonly name: string;
  readonly keys: readonly ForeignKey[];
}

/** A foreign key between two such tables. */
interface ForeignKey {
  readonly from: string;
  readonly to: string;
  readonly columns: readonly string[];
}

/**
 * Deletes an organization with all rows that belong to it, in small steps; what its keys and members may do ends first.
 * Where it is interrupted, calling it again goes on. Verified users stay, as members of nothing if this was all.
 * @param id of the organization
 * @returns how many rows were deleted
 * @throws UserError when rows are still being written
 */
export async function deleteOrganization(database: Database, id: string): Promise<number> {
  const tables = tablesOf(database);
  const steps = stepsFor(await tenantTables(tables));
  let deleted = 0;
  const deleteAll = async (): Promise<void> => {
    for (const { table, emptied } of steps) {
      if (emptied === undefined) deleted += await repeated(() => deleteRows(tables, table, id));
      else await repeated(() => emptyColumn(tables, table, emptied, id));
    }
  };
  for (let round = 1; ; round++) {
    try {
      await deleteAll();
      await deleteAndReserve(tables, id);
      // What has no foreign key to it may have been written since.
      await deleteAll();
      return deleted;
    } catch (cause) {
      if (sqlState(cause) !== foreignKeyViolation) throw cause;
      if (round === rounds) {
        throw new UserError('the organization is still being written to. Try again.', { cause });
      }
    }
  }
}

/** Deletes the row of an organization. Its slug stays reserved: configuration and links may still name it. */
const deleteAndReserve = (tables: Tables, id: string) =>
  tables
    .with('_deleted', (query) =>
      query.deleteFrom('crm_organizations').where('id', '=', id).returning(['slug', 'id']),
    )
    .insertInto('crm_former_slugs')
    .columns(['slug', 'holder_id'])
    .expression((query) => query.selectFrom('_deleted').select(['slug', 'id']))
    .onConflict((conflict) => conflict.column('slug').doNothing())
    .execute();

/** Repeats a statement until it finds no more. @returns how many rows in all */
async function repeated(work: () => Promise<number>): Promise<number> {
  for (let all = 0; ; ) {
    const rows = await work();
    all += rows;
    if (rows < rowsAtOnce) return all;
  }
}

const someRows = (table: RawBuilder<unknown>, condition: RawBuilder<unknown>) =>
  sql`ctid = any (array(select ctid from ${table} where ${condition} limit ${sql.lit(rowsAtOnce)}))`;

async function deleteRows(tables: Tables, table: RawBuilder<unknown>, id: string): Promise<number> {
  const ofOrganization = sql`"organization_id" = ${id}`;
  const { numAffectedRows = 0n } = await sql`
    delete from ${table} where ${ofOrganization} and ${someRows(table, ofOrganization)}`.execute(tables);
  return Number(numAffectedRows);
}

async function emptyColumn(
  tables: Tables,
  table: RawBuilder<unknown>,
  column: string,
  id: string,
): Promise<number> {
  const filled = sql`"organization_id" = ${id} and ${sql.ref(column)} is not null`;
  const { numAffectedRows = 0n } = await sql`
    update ${table} set ${sql.ref(column)} = null where ${filled} and ${someRows(table, filled)}`.execute(
    tables,
  );
  return Number(numAffectedRows);
}

/** The tables, those of the platform first, because they hold keys and members. */
async function tenantTables(tables: Tables): Promise<readonly TenantTable[]> {
  const { rows } = await sql<TenantTable>`
    select n.nspname as schema, c.relname as name, coalesce((
      select jsonb_agg(jsonb_build_object('from', c.relname, 'to', target.relname, 'columns', (
        select jsonb_agg(a.attname) from pg_attribute a
        where a.attrelid = k.conrelid and a.attnum = any (k.conkey) and a.attname <> 'organization_id')))
      from pg_constraint k join pg_class target on target.oid = k.confrelid
      where k.conrelid = c.oid and k.contype = 'f' and k.conparentid = 0), '[]') as keys
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute o on o.attrelid = c.oid and o.attname = 'organization_id' and not o.attisdropped
    where c.relkind in ('r', 'p') and not c.relispartition and n.nspname = any (current_schemas(false))
    order by not starts_with(c.relname, 'crm_'), c.relname = 'crm_ledger', c.relname`.execute(tables);
  return rows;
}

/** Each table after those that refer to it; where tables refer to each other in a circle, one gives that up first. */
function stepsFor(tables: readonly TenantTable[]): readonly Step[] {
  const steps: Step[] = [];
  const left = [...tables];
  while (left.length > 0) {
    const keysTo = (name: string) => left.flatMap(({ keys }) => keys).filter(({ to }) => to === name);
    const isFree = ({ name }: TenantTable) => keysTo(name).every(({ from }) => from === name);
    // References of records may be empty; the platform's tables refer to each other in no circle.
    const next = left.find(isFree) ?? left.at(-1);
    if (next === undefined) break;
    for (const { from, columns } of keysTo(next.name)) {
      const table = left.find(({ name }) => name === from);
      if (table !== undefined) for (const emptied of columns) steps.push({ table: named(table), emptied });
    }
    steps.push({ table: named(next) });
    left.splice(left.indexOf(next), 1);
  }
  return steps;
}

const named = ({ schema, name }: TenantTable): RawBuilder<unknown> => sql`${sql.id(schema, name)}`;
