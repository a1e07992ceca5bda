import { sql } from 'kysely';
import { removeOld } from '../../engine/modules/index.ts';
import { keptHours } from '../../engine/records/index.ts';
import type { Tables } from '../../engine/tables/index.ts';

const key = ['organization_id', 'caller', 'path', 'key'];

/** Removes some responses that were kept long enough. @returns how many */
export const prune = (tables: Tables): Promise<number> =>
  removeOld(
    tables,
    'crm_idempotency',
    key,
    sql`created_at < now() - ${keptHours}::int * interval '1 hour'`,
    'created_at',
  );
