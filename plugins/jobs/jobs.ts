import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { recordChanges } from '../../engine/effects/index.ts';
import { errors } from '../../engine/errors.ts';
import { isRowId } from '../../engine/fields/index.ts';
import {
  type Action,
  allows,
  type Caller,
  type CallerScope,
  covers,
  everyGrant,
  isAction,
  type JobStatus,
  type Principal,
  recordLimits,
  visibleSql,
} from '../../engine/records/index.ts';
import { prepare, quote, record } from '../../engine/sql/index.ts';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import { cancelJob } from './queue.ts';
import { type JobAccess, jobTypeOf } from './types.ts';

/** A job, as a caller sees it. */
export interface VisibleJob extends JobStatus {
  /** Whether the caller started it. */
  readonly isStarter: boolean;
}

/**
 * Returns a job of the caller's organization. Callers see the jobs that they started. Callers who could perform the action on the
 * record also see the jobs that others started; of these, only callers whose grants limit nothing see the result and the error,
 * because they can contain records and fields that other callers cannot see.
 * @throws HttpError 404 if it does not exist, or the caller cannot see it
 */
export async function findJob(access: JobAccess, caller: Caller, id: string): Promise<VisibleJob> {
  const { principal } = caller;
  const { grants, organization } = principal;
  const row = isRowId(id)
    ? await tablesOf(access.database)
        .selectFrom('crm_jobs')
        .select(statusColumns)
        .where('organization_id', '=', organization)
        .where('id', '=', id)
        .executeTakeFirst()
    : undefined;
  if (row === undefined) throw errors.notFound();
  const type = jobTypeOf(access.types, row);
  const isGranted = type !== undefined && allows(grants, type.resource.definition, type.grant);
  const isStarter = row.caller_kind === principal.kind && row.caller_id === principal.actor;
  if (!isStarter) {
    if (!isGranted) throw errors.notFound();
    const action = isAction(type.grant) ? type.grant : 'read';
    const isLimited = recordLimits(grants, type.resource.definition, action).length > 0;
    if (
      isLimited &&
      row.record_id !== null &&
      !(await canPerform(access.database, type.resource, principal, action, row.record_id))
    )
      throw errors.notFound();
  }
  const definitions = access.resources.map(({ definition }) => definition);
  const showsResult = isStarter ? isGranted : covers(grants, everyGrant, definitions);
  return {
    id: row.id,
    resource: row.resource,
    action: row.action,
    recordId: row.record_id,
    state: row.state,
    progress: row.done === null || row.total === null ? null : { done: row.done, total: row.total },
    result: showsResult ? row.result : '',
    error: showsResult ? row.error : '',
    createdAt: row.created_at,
    finishedAt: row.finished_at,
    isStarter,
  };
}

/** The columns of a job's status. The input can be large. */
const statusColumns = [
  ...(['id', 'resource', 'action', 'record_id', 'state', 'done', 'total', 'result', 'error'] as const),
  ...(['caller_kind', 'caller_id', 'created_at', 'finished_at'] as const),
];

/** Returns whether a caller can perform an action on a record. */
async function canPerform(
  database: Database,
  resource: Resource,
  principal: Principal,
  action: Action,
  id: string,
): Promise<boolean> {
  const { context } = resource.viewFor(principal.grants);
  const { organization } = principal;
  const { bind } = prepare<CallerScope>(
    '',
    'read',
    ($) =>
      `select 1 from ${quote(resource.name)} ${record} where ${visibleSql(context, action, $)} and ${record}."id" = ${$(() => id)}::bigint`,
  );
  const rows = await database.run(bind({ organization, caller: { principal } }), {
    organization,
    access: 'read',
  });
  return rows.length > 0;
}

/**
 * Cancels a job that the caller can see, and returns it. A running job is canceled as soon as its process notices it, usually within
 * two seconds. A finished job does not change.
 * @throws HttpError in the same cases as {@link findJob}
 */
export async function cancelVisibleJob(access: JobAccess, caller: Caller, id: string): Promise<VisibleJob> {
  const { principal, requestId } = caller;
  const { kind, actor, name, organization } = principal;
  await findJob(access, caller, id);
  await transaction(access.database, async (tables) => {
    if (await cancelJob(tables, organization, id))
      await recordChanges(
        tables,
        { kind, id: actor, name, requestId, audited: access.audited },
        { organization, action: 'cancel', object: 'job', objectId: id },
      );
  });
  return findJob(access, caller, id);
}
