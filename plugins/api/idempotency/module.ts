import type { Database } from '../../../engine/database/index.ts';
import { type Module, startRetention } from '../../../engine/modules/index.ts';
import { idempotencyTables } from '../../../engine/records/index.ts';
import { idempotencyRetention } from './retention.ts';

/** Deletes expired responses to requests with an idempotency key. The engine stores the responses. */
export const idempotency: Module<{ readonly database: Database }> = {
  name: 'idempotency',
  tables: idempotencyTables,
  register: (app, { database }) =>
    startRetention(app, database, { label: 'stored responses', steps: [idempotencyRetention] }),
};
