import { sql } from 'kysely';
import { deleteExpired } from '../../engine/modules/index.ts';
import type { Tables } from '../../engine/tables/index.ts';

/** Retention period of jobs, in days. */
export const retentionDays = 7;

/** Deletes a batch of old jobs, also of actions that no longer exist. @returns the number of deleted jobs */
export const jobsRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_jobs',
    ['organization_id', 'id'],
    sql`created_at < now() - ${retentionDays}::int * interval '1 day' and state <> 'running'
      and (finished_at is null or finished_at < now() - ${retentionDays}::int * interval '1 day')`,
    'created_at',
  );
