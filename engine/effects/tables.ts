import type { Generated } from 'kysely';
import { bigint, identity, now, table, text, time } from '../tables/index.ts';

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

const optionalText = { ...text, nullable: true };

const ledger = table(
  'crm_ledger',
  {
    organization_id: { ...bigint, primary: true },
    // Before the id: numbers of transactions say what a reader may have missed, those of rows do not.
    transaction: { type: 'string', columnType: 'xid8', defaultRaw: 'pg_current_xact_id()', primary: true },
    id: identity,
    at: now,
    actor_kind: text,
    actor_id: { ...bigint, nullable: true },
    actor_name: optionalText,
    action: text,
    object: text,
    object_id: { ...bigint, nullable: true },
    request_id: optionalText,
    version: { ...bigint, nullable: true },
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
const epochs = table('crm_ledger_epochs', {
  id: identity,
  epoch: text,
  source: text,
  started_at: now,
  pruned_before: { ...time, defaultRaw: `'-infinity'` },
});

/** The ledger. Rows are only added, by the statement or in the transaction of the change. */
export const ledgerTables = [ledger, epochs];
