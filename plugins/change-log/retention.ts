import { sql } from 'kysely';
import { retentionBatch } from '../../engine/modules/index.ts';
import type { Tables } from '../../engine/tables/index.ts';

/** Deletes changes older than a number of days, up to about one batch. @returns the number of deleted changes */
export async function changeLogRetention(tables: Tables, days: number): Promise<number> {
  const organizations = await tables.selectFrom('crm_organizations').select('id').orderBy('id').execute();
  let removed = 0;
  for (const { id } of organizations) {
    removed += await pruneOne(tables, id, days);
    if (removed >= retentionBatch) return retentionBatch;
  }
  return removed;
}

/** Deletes an organization's oldest expired changes, in feed order. */
async function pruneOne(tables: Tables, organization: string, days: number): Promise<number> {
  const since = sql`now() - ${days}::int * interval '1 day'`;
  const bound = sql`organization_id = ${organization}::bigint`;
  const { numAffectedRows = 0n } = await sql`
    with old as materialized (
      select * from (
        select * from crm_ledger where ${bound}
        order by transaction, id limit ${sql.lit(retentionBatch)} for update skip locked) l
      where at < ${since}),
    -- What a record was before a change that stays is in the row that goes.
    kept as (
      update crm_ledger n set before = old.record from old
      where n.${bound} and n.object = old.object and n.object_id = old.object_id
        and n.version = old.version + 1 and n.action = 'update' and n.before is null
        and not exists (select from old o where o.transaction = n.transaction and o.id = n.id)),
    told as (
      update crm_ledger_epochs set pruned_before = greatest(pruned_before, ${since})
      where id = (select max(id) from crm_ledger_epochs) and exists (select from old))
    delete from crm_ledger l using old
    where l.${bound} and l.transaction = old.transaction and l.id = old.id`.execute(tables);
  return Number(numAffectedRows);
}
