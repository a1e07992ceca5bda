import { errors, HttpError } from '../../../engine/errors.ts';
import {
  type Action,
  type Body,
  type ChangeValues,
  maxItems,
  sequenceFields,
} from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import type { DoneMessage } from '../shell/index.ts';
import type { DataRecord } from './calls.ts';
import { createOnce } from './create-once.ts';
import { isRemoval, undoValues } from './history.ts';
import type { DataRequest } from './routes.ts';

/** Returns the button that undoes a change to a record or, without an ID, restores the records deleted together. */
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

/** Returns the change that the current request made to a record, if the member can read the record's history. */
async function requestedChange(
  { request, resource, calls }: DataRequest,
  id: string,
): Promise<ChangeValues | undefined> {
  if (!calls.allows(resource, 'read')) return undefined;
  try {
    const { items } = await calls.history(resource, id, '');
    return items.find((change) => change.request_id === request.id);
  } catch (error) {
    // The record has left the member's scopes.
    if (error instanceof HttpError && error.status === 404) return undefined;
    throw error;
  }
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

/** Number of records that are restored at the same time. */
const concurrency = 8;

/**
 * Creates the records again that the member deleted in a transaction, or restores them from the trash.
 * @returns the number of restored records
 * @throws HttpError 404 if the member deleted none of the resource's records in this transaction
 */
export async function restoreMany(context: DataRequest, transaction: string): Promise<number> {
  const { database, resource, member } = context;
  if (!/^\d{1,19}$/.test(transaction)) throw errors.notFound();
  const rows = await tablesOf(database)
    .selectFrom('crm_ledger')
    .select(['id', 'object_id'])
    .where('organization_id', '=', member.membership.organization)
    .where('transaction', '=', transaction)
    .where('object', '=', resource.name)
    .where('action', 'in', ['delete', 'trash'])
    .where('actor_kind', '=', 'user')
    .where('actor_id', '=', member.person.session.user.id)
    .orderBy('id')
    .limit(maxItems)
    .execute();
  if (rows.length === 0) throw errors.notFound();
  for (let start = 0; start < rows.length; start += concurrency) {
    const restored = rows.slice(start, start + concurrency).map(async ({ id, object_id }) => {
      const position = `${transaction}-${id}`;
      const [change, values] = await readUndo(context, String(object_id), position);
      await restoreRecord(context, String(object_id), change, values);
    });
    await Promise.all(restored);
  }
  return rows.length;
}
