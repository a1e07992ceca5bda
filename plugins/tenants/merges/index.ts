// Merges: deletes what is needed to undo merges, after 30 days.
// May import engine.

import { sql } from 'kysely';
import type { Database } from '../../../engine/database/index.ts';
import { deleteExpired, type Module, startRetention } from '../../../engine/modules/index.ts';
import { mergeTables, undoDays } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

const key = ['organization_id', 'resource', 'record_id', 'from_id'];

/** Deletes a batch of merges that can no longer be undone. @returns the number of deleted rows */
export const mergesRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_merges',
    key,
    sql`merged_at < now() - ${undoDays}::int * interval '1 day'`,
    'merged_at',
  );

/** Deletes merges that can no longer be undone. The engine stores the merges. */
export const merges: Module<{ readonly database: Database }> = {
  name: 'merges',
  tables: mergeTables,
  register: (app, { database }) =>
    startRetention(app, database, { label: 'merges', steps: [mergesRetention] }),
};
