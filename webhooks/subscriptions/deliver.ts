import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Resource, ResourceView } from '../../engine/compile/index.ts';
import { type Database, ttlCache } from '../../engine/database/index.ts';
import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { type FieldIssue, HttpError, UserError } from '../../engine/errors.ts';
import {
  allows,
  type ChangeStates,
  compileChangeStates,
  customFieldsIn,
  execute,
  type Grants,
  limitsChanges,
  loggedFieldNames,
  matching,
  matchingStates,
  noGrants,
  pastTenses,
  removalActions,
  visibleCustomFields,
} from '../../engine/records/index.ts';
import { type Tables, tablesOf } from '../../engine/tables/index.ts';
import { profileGrants } from '../../plugins/access/identity/index.ts';
import type { Sealing } from '../../plugins/access/secrets/index.ts';
import { backoff, type ClaimedItem, type ItemOutcome, reasonSentence } from '../queue/index.ts';
import { withoutSlash } from '../settings/index.ts';
import { subscriptionsPath } from './api.ts';
import { batchMembers, collectedAt, fixMembers, type RemovedMember } from './batches.ts';
import type { DeliveryClaim } from './deliveries.ts';
import { formats, type SubscriptionEvent } from './formats.ts';
import { checkStates, parseFilter } from './input.ts';
import { bodyStart, type Poster, type PostResult } from './post.ts';
import { type DeliveryReason, deliveryReasons } from './reasons.ts';
import { signatureHeaders } from './subscriptions.ts';
import { checkTransitions, containsTransitions, type SelectedTransitions } from './transitions.ts';

/** Minimum retry period in milliseconds and minimum number of attempts before an event becomes a dead letter. */
const [retryPeriodMs, minAttempts] = [3 * 24 * 3_600_000, 12];
/**
 * Number of consecutive failures and their duration in milliseconds after which a receiver is paused, and the
 * longest pause in milliseconds.
 */
const [pauseAfterFailures, pauseAfterMs, maxPauseMs] = [10, 30_000, 300_000];
/** Maximum `Retry-After` value to honor, in milliseconds. */
const maxRetryAfterMs = 24 * 3_600_000;
/** How long a stopping server waits for responses, in milliseconds. Unanswered events are resent later. */
const graceMs = 1000;
/** Number of days without a successful delivery after which a subscription is disabled. */
const failedDays = 5;

/** Services required for delivering events. */
interface DeliveryContext {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly sealing: Sealing;
  readonly poster: Poster;
  /** Returns the instance's public origin, or an empty string. */
  readonly publicUrl: () => string;
  /** Notifies an organization's administrators that a subscription has been disabled. */
  readonly notify: (organization: string, subscription: string, reason: string) => Promise<void>;
}

/** Returns whether an event's retry period is over. */
const isOver = ({ ageMs, attempts }: Pick<ClaimedItem<unknown>, 'ageMs' | 'attempts'>): boolean =>
  ageMs > retryPeriodMs && attempts >= minAttempts;

/** Thrown if an event is not sent. */
class NotSent extends Error {
  readonly reason: DeliveryReason;

  constructor(code: DeliveryReason['code'], values?: DeliveryReason['values']) {
    super(code);
    this.reason = { code, ...(values && { values }) };
  }
}
/** Thrown if the event must not be sent. */
class Withheld extends NotSent {}
/** Thrown if the event does not concern the subscription. */
class Skipped extends NotSent {}

/** Thrown if another node has claimed the batch. */
class OtherNode extends Error {}

/** Returns the outcome of an item for which no request was sent. */
function unsent(item: ClaimedItem<DeliveryClaim>, cause: unknown): ItemOutcome {
  if (cause instanceof Skipped) {
    const request = `Not sent: ${reasonSentence(deliveryReasons, cause.reason)}.`;
    return { skipped: cause.reason, values: { request, url: '', request_body: '', response_body: '' } };
  }
  if (cause instanceof Withheld) return { failure: cause.reason };
  const { message, name } = cause as Error;
  const isKnown = [UserError, HttpError].some((kind) => cause instanceof kind);
  const failure: DeliveryReason =
    cause instanceof OtherNode
      ? { code: 'otherNode' }
      : isKnown
        ? { code: 'message', values: { message } }
        : { code: 'internal', values: { name } };
  return isOver(item) ? { failure } : { failure, retryMs: backoff(item.attempts) };
}

/** Creates the function that sends an event to a subscription's receiver. */
export function deliverer(
  app: FastifyInstance,
  { database, resources, sealing, poster, publicUrl, notify }: DeliveryContext,
): (item: ClaimedItem<DeliveryClaim>) => Promise<ItemOutcome> {
  let isStopping = false;
  let grace: NodeJS.Timeout | undefined;
  app.addHook('preClose', async () => {
    // The worker waits for requests in progress, so they are aborted after the grace period.
    grace = setTimeout(() => {
      isStopping = true;
      poster.close();
    }, graceMs);
  });
  app.addHook('onClose', async () => {
    clearTimeout(grace);
    poster.close();
  });
  const grants = ttlCache(
    'grants',
    async ({ organization, profile }: { readonly organization: string; readonly profile: string }) => ({
      grants: await profileGrants(tablesOf(database), organization, profile),
    }),
    { textOf: ({ organization, profile }) => `${organization}/${profile}` },
  );
  const eventOf = eventBuilder(database, resources, async (organization, profile) => {
    const cached = await grants.get({ organization, profile });
    return cached?.grants ?? noGrants;
  });

  /** Subscriptions whose last delivery failed. */
  const failingOwners = new Set<string>();

  return async (item) => {
    const { organization, owner, row } = item;
    const format = formats[row.format];
    const idOf = ({ eventId }: Pick<ClaimedItem<unknown>, 'eventId'>) => `evt_${owner}_${eventId}`;
    const isBatch = row.action === 'batch';
    const isArray = isBatch || row.batch_events > 0;
    const id = isBatch ? `batch_${owner}_${item.eventId}` : idOf(item);
    let body: Buffer;
    let secrets: string[];
    try {
      const source = `${withoutSlash(publicUrl())}${subscriptionsPath}/${owner}`;
      const render = async (event: ClaimedItem<DeliveryClaim>): Promise<string> =>
        (isArray ? format.element : format.body)(await eventOf(event), { id: idOf(event), source });
      const elements = isBatch ? await batchElements(database, item, render) : [await render(item)];
      body = Buffer.from(isArray ? `[${elements.join(',')}]` : elements.join());
      secrets = await Promise.all([row.secret, row.previous_secret].map(sealing.open));
    } catch (cause) {
      return unsent(item, cause);
    }
    const signature = signatureHeaders(
      id,
      body,
      secrets.filter((secret) => secret !== ''),
    );
    const result = await poster.post(row.url, body, {
      'content-type': isArray ? format.batchContentType : format.contentType,
      ...signature,
    });
    const { request, response, status, body: response_body, bytes: received } = result;
    const outcome = {
      values: { request, response, url: row.url, request_body: bodyStart(body), response_body },
      request: {
        sent: body.length,
        ...(status !== undefined && { status }),
        ...(received !== undefined && { received }),
      },
    };
    if (status !== undefined && status >= 200 && status < 300) {
      // `row.failures` does not include failures that occurred after the item was claimed.
      if (failingOwners.delete(owner) || row.failures > 0) await recordRecovery(tablesOf(database), item);
      return outcome;
    }
    if (status === undefined && isStopping) {
      return { failure: { code: 'stopped' }, retryMs: 0 };
    }
    const failure = result.failure ?? { code: 'status', values: { status: String(status) } };
    failingOwners.add(owner);
    const retryMs = await recordFailure(tablesOf(database), item, result, () =>
      notify(organization, owner, reasonSentence(deliveryReasons, failure)),
    );
    return { ...outcome, failure, ...(retryMs !== undefined && { retryMs }) };
  };
}

/** Maximum size of a batch's events in its first request, in bytes. A larger event is sent alone. */
const maxBatchBytes = 1024 * 1024;

/**
 * Renders the events of a batch, and fixes them before the first request. Events that must not be sent leave the batch, so
 * that no later request contains them.
 * @throws Skipped if no events remain
 */
async function batchElements(
  database: Database,
  batch: ClaimedItem<DeliveryClaim>,
  render: (event: ClaimedItem<DeliveryClaim>) => Promise<string>,
): Promise<readonly string[]> {
  const elements: string[] = [];
  const removed: RemovedMember[] = [];
  let bytes = 0;
  const members = await batchMembers(tablesOf(database), batch);
  for (const [index, member] of members.entries()) {
    try {
      const element = await render(member);
      bytes += Buffer.byteLength(element) + 1;
      if (!batch.row.is_sealed && elements.length > 0 && bytes > maxBatchBytes) {
        removed.push(...members.slice(index).map(({ id }) => ({ id, status: 'waiting' as const })));
        break;
      }
      elements.push(element);
    } catch (cause) {
      if (!(cause instanceof Skipped || cause instanceof Withheld)) throw cause;
      const status = cause instanceof Skipped ? 'done' : 'dead';
      removed.push({ id: member.id, status, reason: cause.reason });
    }
  }
  if ((!batch.row.is_sealed || removed.length > 0) && !(await fixMembers(database, batch, removed)))
    throw new OtherNode();
  if (elements.length === 0) throw new Skipped('emptyBatch');
  return elements;
}

/**
 * Creates the function that builds an event. Its data contains the record after the change and the record's current
 * state, as visible to the subscription's profile.
 */
function eventBuilder(
  database: Database,
  resources: readonly Resource[],
  grantsOf: (organization: string, profile: string) => Promise<Grants>,
): (item: ClaimedItem<DeliveryClaim>) => Promise<SubscriptionEvent> {
  const byName = new Map(resources.map((resource) => [resource.name, resource]));
  const readers = new WeakMap<ResourceView, RecordReader>();
  const readerFor = (view: ResourceView): RecordReader => {
    const reader = readers.get(view) ?? readerOf(view);
    readers.set(view, reader);
    return reader;
  };
  return async ({ id, organization, row }) => {
    if (row.position === null) return { type: 'test', at: row.at, subject: undefined, data: '{}' };
    const resource = byName.get(row.object);
    if (resource === undefined) throw new Withheld('missingResource', { resource: row.object });
    const grants = await grantsOf(organization, row.profile_id);
    if (!allows(grants, resource.definition, 'read')) {
      throw new Withheld('notGranted', { resource: row.object });
    }
    const reader = readerFor(resource.viewFor(grants));
    const principal = { kind: 'partner', actor: null, name: null, organization, user: null, grants } as const;
    const caller = { principal, requestId: `event-${id}` };
    const recordId = String(row.object_id);
    const change = await reader.change(database, caller, recordId, row.position);
    const { action } = change ?? row;
    if (row.filter_when !== 'matches' || row.transitions !== '') {
      if (change === undefined) throw new Withheld('missingChange');
      reader.assertTransitions(row.transitions, change);
      if (row.filter_when !== 'matches') await reader.assertMoves(database, caller, recordId, row);
    }
    const record = removalActions.includes(action)
      ? undefined
      : await reader.record(database, caller, recordId, row.filter_when === 'matches' ? row.filter : '');
    const data = [
      `"position":"${row.position}"`,
      `"action":"${action}"`,
      `"resource":${JSON.stringify(row.object)}`,
      `"id":${row.object_id}`,
      `"version":${row.version}`,
      `"changed":${change?.changed ?? visibleNames(row.changed, reader)}`,
      ...(change === undefined
        ? []
        : [`"previous":${change.previous ?? 'null'}`, `"after":${change.after ?? 'null'}`]),
      `"record":${record ?? 'null'}`,
    ];
    return {
      type: `${row.object}.${pastTenses[action] ?? action}`,
      at: row.at,
      subject: `${row.object}/${row.object_id}`,
      data: `{${data.join(',')}}`,
    };
  };
}

/** Returns the names of a queued change's fields that the profile sees, as JSON. */
const visibleNames = (changed: string, { loggedNames }: RecordReader): string =>
  JSON.stringify((JSON.parse(changed) as string[]).filter((name) => loggedNames.has(name)));

type Caller = Parameters<Resource['operations']['read']['plan']>[0]['caller'];

/** Reads a resource's records and changes for events. */
interface RecordReader {
  /** Names of the fields included in changes. */
  readonly loggedNames: ReadonlySet<string>;
  /**
   * Reads a change as the subscription's profile sees it now. Returns undefined if the change log no longer contains it.
   * @throws Skipped if the profile might not be allowed to see the change
   */
  readonly change: (
    database: Database,
    caller: Caller,
    id: string,
    position: string,
  ) => Promise<ChangeStates | undefined>;
  /**
   * Checks that a change contains a subscription's transitions.
   * @param transitions the transitions as JSON, or an empty string
   * @throws Skipped if it does not contain them; Withheld if they are no longer valid
   */
  readonly assertTransitions: (transitions: string, change: ChangeStates) => void;
  /**
   * Checks that a change makes a record match the filter or stop matching it.
   * @throws Skipped if it does not; Withheld if the filter is no longer valid
   */
  readonly assertMoves: (
    database: Database,
    caller: Caller,
    id: string,
    delivery: Pick<DeliveryClaim, 'position' | 'filter' | 'filter_when'>,
  ) => Promise<void>;
  /**
   * Reads a record as JSON. Returns undefined if it was deleted or the profile cannot read it.
   * @throws Skipped if it does not match the filter; Withheld if the filter is no longer valid
   */
  readonly record: (
    database: Database,
    caller: Caller,
    id: string,
    filter: string,
  ) => Promise<string | undefined>;
}

/**
 * Rejects a filter or transitions that the resource's definition no longer supports. Ignoring them would send all records.
 * @throws Withheld with the first issue
 */
function rejectOutdated([issue]: readonly FieldIssue[]): void {
  if (issue !== undefined) throw new Withheld('outdatedSelection', { message: issue.message });
}

/** Creates a reader for a resource's records. */
function readerOf({ name, context, operations, definition }: ResourceView): RecordReader {
  // Reads must not use replicas, because replicas can be out of date.
  const { plan, statement, result } = operations.read;
  const visibleFields = definition.fields.filter(({ sensitive }) => !sensitive);
  const selection = visibleFields.length === definition.fields.length ? undefined : visibleFields;
  const filters = matching(context);
  const changes = compileChangeStates(context);
  const isLimited = limitsChanges({ resources: [context], action: 'read' });
  const states = matchingStates(context);
  const parsedFilter = async (database: Database, caller: Caller, filter: string, issues: FieldIssue[]) => {
    const all = await customFieldsIn(database, { context }, caller);
    const customFields = visibleCustomFields(all?.get(name) ?? [], definition, caller.principal.grants);
    return parseFilter(filter, name, filters, customFields, issues);
  };
  return {
    loggedNames: new Set(loggedFieldNames(definition)),
    change: async (database, caller, id, position) => {
      const changePlan = changes.plan({ caller, id, position });
      const rows = await execute(database, { statement: changes.statement }, changePlan);
      const change = changes.result(rows);
      if (change === undefined && isLimited) throw new Skipped('hiddenChange');
      return change;
    },
    assertTransitions: (text, change) => {
      if (text === '') return;
      const transitions = JSON.parse(text) as SelectedTransitions;
      const issues: FieldIssue[] = [];
      checkTransitions(transitions, { name, definition }, issues);
      rejectOutdated(issues);
      if (!containsTransitions(transitions, change)) throw new Skipped('otherTransition');
    },
    assertMoves: async (database, caller, id, { position, filter, filter_when }) => {
      const issues: FieldIssue[] = [];
      const query = await parsedFilter(database, caller, filter, issues);
      checkStates(query, name, states, issues);
      rejectOutdated(issues);
      const statesPlan = states.plan({ caller, id, position: String(position) }, query);
      const matches = states.result(await execute(database, { statement: states.statement }, statesPlan));
      const isSent =
        filter_when === 'enters' ? matches?.after && !matches.before : matches?.before && !matches.after;
      if (isSent !== true) throw new Skipped('notMoved', { mode: filter_when });
    },
    record: async (database, caller, id, filter) => {
      const { organization } = caller.principal;
      if (filter !== '') {
        const issues: FieldIssue[] = [];
        const parsedQuery = await parsedFilter(database, caller, filter, issues);
        rejectOutdated(issues);
        const rows = await execute(database, filters, { organization, caller, id, parsedQuery });
        if (rows.length === 0) throw new Skipped('noMatch');
      }
      const readPlan = plan({ caller, selection, id });
      const rows = await execute(database, { statement }, readPlan);
      return rows.length === 0 ? undefined : String(result(readPlan, rows).json);
    },
  };
}

/**
 * Records that the receiver has recovered. After many failures, retries scheduled more than a minute ahead become due.
 */
async function recordRecovery(
  tables: Tables,
  { organization, owner, row }: ClaimedItem<DeliveryClaim>,
): Promise<void> {
  await sql`update crm_event_subscriptions set failures = 0, failing_since = null
    where organization_id = ${organization}::bigint and id = ${owner}::bigint`.execute(tables);
  if (row.failures < pauseAfterFailures) return;
  await sql`update crm_event_deliveries set next_at = now()
    where organization_id = ${organization}::bigint and subscription_id = ${owner}::bigint
      and status = 'waiting' and next_at > now() + interval '1 minute' and next_at < ${sql.raw(collectedAt)}`.execute(
    tables,
  );
}

const bySystem: Actor = { kind: 'partner', id: null, name: 'event receiver', requestId: null, audited: true };

/**
 * Records a failed delivery and the receiver's failure.
 * @param notify called if the failure disables the subscription
 * @returns the delay before the next attempt in milliseconds, or undefined if the event will not be retried
 */
async function recordFailure(
  tables: Tables,
  { organization, owner, attempts, ageMs, row }: ClaimedItem<DeliveryClaim>,
  { status, retryAfterMs = 0 }: PostResult,
  notify: () => Promise<void>,
): Promise<number | undefined> {
  const excess = row.failures - pauseAfterFailures;
  const waitMs = Math.min(retryAfterMs, maxRetryAfterMs);
  const pauseMs = Math.max(waitMs, excess < 0 ? 0 : backoff(excess + 1, maxPauseMs));
  const ms = (value: number) => sql`${Math.round(value)}::bigint * interval '1 millisecond'`;
  const isGone = status === 410;
  const { rows } = await sql<{ state: string; was: string }>`
    update crm_event_subscriptions s set failures = s.failures + 1, failing_since = coalesce(s.failing_since, now()),
      paused_until = greatest(s.paused_until,
        now() + case when s.failing_since < now() - ${ms(pauseAfterMs)} then ${ms(pauseMs)} else ${ms(waitMs)} end),
      state = case when ${isGone}::boolean then 'gone'
        when s.failing_since < now() - ${failedDays}::int * interval '1 day' then 'failed' else s.state end
    where s.organization_id = ${organization}::bigint and s.id = ${owner}::bigint and s.state = 'on'
    returning s.state`.execute(tables);
  const isDisabled = rows.some(({ state }) => state !== 'on');
  if (isDisabled) {
    const change = { organization, action: 'switch off', object: 'event subscription', objectId: owner };
    await recordChanges(tables, bySystem, change);
    await notify();
  }
  const isGivenUp = isGone || isOver({ ageMs, attempts });
  if (isGivenUp) return undefined;
  const retryMs = Math.max(backoff(attempts), waitMs);
  // Later changes to the record wait for this delivery, so claims can skip them until its retry.
  await sql`update crm_event_deliveries set next_at = now() + ${Math.round(retryMs)}::bigint * interval '1 millisecond'
    where organization_id = ${organization}::bigint and subscription_id = ${owner}::bigint and status = 'waiting' and next_at < ${sql.raw(collectedAt)}
      and object = ${row.object} and object_id = ${row.object_id}::bigint and version > ${row.version}::bigint`.execute(
    tables,
  );
  return retryMs;
}
