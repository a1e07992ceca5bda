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
      /** The name that the actor had. */
      actor_name: string | null;
      action: string;
      object: string;
      object_id: string | null;
      request_id: string | null;
      /** The version of the record that the change made; null for what is no record, as also the two below. */
      version: string | null;
      /** The record as it was then, as JSON; null for one that was deleted. */
      record: string | null;
      /** The record before, where no other row has it. */
      before: string | null;
    };
    crm_ledger_epochs: {
      id: Generated<string>;
      /** What cursors carry. */
      epoch: string;
      /** What tells the database apart from one that it was restored into. */
      source: string;
      started_at: Generated<Date>;
      /** Rows that are older may be gone. */
      pruned_before: Generated<Date>;
    };
  }
}

const optionalText = { ...textColumn, nullable: true };

const ledger = defineTable(
  'crm_ledger',
  {
    organization_id: { ...bigintColumn, primary: true },
    // Before the id: numbers of transactions say what a reader may have missed, those of rows do not.
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

/** The times in which places in the ledger mean the same; the one that began last is now. */
const epochs = defineTable('crm_ledger_epochs', {
  id: identity,
  epoch: textColumn,
  source: textColumn,
  started_at: now,
  pruned_before: { ...timestampColumn, defaultRaw: `'-infinity'` },
});

/** The ledger. Rows are only added, by the statement or in the transaction of the change. */
export const changeLogTables = [ledger, epochs];
