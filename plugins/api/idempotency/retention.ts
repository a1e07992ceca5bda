import { sql } from 'kysely';
import { deleteExpired } from '../../../engine/modules/index.ts';
import { retentionHours } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

const key = ['organization_id', 'caller', 'path', 'key'];

/** Removes some responses that were kept long enough. @returns how many */
export const idempotencyRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_idempotency',
    key,
    sql`created_at < now() - ${retentionHours}::int * interval '1 hour'`,
    'created_at',
  );
