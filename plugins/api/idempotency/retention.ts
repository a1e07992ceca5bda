import { sql } from 'kysely';
import { deleteExpired } from '../../../engine/modules/index.ts';
import { retentionHours } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

const key = ['organization_id', 'caller', 'path', 'key'];

/** Deletes a batch of expired responses. @returns the number of deleted rows */
export const idempotencyRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_idempotency',
    key,
    sql`created_at < now() - ${retentionHours}::int * interval '1 hour'`,
    'created_at',
  );
