import type { Generated } from 'kysely';
import {
  bigintColumn,
  defineTable,
  identity,
  now,
  tenant,
  textColumn,
  timestampColumn,
} from '../../../engine/tables/index.ts';

/** An erasure's state. A search ends as `found`, `nothing` or `failed`, a confirmed erasure as `erased`. */
export type ErasureState = 'searching' | 'found' | 'nothing' | 'failed' | 'erasing' | 'erased';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_erasures: {
      organization_id: string;
      id: Generated<string>;
      state: ErasureState;
      /** The request, sealed because it names a person. Empty after the erasure. */
      request: string;
      /** The search result, which is also sealed. */
      result: string;
      /** The reason for the failure. */
      error: string;
      /** Number of rows searched so far. */
      searched: string;
      /**
       * Time at which a process's claim expires, after which another process can continue. After a failure, the
       * time of the next attempt.
       */
      claimed_until: Date | null;
      created_at: Generated<Date>;
      changed_at: Generated<Date>;
    };
  }
}

const erasures = defineTable(
  'crm_erasures',
  {
    ...tenant(),
    id: identity,
    state: textColumn,
    request: textColumn,
    result: textColumn,
    error: textColumn,
    searched: bigintColumn,
    claimed_until: { ...timestampColumn, nullable: true },
    created_at: now,
    changed_at: now,
  },
  { indexes: [{ name: 'crm_erasures_changed', properties: ['changed_at'] }], placement: 'coordinator' },
);

/** Erasures requested by administrators in the browser, stored for a limited time. */
export const erasureTables = [erasures];
