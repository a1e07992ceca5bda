import { sql } from 'kysely';
import { retentionBatch } from '../../engine/modules/index.ts';
import type { Tables } from '../../engine/tables/index.ts';

/**
 * Deletes up to one batch of changes older than a number of days.
 * @returns the number of deleted changes
 */
export async function changeLogRetention(tables: Tables, days: number): Promise<number> {
  const organizations = await tables.selectFrom('crm_organizations').select('id').orderBy('id').execute();
  let deletedCount = 0;
  for (const { id } of organizations) {
    deletedCount += await deleteExpiredChanges(tables, id, { days, limit: retentionBatch - deletedCount });
    if (deletedCount === retentionBatch) break;
  }
  return deletedCount;
}

/** Deletes an organization's oldest expired changes, in feed order. */
async function deleteExpiredChanges(
  tables: Tables,
  organization: string,
  { days, limit }: { readonly days: number; readonly limit: number },
): Promise<number> {
  const threshold = sql`now() - ${days}::int * interval '1 day'`;
  const inOrganization = sql`organization_id = ${organization}::bigint`;
  const { numAffectedRows = 0n } = await sql`
    with old as materialized (
      select * from (
        select * from crm_ledger where ${inOrganization}
        order by transaction, id limit ${sql.lit(limit)} for update skip locked) l
      where at < ${threshold}),
    -- The next row's previous state is only in the deleted row, so it is copied.
    successors as (
      update crm_ledger n set before = old.record from old
      where n.${inOrganization} and n.object = old.object and n.object_id = old.object_id
        and n.version = old.version + 1 and n.action = 'update' and n.before is null
        and not exists (select from old o where o.transaction = n.transaction and o.id = n.id)),
    epoch as (
      update crm_ledger_epochs set pruned_before = greatest(pruned_before, ${threshold})
      where id = (select max(id) from crm_ledger_epochs) and exists (select from old))
    delete from crm_ledger l using old
    where l.${inOrganization} and l.transaction = old.transaction and l.id = old.id`.execute(tables);
  return Number(numAffectedRows);
}
