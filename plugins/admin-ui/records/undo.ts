import { sql } from 'kysely';
import type { Database } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import {
  type Action,
  type Body,
  type ChangeValues,
  type ImportSummary,
  maxItems,
  sequenceFields,
} from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import type { DoneMessage } from '../shell/index.ts';
import type { DataRecord } from './calls.ts';
import { createOnce } from './create-once.ts';
import { isRemoval, undoValues } from './history.ts';
import type { ImportResult } from './import-report.ts';
import { importJob } from './import-request.ts';
import { writable } from './inputs.ts';
import type { DataRequest } from './routes.ts';
import { unlessConflict, unlessKept, unlessMissing } from './unless.ts';
import { valueText } from './values.ts';

/** Returns the button that undoes a change to a record or, without an ID, the changes to several records. */
export const undoButton: DoneMessage['undo'] = ({ url }, { id, change }) => {
  const [path] = /^\/setup\/o\/[^/?]+\/data\/[^/?]+/.exec(url) ?? [];
  if (path === undefined || change === undefined) return undefined;
  return {
    action: id === undefined ? `${path}/undo` : `${path}/${encodeURIComponent(id)}/undo`,
    fields: [
      { name: 'change', value: change },
      { name: 'from', value: /^[^?]*\/board(\?|$)/.test(url) ? 'board' : 'notice' },
    ],
  };
};

/** Returns the transaction in a change's position. */
export const transactionOf = (position: string): string => position.split('-')[0] ?? '';

/** Returns the change that the current request made to a record, if the member can read the record's history. */
async function requestedChange(
  { request, resource, calls }: DataRequest,
  id: string,
): Promise<ChangeValues | undefined> {
  if (!calls.allows(resource, 'read')) return undefined;
  // The record can have left the member's scopes.
  const history = await unlessMissing(() => calls.history(resource, id, ''));
  return history?.items.find((change) => change.request_id === request.id);
}

/** Returns the action that undoes a change. */
const undoAction = (change: ChangeValues): Action =>
  change.action === 'trash' ? 'restore' : isRemoval(change) ? 'create' : 'update';

/** Returns the position of the change that the current request made to a record, if the member can undo it. */
export async function undoablePosition(context: DataRequest, id: string): Promise<string | undefined> {
  const { resource, calls } = context;
  const change = await requestedChange(context, id);
  if (change === undefined || undoValues(resource, change) === undefined) return undefined;
  return calls.allows(resource, undoAction(change)) ? change.position : undefined;
}

/**
 * Returns a change to a record and the values that undo it.
 * @throws HttpError 404 if the change cannot be undone, or 403 if the member may not undo it
 */
export async function readUndo(
  { resource, calls }: Pick<DataRequest, 'resource' | 'calls'>,
  id: string,
  position: string,
): Promise<[ChangeValues, Body]> {
  const change = await calls.change(resource, id, position);
  const values = undoValues(resource, change);
  if (values === undefined) throw errors.notFound();
  const action = undoAction(change);
  if (!calls.allows(resource, action)) throw errors.forbidden(resource.name, action);
  return [change, values];
}

/** Creates a deleted record again, or restores it from the trash. Each deletion is undone only once. */
export const restoreRecord = (
  { resource, calls }: Pick<DataRequest, 'resource' | 'calls'>,
  id: string,
  { action, position, before }: ChangeValues,
  values: Body,
): Promise<DataRecord> =>
  action === 'trash'
    ? calls.restore(resource, id)
    : createOnce(
        calls,
        resource,
        `undo-${id}-${position.replace(/[^\w-]/g, '')}`,
        values,
        sequenceValuesOf(resource, before),
      );

/** Returns the values of a deleted record that come from sequences. */
const sequenceValuesOf = (
  { definition }: DataRequest['resource'],
  before: ChangeValues['before'],
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    sequenceFields(definition).flatMap(({ name }) => {
      const value = before?.[name];
      return typeof value === 'string' ? [[name, value]] : [];
    }),
  );

/** Returns a record's entity tag if the changed fields still have the values that the change stored. */
export async function tagAfter(
  { resource, calls }: Pick<DataRequest, 'resource' | 'calls'>,
  id: string,
  { changed, after }: ChangeValues,
): Promise<string | undefined> {
  const { record, tag } = await calls.readWhole(resource, id);
  const isUnchanged = writable(resource)
    .filter(({ name }) => changed.includes(name))
    .every((field) => valueText(field, record[field.name]) === valueText(field, after?.[field.name]));
  return isUnchanged ? tag : undefined;
}

/** Number of the newest changes of an organization among which the changes of an import are searched. */
const maxRecent = 3 * maxItems;

/** A request that imported records. */
interface ImportingRequest {
  readonly organization: string;
  readonly requestId: string;
  /** Name of the resource. */
  readonly resource: string;
}

/**
 * Returns the transaction in which a request has just imported records. Undefined if the import wrote more records than are undone
 * together, or ran several transactions.
 */
export async function importTransaction(
  database: Database,
  { organization, requestId, resource }: ImportingRequest,
  { created, updated }: ImportSummary,
): Promise<string | undefined> {
  const count = created + updated;
  if (count === 0 || count > maxItems) return undefined;
  const { rows } = await sql<{ readonly transaction: string; readonly created: number }>`
    select transaction::text, count(*) filter (where action = 'create')::int as created
    from (
      select transaction, action, object, request_id from crm_ledger
      where organization_id = ${organization}::bigint
      order by transaction desc, id desc limit ${maxRecent}::int
    ) recent
    where request_id = ${requestId} and object = ${resource}
    group by transaction`.execute(tablesOf(database));
  const [only, ...others] = rows;
  return others.length === 0 && only?.created === created ? only.transaction : undefined;
}

/** Removes the transaction from the results of jobs whose import was undone, so that their pages do not offer it again. */
export async function markUndone(
  { database, resource, member }: DataRequest,
  transaction: string,
): Promise<void> {
  const property = JSON.stringify({ transaction } satisfies Pick<ImportResult, 'transaction'>).slice(1, -1);
  const replacement = JSON.stringify({ undone: true } satisfies Pick<ImportResult, 'undone'>).slice(1, -1);
  await sql`update crm_jobs set result = replace(result, ${property}, ${replacement})
    where organization_id = ${member.membership.organization}::bigint and resource = ${resource.name}
      and action = ${importJob} and strpos(result, ${property}) > 0`.execute(tablesOf(database));
}

/** Returns the transaction of an import that the member can undo. */
export const undoableImport = (
  { resource, calls }: Pick<DataRequest, 'resource' | 'calls'>,
  { created, transaction }: ImportResult,
): string | undefined =>
  calls.allows(resource, 'read') && (created === 0 || calls.allows(resource, 'delete'))
    ? transaction
    : undefined;

/** Deletes a created record that still has its values. @returns whether it was deleted */
async function removeCreated(context: DataRequest, id: string, position: string): Promise<boolean> {
  const { resource, calls } = context;
  const remove = async () => {
    const tag = await tagAfter(context, id, await calls.change(resource, id, position));
    if (tag === undefined || (await calls.hasDependents(resource, id))) return undefined;
    return calls.remove(resource, id, tag);
  };
  return (await unlessKept(remove)) !== undefined;
}

/** Number of records whose changes are undone at the same time. */
const concurrency = 8;

/** How many of the changes of a transaction were undone. */
interface UndoneChanges {
  readonly undone: number;
  /** Number of records that have been changed or deleted since, or on which other records depend. */
  readonly kept: number;
  /** Whether the transaction imported, deleted or changed the records. */
  readonly kind: 'import' | 'removal' | 'update';
}

/**
 * Undoes the changes to several records that the member made in a transaction: created records that still have their values are
 * deleted, deleted records are created again or restored from the trash, and fields that still have the new values get the previous
 * ones.
 * @throws HttpError 404 if the member wrote none of the resource's records in this transaction
 */
export async function undoMany(context: DataRequest, transaction: string): Promise<UndoneChanges> {
  const { database, resource, member, calls } = context;
  if (!/^\d{1,19}$/.test(transaction)) throw errors.notFound();
  const rows = await tablesOf(database)
    .selectFrom('crm_ledger')
    .select(['id', 'object_id', 'action'])
    .where('organization_id', '=', member.membership.organization)
    .where('transaction', '=', transaction)
    .where('object', '=', resource.name)
    .where('action', 'in', ['create', 'delete', 'trash', 'update'])
    .where('actor_kind', '=', 'user')
    .where('actor_id', '=', member.person.session.user.id)
    .orderBy('id')
    .limit(maxItems)
    .execute();
  if (rows.length === 0) throw errors.notFound();
  const undo = async (id: string, position: string, action: string): Promise<boolean> => {
    if (action === 'create') return removeCreated(context, id, position);
    if (action !== 'update') {
      const [change, values] = await readUndo(context, id, position);
      await restoreRecord(context, id, change, values);
      return true;
    }
    const write = async () => {
      const [change, values] = await readUndo(context, id, position);
      const tag = await tagAfter(context, id, change);
      return tag && calls.patch(resource, id, tag, values);
    };
    return Boolean(await unlessConflict(() => unlessMissing(write)));
  };
  let undone = 0;
  for (let start = 0; start < rows.length; start += concurrency) {
    const results = rows
      .slice(start, start + concurrency)
      .map(({ id, object_id, action }) => undo(String(object_id), `${transaction}-${id}`, action));
    undone += (await Promise.all(results)).filter(Boolean).length;
  }
  return {
    undone,
    kept: rows.length - undone,
    kind: rows.some(({ action }) => action === 'create')
      ? 'import'
      : rows.some(({ action }) => action !== 'update')
        ? 'removal'
        : 'update',
  };
}
