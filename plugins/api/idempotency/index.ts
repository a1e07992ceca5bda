// Idempotency: deletes stored responses to requests with an idempotency key after one day.
// May import engine.

import { sql } from 'kysely';
import type { Database } from '../../../engine/database/index.ts';
import { deleteExpired, type Module, startRetention } from '../../../engine/modules/index.ts';
import { idempotencyTables, retentionHours } from '../../../engine/records/index.ts';
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

/** Deletes expired responses to requests with an idempotency key. The engine stores the responses. */
export const idempotency: Module<{ readonly database: Database }> = {
  name: 'idempotency',
  tables: idempotencyTables,
  register: (app, { database }) =>
    startRetention(app, database, { label: 'stored responses', steps: [idempotencyRetention] }),
};
