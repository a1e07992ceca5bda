import type { FastifyInstance, FastifyRequest } from 'fastify';
import { sql } from 'kysely';
import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors, HttpError } from '../../../engine/errors.ts';
import { parseOwnJson } from '../../../engine/fields/index.ts';
import type { ChangeValues } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { type InstanceSecrets, signing } from '../../access/secrets/index.ts';
import type { CurrentMember } from '../shell/index.ts';
import { type Calls, type DataRecord, prepareCalls } from './calls.ts';
import { resourceViewsOf } from './custom-values.ts';
import { isRemoval } from './history.ts';
import { writable } from './inputs.ts';
import { readUndo, restoreRecord } from './undo.ts';
import { titlesOf } from './values.ts';

/** A change to a record, as undone together with others. */
export interface RecordChange {
  readonly action: ChangeValues['action'];
  /** The name of the resource and the record's ID. */
  readonly resource: string;
  readonly id: string;
  /** The record's title after the change, or before it if the change removed the record. */
  readonly title: string;
  readonly position: string;
  readonly version: string;
  /** ID of the request that made the change. */
  readonly requestId: string;
}

/**
 * A change that was not undone, and why: the record has been changed again since, other records would be deleted with the record,
 * or the error that the write returned.
 */
export interface KeptChange {
  readonly change: RecordChange;
  readonly reason: 'changed' | 'dependents' | HttpError;
}

/** Lists and undoes changes to records of all resources on behalf of a member. */
export interface UndoChanges {
  /**
   * Returns the changes that requests made, newest first.
   * @param since the time of the first request
   */
  readonly list: (requestIds: readonly string[], since: Date) => Promise<readonly RecordChange[]>;
  /**
   * Undoes changes in their order. A record that has been changed by other requests since is not changed.
   * @param assertAllowed checks that the member may still do so, because this can take a while
   */
  readonly undo: (
    changes: readonly RecordChange[],
    assertAllowed: () => Promise<void>,
  ) => Promise<{ readonly undone: number; readonly kept: readonly KeptChange[] }>;
}

/** Maximum number of changes that are undone together. */
export const maxUndoneChanges = 5000;

/** Maximum length of a record as JSON, in characters, from which its title is read. */
const maxTitleSource = 20_000;

/** Number of changes after which the member's permission is checked again. */
const changesPerCheck = 50;

/** Time by which the start of a transaction can precede its request's other times, in minutes. */
const marginMinutes = 10;

/** Returns a function that prepares the undo of changes for a member's request. */
export function prepareUndo(
  app: FastifyInstance,
  services: {
    readonly database: Database;
    readonly resources: readonly Resource[];
    readonly secrets: InstanceSecrets;
  },
): (request: FastifyRequest, member: CurrentMember) => Promise<UndoChanges> {
  const { database, resources, secrets } = services;
  const tables = tablesOf(database);
  const callsOf = prepareCalls(app, { database, resources, signing: signing(secrets, 'cursors of lists') });
  return async (request, member) => {
    const { organization } = member.membership;
    const calls = callsOf(request, member);
    const memberViews = await resourceViewsOf({ database, resources }, member.membership);
    const views = new Map(memberViews.map((view) => [view.name, view]));
    const titles = titlesOf(memberViews);

    const list: UndoChanges['list'] = async (requestIds, since) => {
      const { rows } = await sql<Omit<RecordChange, 'title'> & { readonly record: string | null }>`
        select l.action, l.object as resource, l.object_id::text as id, l.transaction::text || '-' || l.id::text as position,
          l.version::text as version, l.request_id as "requestId",
          case when length(coalesce(l.record, l.before)) <= ${maxTitleSource}::int then coalesce(l.record, l.before) end as record
        from crm_ledger l
        where l.organization_id = ${organization}::bigint and l.at >= ${since}::timestamptz - ${marginMinutes}::int * interval '1 minute'
          and l.version is not null and l.request_id = any(${requestIds}::text[])
        order by l.id desc limit ${maxUndoneChanges + 1}::int`.execute(tables);
      return rows.flatMap(({ record, ...change }) => {
        const view = views.get(change.resource);
        if (view === undefined) return [];
        const values = record === null ? {} : (parseOwnJson(record) as DataRecord);
        return [{ ...change, title: titles.of(view, { ...values, id: change.id }) }];
      });
    };

    /** Checks that only these requests have changed a record since a change. @throws HttpError 412 otherwise */
    const assertNewest = async (
      { resource, id, version }: RecordChange,
      requestIds: readonly string[],
    ): Promise<void> => {
      const { rows } = await sql`
        select from crm_ledger l
        where l.organization_id = ${organization}::bigint and l.object = ${resource} and l.object_id = ${id}::bigint
          and l.version > ${version}::bigint and not coalesce(l.request_id = any(${requestIds}::text[]), false)
        limit 1`.execute(tables);
      if (rows.length > 0) throw errors.preconditionFailed();
    };

    const undo: UndoChanges['undo'] = async (changes, assertAllowed) => {
      const requestIds = [...new Set(changes.map(({ requestId }) => requestId)), request.id];
      const kept: KeptChange[] = [];
      /** Records of which a change was not undone. Their earlier changes are not undone either. */
      const keptRecords = new Set<string>();
      let undone = 0;
      for (const [index, change] of changes.entries()) {
        if (index % changesPerCheck === 0) await assertAllowed();
        const view = views.get(change.resource);
        if (view === undefined) throw errors.notFound();
        const name = `${change.resource} ${change.id}`;
        const result = keptRecords.has(name)
          ? 'changed'
          : await undoChange(calls, view, change, () => assertNewest(change, requestIds)).catch(reasonOf);
        if (result === 'undone') undone++;
        else if (result !== 'unaffected') {
          keptRecords.add(name);
          kept.push({ change, reason: result });
        }
      }
      return { undone, kept };
    };
    return { list, undo };
  };
}

/** Returns why a change was not undone. @throws unknown any other failure */
function reasonOf(cause: unknown): KeptChange['reason'] {
  if (!(cause instanceof HttpError) || cause.status >= 500) throw cause;
  return cause.status === 412 ? 'changed' : cause;
}

/**
 * Undoes a change.
 * @param assertNewest checks that the record has not been changed since
 * @returns `unaffected` if the change affected only fields that callers cannot write, for example a counter of a module
 * @throws HttpError 412 if the record has been changed since, and in the same cases as the API
 */
async function undoChange(
  calls: Calls,
  resource: ResourceView,
  change: RecordChange,
  assertNewest: () => Promise<void>,
): Promise<'undone' | 'unaffected' | 'dependents'> {
  const { id, position } = change;
  if (change.action === 'create' || change.action === 'restore') {
    const { tag } = await readExisting(calls, resource, id);
    await assertNewest();
    if (await calls.hasDependents(resource, id)) return 'dependents';
    await calls.remove(resource, id, tag);
    return 'undone';
  }
  if (isRemoval(change)) {
    await assertNewest();
    const [stored, values] = await readUndo({ resource, calls }, id, position);
    await restoreRecord({ resource, calls }, id, stored, values);
    return 'undone';
  }
  const { changed } = await calls.change(resource, id, position);
  if (!writable(resource).some(({ name }) => changed.includes(name))) return 'unaffected';
  const { tag } = await readExisting(calls, resource, id);
  await assertNewest();
  const [, values] = await readUndo({ resource, calls }, id, position);
  await calls.patch(resource, id, tag, values);
  return 'undone';
}

/** Reads a record. @throws HttpError 412 if it has been deleted */
const readExisting = (calls: Calls, resource: ResourceView, id: string): ReturnType<Calls['readWhole']> =>
  calls.readWhole(resource, id).catch((cause: unknown) => {
    throw cause instanceof HttpError && cause.status === 404 ? errors.preconditionFailed() : cause;
  });
