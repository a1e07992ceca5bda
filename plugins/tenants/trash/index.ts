// Trash: deletes records that have been in the trash for the period in their definition. May import engine.

import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { type Module, startRetention } from '../../../engine/modules/index.ts';
import { countExpiredRecords, purgeStep } from './purge.ts';

/** Services used by the trash. */
interface TrashServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
}

/** Deletes records from the trash. */
export const trashModule: Module<TrashServices> = {
  name: 'trash',
  register: (app, { database, resources }) => {
    const withTrash = resources.filter(({ definition }) => definition.trash !== undefined);
    if (withTrash.length === 0) return;
    startRetention(app, database, {
      label: 'records in the trash',
      steps: withTrash.map((resource) => purgeStep(database, resource)),
      // The steps delete in transactions of their own.
      count: async (tables) => {
        let total = 0;
        for (const resource of withTrash) total += await countExpiredRecords(tables, resource);
        return total;
      },
    });
  },
};
