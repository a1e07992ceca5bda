import { sql } from 'kysely';
import type { Resource } from '../../../engine/compile/index.ts';
import { customName } from '../../../engine/fields/index.ts';
import { type RetentionRule, retentionBatch } from '../../../engine/modules/index.ts';
import { ignoringLocksSql } from '../../../engine/records/index.ts';

/** Number of days for which the values of a deleted custom field are kept. */
export const fieldRetentionDays = 30;
const expired = sql`deleted_at < now() - ${sql.lit(fieldRetentionDays)}::int * interval '1 day'`;

/**
 * Returns the step that deletes the values of a resource's custom fields that were deleted {@link fieldRetentionDays} days ago, a batch
 * of values at a time. The trigger also deletes them from the table that filters read. Locked records are included.
 */
export const purgeValues =
  ({ name }: Pick<Resource, 'name'>): RetentionRule['steps'][number] =>
  async (tables) => {
    const column = sql.ref(customName);
    const { rows } = await sql<{ count: number }>`
      with old as materialized (
        select v.organization_id, v.record_id, array_agg(v.field) as fields from (
          select v.organization_id, v.record_id, v.field from crm_custom_fields f
          join crm_custom_values v
            on v.organization_id = f.organization_id and v.resource = f.resource and v.field = f.name
          where f.resource = ${name} and f.${expired} limit ${sql.lit(retentionBatch)}) v
        group by v.organization_id, v.record_id)
      update ${sql.table(name)} t set ${column} = t.${column} - old.fields from old
      where t.organization_id = old.organization_id and t.id = old.record_id
        and ${sql.raw(ignoringLocksSql)}
      returning cardinality(old.fields) as count`.execute(tables);
    return rows.reduce((sum, { count }) => sum + count, 0);
  };

/** Deletes custom fields without values that were deleted {@link fieldRetentionDays} days ago. */
export const purgeFields: RetentionRule['steps'][number] = async (tables) => {
  const { numAffectedRows = 0n } = await sql`
    delete from crm_custom_fields f where ${expired} and not exists (
      select from crm_custom_values v
      where v.organization_id = f.organization_id and v.resource = f.resource and v.field = f.name)`.execute(
    tables,
  );
  return Number(numAffectedRows);
};
