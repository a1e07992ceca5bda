import { sql } from 'kysely';
import { pruningStep } from '../../engine/modules/index.ts';
import { keptHours } from '../../engine/records/index.ts';
import type { Tables } from '../../engine/tables/index.ts';

/** Removes some responses that were kept long enough. @returns how many */
export async function prune(tables: Tables): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    -- Materialized: a join that evaluated this again for each row would lock, and delete, others each time.
    with old as materialized (
      select organization_id, caller, path, key from crm_idempotency
      where created_at < now() - ${keptHours}::int * interval '1 hour'
      order by created_at limit ${sql.lit(pruningStep)} for update skip locked)
    delete from crm_idempotency i using old
    where i.organization_id = old.organization_id and i.caller = old.caller and i.path = old.path and i.key = old.key`.execute(
    tables,
  );
  return Number(numAffectedRows);
}
