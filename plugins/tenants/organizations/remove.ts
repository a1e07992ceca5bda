import { type RawBuilder, sql } from 'kysely';
import { type Database, foreignKeyViolation, sqlState } from '../../../engine/database/index.ts';
import { ignoringLocksSql, lockTriggers } from '../../../engine/records/index.ts';
import { type Tables, tablesOf } from '../../../engine/tables/index.ts';
import { TranslatedError } from '../../admin-ui/shell/index.ts';
import { organizationsTexts } from './texts/index.ts';

/** Number of rows per statement. Statements from requests can run in between. */
const rowsPerStatement = 1000;
/** Maximum number of additional passes for deleting rows written by concurrent requests. */
const maxRounds = 5;

/** A deletion step, which deletes a table's rows or sets a reference column to null. */
interface Step {
  readonly table: RawBuilder<unknown>;
  readonly clearedColumn?: string;
  /** Whether the column cannot become null, so that the rows with a value are deleted instead. */
  readonly isRequired?: boolean;
  /** Whether triggers reject writes to locked rows, which the step therefore has to ignore. */
  readonly hasLocks: boolean;
}

/** A table whose rows belong to organizations. The table's resource might no longer be defined. */
interface TenantTable {
  readonly schema: string;
  readonly name: string;
  readonly keys: readonly ForeignKey[];
  readonly hasLocks: boolean;
}

/** A foreign key between two tenant tables. */
interface ForeignKey {
  readonly from: string;
  readonly to: string;
  readonly columns: readonly string[];
  /** Whether the columns cannot be null, or cannot become null because the reference points to one of several tables. */
  readonly isRequired: boolean;
}

/**
 * Deletes an organization and all of its rows in small steps, starting with keys and members so that access
 * ends first. Can be repeated after an interruption. Keeps verified users, even without any remaining
 * memberships.
 * @param id the organization's ID
 * @returns the number of deleted rows
 * @throws UserError if rows are still being written
 */
export async function deleteOrganization(database: Database, id: string): Promise<number> {
  const tables = tablesOf(database);
  const steps = stepsFor(await tenantTables(tables));
  let deleted = 0;
  const deleteAll = async (): Promise<void> => {
    for (const { table, clearedColumn, isRequired, hasLocks } of steps) {
      const own = sql`"organization_id" = ${id}${sql.raw(hasLocks ? ` and ${ignoringLocksSql}` : '')}`;
      if (clearedColumn !== undefined && isRequired === true)
        deleted += await deleteReferring(tables, table, clearedColumn, own);
      else if (clearedColumn === undefined)
        deleted += await repeatUntilEmpty(() => deleteRows(tables, table, own));
      else await repeatUntilEmpty(() => clearColumn(tables, table, clearedColumn, own));
    }
  };
  for (let round = 1; ; round++) {
    try {
      await deleteAll();
      await deleteAndReserve(tables, id);
      // Concurrent requests may have added rows to tables that have no foreign key to the organization.
      await deleteAll();
      return deleted;
    } catch (cause) {
      if (sqlState(cause) !== foreignKeyViolation) throw cause;
      if (round === maxRounds) {
        throw new TranslatedError(organizationsTexts.later('stillWritten'), { cause });
      }
    }
  }
}

/** Deletes an organization's row. The slug stays reserved, because configuration and links may still contain it. */
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

/** Repeats a statement until no rows are left. @returns the total number of affected rows */
async function repeatUntilEmpty(work: () => Promise<number>): Promise<number> {
  for (let total = 0; ; ) {
    const rows = await work();
    total += rows;
    if (rows < rowsPerStatement) return total;
  }
}

const someRows = (table: RawBuilder<unknown>, condition: RawBuilder<unknown>) =>
  sql`ctid = any (array(select ctid from ${table} where ${condition} limit ${sql.lit(rowsPerStatement)}))`;

/** @param own the condition that selects the organization's rows */
async function deleteRows(
  tables: Tables,
  table: RawBuilder<unknown>,
  own: RawBuilder<unknown>,
): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from ${table} where ${own} and ${someRows(table, own)}`.execute(tables);
  return Number(numAffectedRows);
}

async function clearColumn(
  tables: Tables,
  table: RawBuilder<unknown>,
  column: string,
  own: RawBuilder<unknown>,
): Promise<number> {
  const condition = sql`${own} and ${sql.ref(column)} is not null`;
  const { numAffectedRows = 0n } = await sql`
    update ${table} set ${sql.ref(column)} = null where ${condition} and ${someRows(table, condition)}`.execute(
    tables,
  );
  return Number(numAffectedRows);
}

/**
 * Deletes the rows that refer to rows of the same table through a column that cannot become null, beginning with rows to
 * which no other row refers. Rows that refer to each other in a cycle remain, and are deleted by a single statement.
 */
async function deleteReferring(
  tables: Tables,
  table: RawBuilder<unknown>,
  column: string,
  own: RawBuilder<unknown>,
): Promise<number> {
  const referring = sql`${own} and ${sql.ref(column)} is not null`;
  const isReferred = sql`"id" in (select ${sql.ref(column)} from ${table} where ${referring})`;
  const remove = async (condition: RawBuilder<unknown>) => {
    const { numAffectedRows = 0n } = await sql`delete from ${table} where ${condition}`.execute(tables);
    return Number(numAffectedRows);
  };
  let deleted = 0;
  for (let rows = -1; rows !== 0; deleted += rows)
    rows = await remove(sql`${referring} and ${someRows(table, sql`${referring} and not (${isReferred})`)}`);
  return deleted + (await remove(referring));
}

/** Returns the tenant tables, platform tables first, because they contain keys and members. */
async function tenantTables(tables: Tables): Promise<readonly TenantTable[]> {
  const { rows } = await sql<TenantTable>`
    select n.nspname as schema, c.relname as name, coalesce((
      select jsonb_agg(jsonb_build_object('from', c.relname, 'to', target.relname, 'columns', (
        select jsonb_agg(a.attname) from pg_attribute a
        where a.attrelid = k.conrelid and a.attnum = any (k.conkey) and a.attname <> 'organization_id'), 'isRequired', (
        select coalesce(bool_and(a.attnotnull), false) from pg_attribute a
        where a.attrelid = k.conrelid and a.attnum = any (k.conkey) and a.attname <> 'organization_id')
        or exists (select from pg_constraint q join pg_attribute a on a.attrelid = q.conrelid and a.attnum = any (q.conkey)
          where q.conrelid = k.conrelid and q.contype = 'c' and pg_get_constraintdef(q.oid) ~ 'num_nonnulls\\(.*\\) = 1'
          and a.attnum = any (k.conkey) and a.attname <> 'organization_id')))
      from pg_constraint k join pg_class target on target.oid = k.confrelid
      where k.conrelid = c.oid and k.contype = 'f' and k.conparentid = 0), '[]') as keys, exists (
      select from pg_trigger g where g.tgrelid = c.oid and g.tgname = any (${[...lockTriggers]}::text[])) as "hasLocks"
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute o on o.attrelid = c.oid and o.attname = 'organization_id' and not o.attisdropped
    where c.relkind in ('r', 'p') and not c.relispartition and n.nspname = any (current_schemas(false))
    order by not starts_with(c.relname, 'crm_'), c.relname = 'crm_ledger', c.relname`.execute(tables);
  return rows;
}

/** Orders tables after the tables that refer to them. Breaks a cycle by first setting references to null. */
function stepsFor(tables: readonly TenantTable[]): readonly Step[] {
  const steps: Step[] = [];
  const remaining = [...tables];
  while (remaining.length > 0) {
    const keysTo = (name: string) => remaining.flatMap(({ keys }) => keys).filter(({ to }) => to === name);
    const isFree = ({ name }: TenantTable) => keysTo(name).every(({ from }) => from === name);
    // Only resource tables form cycles. Required references do not, so the cycle has a table without them.
    const isClearable = ({ name }: TenantTable) =>
      keysTo(name).every(({ from, isRequired }) => from === name || !isRequired);
    const next = remaining.find(isFree) ?? remaining.findLast(isClearable) ?? remaining.at(-1);
    if (next === undefined) break;
    const isOwn = ({ from }: ForeignKey) => Number(from === next.name);
    // Rows of other tables no longer refer to the table when its own references are cleared.
    for (const { from, columns, isRequired } of keysTo(next.name).sort((a, b) => isOwn(a) - isOwn(b))) {
      const table = remaining.find(({ name }) => name === from);
      if (table !== undefined)
        for (const clearedColumn of columns)
          steps.push({ table: tableName(table), clearedColumn, isRequired, hasLocks: table.hasLocks });
    }
    steps.push({ table: tableName(next), hasLocks: next.hasLocks });
    remaining.splice(remaining.indexOf(next), 1);
  }
  return steps;
}

const tableName = ({ schema, name }: TenantTable): RawBuilder<unknown> => sql`${sql.id(schema, name)}`;
