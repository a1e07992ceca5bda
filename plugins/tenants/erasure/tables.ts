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

/**
 * The state of an erasure: a search that runs, found or did not find anything, or failed; an erasure that runs or is
 * done.
 */
export type ErasureState = 'searching' | 'found' | 'nothing' | 'failed' | 'erasing' | 'erased';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_erasures: {
      organization_id: string;
      id: Generated<string>;
      state: ErasureState;
      /** The request, sealed because it names a person; empty when the erasure is done. */
      request: string;
      /** What was found, sealed likewise. */
      result: string;
      /** Why it failed. */
      error: string;
      /** Rows searched so far. */
      searched: string;
      /** Until when a process works on it; it is taken over by another one afterwards. */
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
  { indexes: [{ name: 'crm_erasures_changed', properties: ['changed_at'] }] },
);

/** Erasures that administrators have requested in the browser, for a limited time. */
export const erasureTables = [erasures];
