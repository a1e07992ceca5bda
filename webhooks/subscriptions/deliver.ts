import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Resource } from '../../engine/compile/index.ts';
import { type Database, ttlCache } from '../../engine/database/index.ts';
import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { type FieldIssue, HttpError, UserError } from '../../engine/errors.ts';
import {
  allows,
  execute,
  type Grants,
  grantMasks,
  loggedFieldNames,
  matching,
} from '../../engine/records/index.ts';
import { type Tables, tablesOf } from '../../engine/tables/index.ts';
import type { Sealing } from '../../plugins/access/secrets/index.ts';
import { backoff, type ClaimedItem, type ItemOutcome } from '../queue/index.ts';
import type { DeliveryClaim } from './deliveries.ts';
import { parseFilter } from './input.ts';
import type { Poster, PostResult } from './post.ts';
import { signatureHeaders } from './signature.ts';

/** An event is tried for so long, and at least so often. */
const [triedMs, leastTries] = [3 * 24 * 3_600_000, 12];
/** After so many failures without a success between them, for so long, the receiver is left alone for a while, at most so long. In milliseconds. */
const [manyFailures, failingMs, longestPauseMs] = [10, 30_000, 300_000];
/** The longest `Retry-After` that is obeyed, in milliseconds. */
const longestWaitMs = 24 * 3_600_000;
/** How long a service that stops waits for receivers, in milliseconds; what they have not responded to is sent again. */
const graceMs = 1000;
/** Days without a success after which a subscription is switched off. */
export const failedDays = 5;

/** What deliveries need. */
export interface DeliveryContext {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly sealing: Sealing;
  readonly poster: Poster;
  /** Tells the administrators of an organization that a subscription was switched off. */
  readonly tell: (organization: string, subscription: string, reason: string) => Promise<void>;
}

/** Whether an event was tried for long enough. */
const isOver = ({ ageMs, attempts }: Pick<ClaimedItem<unknown>, 'ageMs' | 'attempts'>): boolean =>
  ageMs > triedMs && attempts >= leastTries;

/** What is sent instead of an event: nothing, for a reason. */
class Withheld extends Error {}
/** The record does not meet the filter. */
class Unwanted extends Error {}

/** Sends events to the receivers of subscriptions. */
export function deliverer(
  app: FastifyInstance,
  { database, resources, sealing, poster, tell }: DeliveryContext,
): (item: ClaimedItem<DeliveryClaim>) => Promise<ItemOutcome> {
  let isStopping = false;
  let grace: NodeJS.Timeout | undefined;
  app.addHook('preClose', async () => {
    // The worker waits for what is being sent.
    grace = setTimeout(() => {
      isStopping = true;
      poster.close();
    }, graceMs);
  });
  app.addHook('onClose', async () => {
    clearTimeout(grace);
    poster.close();
  });
  const grants = ttlCache('grants', async (key) => ({
    grants: await profileGrants(tablesOf(database), key),
  }));
  const events = eventsOf(database, resources, async (organization, profile) => {
    const found = await grants.get(`${organization}/${profile}`);
    return found?.grants ?? {};
  });

  /** Subscriptions that have failed since their last success. */
  const failing = new Set<string>();

  return async (item) => {
    const { organization, owner, row } = item;
    let body: string;
    let secrets: string[];
    try {
      body = await events(item);
      secrets = await Promise.all([row.secret, row.previous_secret].map(sealing.open));
    } catch (cause) {
      if (cause instanceof Unwanted)
        return { reason: '', values: { request: 'The filter does not select the record.' } };
      const isKnown = [Withheld, UserError, HttpError].some((kind) => cause instanceof kind);
      const reason = isKnown ? (cause as Error).message : `failed: ${(cause as Error).name}`;
      return cause instanceof Withheld || isOver(item)
        ? { reason }
        : { reason, retryMs: backoff(item.attempts) };
    }
    const id = `evt_${owner}_${item.eventId}`;
    const posted = await poster.post(
      row.url,
      body,
      signatureHeaders(
        id,
        body,
        secrets.filter((secret) => secret !== ''),
      ),
    );
    const { request, response, status } = posted;
    const values = { request, response };
    if (status !== undefined && status >= 200 && status < 300) {
      // What has failed since the item was claimed counts too.
      if (failing.delete(owner) || row.failures > 0) await recovered(tablesOf(database), item);
      return { reason: '', values };
    }
    if (status === undefined && isStopping) {
      return { reason: 'the service stopped before the receiver responded', retryMs: 0 };
    }
    const reason = status === undefined ? posted.problem : `the receiver responded ${status}`;
    failing.add(owner);
    const retryMs = await failed(tablesOf(database), item, posted, () => tell(organization, owner, reason));
    return { reason, values, ...(retryMs !== undefined && { retryMs }) };
  };
}

/** The grants of a profile. @param key the organization and the profile, with a slash between */
export async function profileGrants(tables: Tables, key: string): Promise<Grants> {
  const [organization = '', profile = ''] = key.split('/');
  const rows = await tables
    .selectFrom('crm_grants')
    .select(['object', 'action'])
    .where('organization_id', '=', organization)
    .where('profile_id', '=', profile)
    .execute();
  return grantMasks(rows);
}

/** Makes the bodies of events: the record is read when it is sent, as GET would respond to the subscription's profile. */
function eventsOf(
  database: Database,
  resources: readonly Resource[],
  grantsOf: (organization: string, profile: string) => Promise<Grants>,
): (item: ClaimedItem<DeliveryClaim>) => Promise<string> {
  const readers = new Map(resources.map((resource) => [resource.name, readerOf(resource)]));
  return async ({ id, organization, row }) => {
    if (row.position === null) return `{"type":"test","timestamp":"${row.at}","data":{}}`;
    const reader = readers.get(row.object);
    if (reader === undefined) throw new Withheld(`this instance has no ${row.object} any more`);
    const grants = await grantsOf(organization, row.profile_id);
    if (!allows(grants, row.object, 'read')) {
      throw new Withheld(`the profile of the subscription does not grant read on ${row.object}`);
    }
    const principal = { kind: 'partner', actor: null, name: null, organization, user: null, grants } as const;
    const caller = { principal, requestId: `event-${id}` };
    const record =
      row.action === 'delete'
        ? undefined
        : await reader.record(database, caller, String(row.object_id), row.filter);
    const changed = (JSON.parse(row.changed) as string[]).filter((name) => reader.shown.has(name));
    const data = [
      `"position":"${row.position}"`,
      `"action":"${row.action}"`,
      `"resource":${JSON.stringify(row.object)}`,
      `"id":${row.object_id}`,
      `"version":${row.version}`,
      `"changed":${JSON.stringify(changed)}`,
      `"record":${record ?? 'null'}`,
    ];
    return `{"type":${JSON.stringify(`${row.object}.${row.action}d`)},"timestamp":"${row.at}","data":{${data.join(',')}}}`;
  };
}

type Caller = Parameters<Resource['operations']['read']['plan']>[0]['caller'];

/** Reads records of a resource for events. */
function readerOf({ name, context, operations, definition }: Resource) {
  // Not from a replica: it may not have the change yet.
  const { plan, statement, respond } = operations.read;
  const hidden = definition.fields.filter(({ sensitive }) => sensitive);
  const shown = definition.fields.filter((field) => !hidden.includes(field)).map(({ name }) => name);
  const query = hidden.length === 0 ? {} : { fields: shown.join(',') };
  const filters = matching(context);
  return {
    shown: new Set(loggedFieldNames(definition)),
    /** The record as JSON; undefined if it is gone. @throws Unwanted if it does not meet the filter; Withheld where that is not known */
    record: async (
      database: Database,
      caller: Caller,
      id: string,
      filter: string,
    ): Promise<string | undefined> => {
      const { organization } = caller.principal;
      if (filter !== '') {
        const problems: FieldIssue[] = [];
        const asked = parseFilter(filter, name, filters, problems);
        // The definition has changed since: without the filter, everything would be sent.
        const [problem] = problems;
        if (problem !== undefined) throw new Withheld(problem.message);
        const rows = await execute(database, filters, { organization, caller, id, asked });
        if (rows.length === 0) throw new Unwanted();
      }
      const planned = plan({
        caller,
        query,
        id,
        headers: {},
        strict: false,
        body: () => ({}),
        bytes: () => Buffer.alloc(0),
      });
      const rows = await execute(database, { statement }, planned);
      return rows.length === 0 ? undefined : String(respond(planned, rows).body);
    },
  };
}

/** Records that events arrive again; what waits for a retry is tried now, if that is long ago. */
async function recovered(
  tables: Tables,
  { organization, owner, row }: ClaimedItem<DeliveryClaim>,
): Promise<void> {
  await sql`update crm_event_subscriptions set failures = 0, failing_since = null
    where organization_id = ${organization}::bigint and id = ${owner}::bigint`.execute(tables);
  if (row.failures < manyFailures) return;
  await sql`update crm_event_deliveries set next_at = now()
    where organization_id = ${organization}::bigint and subscription_id = ${owner}::bigint
      and status = 'waiting' and next_at > now() + interval '1 minute'`.execute(tables);
}

const bySystem: Actor = { kind: 'partner', id: null, name: 'event receiver', requestId: null, audited: true };

/**
 * Records a failure: of the delivery, and of its receiver.
 * @param tell is called where that switches the subscription off
 * @returns when to try again, in milliseconds; undefined: never
 */
async function failed(
  tables: Tables,
  { organization, owner, attempts, ageMs, row }: ClaimedItem<DeliveryClaim>,
  { status, retryAfterMs = 0 }: PostResult,
  tell: () => Promise<void>,
): Promise<number | undefined> {
  const many = row.failures - manyFailures;
  const waitMs = Math.min(retryAfterMs, longestWaitMs);
  const pauseMs = Math.max(waitMs, many < 0 ? 0 : backoff(many + 1, longestPauseMs));
  const ms = (value: number) => sql`${Math.round(value)}::bigint * interval '1 millisecond'`;
  const isGone = status === 410;
  const { rows } = await sql<{ state: string; was: string }>`
    update crm_event_subscriptions s set failures = s.failures + 1, failing_since = coalesce(s.failing_since, now()),
      paused_until = greatest(s.paused_until,
        now() + case when s.failing_since < now() - ${ms(failingMs)} then ${ms(pauseMs)} else ${ms(waitMs)} end),
      state = case when ${isGone}::boolean then 'gone'
        when s.failing_since < now() - ${failedDays}::int * interval '1 day' then 'failed' else s.state end
    where s.organization_id = ${organization}::bigint and s.id = ${owner}::bigint and s.state = 'on'
    returning s.state`.execute(tables);
  const ended = rows.some(({ state }) => state !== 'on');
  if (ended) {
    const change = { organization, action: 'switch off', object: 'event subscription', objectId: owner };
    await recordChanges(tables, bySystem, change);
    await tell();
  }
  const isGivenUp = isGone || isOver({ ageMs, attempts });
  if (isGivenUp) return undefined;
  const retryMs = Math.max(backoff(attempts), waitMs);
  // Later changes of the record wait for this one: claims need not look at them until then.
  await sql`update crm_event_deliveries set next_at = now() + ${Math.round(retryMs)}::bigint * interval '1 millisecond'
    where organization_id = ${organization}::bigint and subscription_id = ${owner}::bigint and status = 'waiting'
      and object = ${row.object} and object_id = ${row.object_id}::bigint and version > ${row.version}::bigint`.execute(
    tables,
  );
  return retryMs;
}
