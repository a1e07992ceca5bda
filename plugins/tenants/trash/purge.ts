import { sql } from 'kysely';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { fieldTypes } from '../../../engine/fields/index.ts';
import type { RetentionRule } from '../../../engine/modules/index.ts';
import { retentionBatch } from '../../../engine/modules/index.ts';
import { commandCaller, compilePurgeBatch, runOperation } from '../../../engine/records/index.ts';
import { trashedColumn } from '../../../engine/sql/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** A record whose period in the trash is over. IDs are decimal strings. */
interface ExpiredRecord {
  readonly organization: string;
  readonly id: string;
}

/** Returns the condition that a record's period in the trash is over. */
const expiredSql = ({ trash = { days: 0 } }: Resource['definition']) =>
  sql`${sql.ref(trashedColumn)} < now() - ${trash.days}::int * interval '1 day'`;

/** Returns the number of a resource's records whose period in the trash is over, including those that others protect. */
export async function countExpiredRecords(
  tables: Tables,
  { name, definition }: Pick<Resource, 'name' | 'definition'>,
): Promise<number> {
  const { rows } = await sql<{ count: string }>`
    select count(*)::text as count from ${sql.table(name)} where ${expiredSql(definition)}`.execute(tables);
  return Number(rows[0]?.count);
}

/**
 * Returns the step that deletes a resource's records whose period in the trash is over, as DELETE would without a trash. A
 * record that other records prevent from being deleted remains in the trash, and later steps skip it until the next run.
 */
export function purgeStep(
  database: Database,
  { name, context, definition }: Resource,
): RetentionRule['steps'][number] {
  const purge = compilePurgeBatch(context);
  const expired = expiredSql(definition);
  /** The last record of the previous step of this run. */
  let last: ExpiredRecord = { organization: '0', id: '0' };
  return async (tables) => {
    const { rows } = await sql<ExpiredRecord>`
      select organization_id::text as organization, id::text as id from ${sql.table(name)} t
      where ${expired}
        and (organization_id, id) > (${last.organization}::bigint, ${last.id}::bigint)
      order by t.organization_id, t.id limit ${sql.lit(retentionBatch)}`.execute(tables);
    for (const [organization, records] of Map.groupBy(rows, (row) => row.organization)) {
      const body = { ids: records.map(({ id }) => fieldTypes.int64.form.parse(id)), on_error: 'continue' };
      await runOperation(database, purge, { caller: commandCaller(organization), body });
    }
    const isLast = rows.length < retentionBatch;
    last = isLast ? { organization: '0', id: '0' } : (rows.at(-1) ?? last);
    return rows.length;
  };
}
