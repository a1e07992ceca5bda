import type { Generated } from 'kysely';
import {
  bigintColumn,
  defineTable,
  integerColumn,
  now,
  tenant,
  textColumn,
} from '../../engine/tables/index.ts';

declare module '../../engine/tables/index.ts' {
  interface TableRows {
    crm_hook_places: {
      organization_id: string;
      /** Name of the module whose hooks read the change log. */
      module: string;
      /** Position in the change log. Hooks have been called for all changes up to it. */
      epoch: string;
      transaction: string;
      ledger_id: string;
      /** Changes before this time are skipped. */
      since: Generated<Date>;
      /** Until this time, the process that set it calls the hooks. */
      leased_until: Generated<Date>;
      /** Number of failures for the next change, the time of the next attempt, and the reason. */
      attempts: Generated<number>;
      next_at: Generated<Date>;
      error: Generated<string>;
    };
  }
}

/** Places in the change log up to which modules' hooks have been called. */
export const places = defineTable(
  'crm_hook_places',
  {
    ...tenant(),
    module: { ...textColumn, primary: true },
    epoch: textColumn,
    transaction: { type: 'string', columnType: 'xid8' },
    ledger_id: bigintColumn,
    since: now,
    leased_until: now,
    attempts: { ...integerColumn, defaultRaw: '0' },
    next_at: now,
    error: { ...textColumn, defaultRaw: "''" },
  },
  {
    personalData: { label: 'errors of hooks', columns: ['error'], erasure: 'clear' },
    placement: 'coordinator',
  },
);
