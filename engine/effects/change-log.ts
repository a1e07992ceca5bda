import type { Generated } from 'kysely';
import { flagVariable } from '../config/index.ts';
import { literal, type Placeholder, quote, record, versionColumn } from '../sql/index.ts';
import { bigintColumn, defineTable, identity, now, textColumn, timestampColumn } from '../tables/index.ts';
import type { Effect, WriteAction, WriteInput } from './effect.ts';

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
      /** Version created by the change. Like the next two columns, null if the object is not a record. */
      version: string | null;
      /** The record after the change, as JSON, or null if the record was deleted or moved to the trash. */
      record: string | null;
      /** The record before the change, as JSON, or null if another row contains it. */
      before: string | null;
    };
    crm_ledger_epochs: {
      id: Generated<string>;
      /** Identifies the epoch in cursors. */
      epoch: string;
      /** Identifies the database, to distinguish it from restored copies. */
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
    // Precedes the ID in the key, because only transaction IDs reveal which rows a reader might have missed.
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
const changeLogTables = [ledger, epochs];

const kind = ({ caller }: WriteInput) => caller.principal.kind;
const actor = ({ caller }: WriteInput) => caller.principal.actor;
const name = ({ caller }: WriteInput) => caller.principal.name;
const request = ({ caller }: WriteInput) => caller.requestId;

/**
 * Records each write in the organization's change log. Each row contains the record's state after the write.
 * The state before the write is in the previous version's row. If that row does not exist, the new row
 * contains both states. The row for a deletion or a move to the trash contains only the previous state.
 */
export const changeLog: Effect = {
  variable: flagVariable('AUDIT', true),
  tables: changeLogTables,
  on: ['create', 'update', 'delete', 'trash', 'restore', 'purge'],
  expression: (context) => {
    const { resource, action, written, source, order, row, placeholder } = context;
    const { after, before, version } = recordSql(context);
    const values = {
      organization_id: `${row}."organization_id"`,
      actor_kind: `${placeholder(kind)}::text`,
      actor_id: `${placeholder(actor)}::bigint`,
      actor_name: `${placeholder(name)}::text`,
      action: literal(action),
      object: literal(resource),
      object_id: `${row}."id"`,
      request_id: `${placeholder(request)}::text`,
      version,
      record: after,
      before,
    };
    const columns = Object.keys(values).map(quote).join(', ');
    return `${written}_ledger as (insert into "crm_ledger" (${columns}) select ${Object.values(values).join(', ')} from ${source}${order})`;
  },
  ofExport: ({ resource, organization, placeholder }) => {
    return entrySql({ organization, action: literal('export'), object: literal(resource), placeholder });
  },
};

/**
 * Returns an INSERT statement for an entry that does not describe a change to a record, for example an export. The parameters are
 * SQL expressions.
 * @param objectId the record's ID, if the entry is about one record
 */
export function entrySql({
  organization,
  action,
  object,
  objectId = 'null',
  placeholder,
}: {
  readonly organization: string;
  readonly action: string;
  readonly object: string;
  readonly objectId?: string;
  readonly placeholder: Placeholder<WriteInput>;
}): string {
  const values = [kind, actor, name, request].map((value) => placeholder(value));
  const [actorKind, actorId, actorName, requestId] = values;
  return `insert into "crm_ledger" ("organization_id", "actor_kind", "actor_id", "actor_name", "request_id", "action", "object", "object_id") values (${organization}, ${actorKind}::text, ${actorId}::bigint, ${actorName}::text, ${requestId}::text, ${action}, ${object}, ${objectId})`;
}

/** Returns SQL expressions for a row's `record`, `before` and `version` columns. */
function recordSql({
  resource,
  action,
  row,
  columns,
  json: rowJson,
}: {
  readonly resource: string;
  readonly action: WriteAction;
  readonly row: string;
  readonly columns: string;
  readonly json?: string | undefined;
}) {
  const json = (from: string) =>
    `(select row_to_json(_r)::text from ${from} cross join lateral (select ${columns}) _r`;
  const version = `${row}.${quote(versionColumn)}`;
  const writtenRecord = rowJson ?? `${json(`(select ${row}.*) ${record}`)})`;
  if (action === 'create' || action === 'restore') return { after: writtenRecord, before: 'null', version };
  if (action === 'trash') return { after: 'null', before: writtenRecord, version };
  // A deletion is numbered as the version after the record's last one.
  if (action === 'delete' || action === 'purge')
    return { after: 'null', before: writtenRecord, version: `${version} + 1` };
  const previousVersion = `${version} - 1`;
  const sameRecord = (alias: string, id: string) =>
    `${alias}."organization_id" = ${row}."organization_id" and ${alias}.${quote(id)} = ${row}."id"`;
  const previousRow = `select from "crm_ledger" _l where ${sameRecord('_l', 'object_id')} and _l."object" = ${literal(resource)} and _l."version" = ${previousVersion}`;
  // The version check excludes states from concurrent writes, which add their own rows.
  const previousRecord = `${json(`${quote(resource)} ${record}`)} where ${sameRecord(record, 'id')} and ${record}.${quote(versionColumn)} = ${previousVersion})`;
  return {
    after: writtenRecord,
    before: `case when not exists (${previousRow}) then ${previousRecord} end`,
    version,
  };
}
