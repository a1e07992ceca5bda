import type { Generated } from 'kysely';
import { bigintColumn, defineTable, identity, now, textColumn, timestampColumn } from '../tables/index.ts';

declare module '../tables/index.ts' {
  interface TableRows {
    crm_ledger: {
      organization_id: string;
      /** The transaction that wrote the row, as decimal text. */
      transaction: Generated<string>;
      id: Generated<string>;
      at: Generated<Date>;
      actor_kind: string;
      actor_id: string | null;
      /** The actor's name at the time of the change. */
      actor_name: string | null;
      action: string;
      object: string;
      object_id: string | null;
      request_id: string | null;
      /** The version that the change created. This and the next two columns are null if the object is not a record. */
      version: string | null;
      /** The record after the change, as JSON, or null if the record was deleted. */
      record: string | null;
      /** The record before the change, unless another row contains it. */
      before: string | null;
    };
    crm_ledger_epochs: {
      id: Generated<string>;
      /** Identifies the epoch in cursors. */
      epoch: string;
      /** Distinguishes the database from its restored copies. */
      source: string;
      started_at: Generated<Date>;
      /** Retention may have deleted rows older than this time. */
      pruned_before: Generated<Date>;
    };
  }
}

const optionalText = { ...textColumn, nullable: true };

const ledger = defineTable(
  'crm_ledger',
  {
    organization_id: { ...bigintColumn, primary: true },
    // Precedes the ID in the key, because only transaction IDs reveal which rows a reader may have missed.
    transaction: { type: 'string', columnType: 'xid8', defaultRaw: 'pg_current_xact_id()', primary: true },
    id: identity,
    at: now,
    actor_kind: textColumn,
    actor_id: { ...bigintColumn, nullable: true },
    actor_name: optionalText,
    action: textColumn,
    object: textColumn,
    object_id: { ...bigintColumn, nullable: true },
    request_id: optionalText,
    version: { ...bigintColumn, nullable: true },
    record: optionalText,
    before: optionalText,
  },
  {
    indexes: [
      { name: 'crm_ledger_record', properties: ['organization_id', 'object', 'object_id', 'version'] },
    ],
    resourceColumns: ['object'],
  },
);

/** Epochs of the change log. Positions are only comparable within an epoch, and the latest epoch is the current one. */
const epochs = defineTable('crm_ledger_epochs', {
  id: identity,
  epoch: textColumn,
  source: textColumn,
  started_at: now,
  pruned_before: { ...timestampColumn, defaultRaw: `'-infinity'` },
});

/** The change log. Each row is written in the same statement or transaction as the change. */
export const changeLogTables = [ledger, epochs];
