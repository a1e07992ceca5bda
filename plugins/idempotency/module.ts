import type { Database } from '../../engine/database/index.ts';
import { type Module, pruneRegularly } from '../../engine/modules/index.ts';
import { idempotencyTables } from '../../engine/records/index.ts';
import { prune } from './prune.ts';

/** The stored responses of creates that may be sent again; the statements that write them are the engine's. */
export const idempotency: Module<{ readonly database: Database }> = {
  name: 'idempotency',
  tables: idempotencyTables,
  register: (app, { database }) =>
    pruneRegularly(app, database, { what: 'stored responses', steps: [prune] }),
};
