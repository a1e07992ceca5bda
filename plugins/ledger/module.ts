import type { Database } from '../../engine/database/index.ts';
import { type Module, pruneRegularly } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { prune } from './retention.ts';

/** What the ledger needs of a running service. */
export interface LedgerServices {
  readonly database: Database;
  readonly settings: { readonly current: { readonly retention: { readonly ledger_days: number } } };
}

/** The ledger besides its rows, which the statements of changes write. */
export const ledgerModule: Module<LedgerServices> = {
  name: 'ledger',
  register: (app, { database, settings }) =>
    pruneRegularly(app, 'old changes', [
      () => prune(tablesOf(database), settings.current.retention.ledger_days),
    ]),
};
