import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import type { Actor, AuditConfig } from '../../engine/effects/index.ts';
import { errors, type FieldIssue, UserError } from '../../engine/errors.ts';
import { isRowId } from '../../engine/fields/index.ts';
import { authorize, json, jsonId, rejectOtherMethods } from '../../engine/http/index.ts';
import {
  type Action,
  allows,
  eventsObject,
  type Principal,
  type RecordResource,
  readBody,
  type TextSigner,
} from '../../engine/records/index.ts';
import { type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';
import type { Sealing } from '../../plugins/access/secrets/index.ts';
import { assertRetained, feedCursors, feedEnd } from '../../plugins/change-log/index.ts';
import { listItems, type QueueItem, states } from '../queue/index.ts';
import type { Settings } from '../settings/index.ts';
import { profileGrants } from './deliver.ts';
import { deliveryQueue } from './deliveries.ts';
import { checkFilter, readSubscriptionInput, type SubscriptionInput } from './input.ts';
import {
  changeSubscription,
  createSubscription,
  listSubscriptions,
  type ReplayRange,
  removeSubscription,
  replaySubscription,
  rotateSecret,
  type Subscription,
  sendTest,
} from './subscriptions.ts';

/** Services needed by the subscriptions API. */
export interface SubscriptionServices {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly RecordResource[];
  readonly sealing: Sealing;
  /** Verifies cursors of the change feed. */
  readonly signing: TextSigner;
  /** Returns the current restrictions on receiver URLs. */
  readonly urlPolicy: () => Settings['events'];
  /** Triggers an immediate fan-out and delivery of events. */
  readonly wake: () => void;
}

/** Path of the subscriptions API, below the change feed's path. */
export const subscriptionsPath = '/events/subscriptions';

const pageLength = 50;
const bodyLimit = 16 * 1024;

/** Context of a request. */
interface SubscriptionRequest {
  readonly principal: Principal;
  readonly organization: string;
  readonly actor: Actor;
  readonly tables: Tables;
  /** Loads the subscription whose ID is in the path. @throws HttpError 404 if it does not exist */
  readonly load: () => Promise<Subscription>;
  readonly body: () => Readonly<Record<string, unknown>>;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** Registers the API for event subscriptions. Callers need a grant on `events`. */
export function subscriptionRoutes(app: FastifyInstance, services: SubscriptionServices): void {
  const { config, database, resources, sealing, signing, urlPolicy, wake } = services;

  const route = (
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    action: Action,
    handle: (context: SubscriptionRequest) => Promise<object>,
  ) =>
    app.route({
      method,
      url: `${subscriptionsPath}${path}`,
      bodyLimit,
      onRequest: authorize(app, eventsObject, action),
      handler: async (request, reply) => {
        if (!config.audit) throw errors.notRecorded();
        const principal = request.principal as Principal;
        const { organization } = principal;
        const { kind, actor: id, name } = principal;
        const tables = tablesOf(database);
        const load = async () => {
          const { id } = request.params as { id: string };
          const [subscription] = isRowId(id) ? await listSubscriptions(tables, organization, id) : [];
          if (subscription === undefined) throw errors.recordNotFound('event_subscription');
          return subscription;
        };
        const context: SubscriptionRequest = {
          principal,
          organization,
          actor: { kind, id, name, requestId: request.id, audited: config.audit },
          tables,
          load,
          body: () => readBody(request.headers['content-type'], request.body),
          request,
          reply,
        };
        try {
          const body = await handle(context);
          reply.header('content-type', json).header('cache-control', 'no-store');
          return JSON.stringify(body);
        } catch (cause) {
          throw cause instanceof UserError ? errors.invalidItem(cause.message) : cause;
        }
      },
    });

  /** Returns whether a caller can read everything that a subscription's events can contain. */
  const canReadAll = async (tables: Tables, { organization, grants }: Principal, { id }: Subscription) => {
    const { profile_id } = await tables
      .selectFrom('crm_event_subscriptions')
      .select('profile_id')
      .where('organization_id', '=', organization)
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    const visibleGrants = await profileGrants(tables, `${organization}/${profile_id}`);
    return resources.every(
      ({ name }) => allows(grants, name, 'read') || !allows(visibleGrants, name, 'read'),
    );
  };

  /** Validates the body of a create or update request. @throws HttpError 400 listing all issues */
  const inputOf = (
    values: Readonly<Record<string, unknown>>,
    existing?: Subscription,
  ): Partial<SubscriptionInput> => {
    const issues: FieldIssue[] = [];
    const input = readSubscriptionInput(values, existing === undefined, resources, urlPolicy(), issues);
    const { filter = existing?.filter, resources: names = existing?.resources } = input;
    if (filter !== undefined && names !== undefined)
      checkFilter({ filter, resources: names }, resources, issues);
    const { state } = values;
    if (existing !== undefined && state !== undefined && state !== 'on' && state !== 'off')
      issues.push({ field: 'state', message: 'state must be "on" or "off"' });
    if (issues.length > 0) throw errors.invalidFields(issues);
    return input;
  };

  route('GET', '', 'list', async ({ tables, organization }) => ({
    data: (await listSubscriptions(tables, organization)).map(toJson),
  }));

  route('POST', '', 'create', async ({ principal, organization, actor, tables, body, reply }) => {
    const input = inputOf(body()) as SubscriptionInput;
    const profile = await profileOf(tables, principal);
    const { end: position } = await feedEnd(database);
    const { id, secret } = await transaction(database, (transactionTables) =>
      createSubscription(transactionTables, actor, sealing, { ...input, organization, profile, position }),
    );
    wake();
    const [subscription] = await listSubscriptions(tables, organization, id);
    reply.code(201).header('location', `${subscriptionsPath}/${id}`);
    return { ...toJson(subscription as Subscription), secret };
  });

  route('GET', '/:id', 'read', async ({ load }) => toJson(await load()));

  route('PATCH', '/:id', 'update', async ({ principal, organization, actor, tables, load, body }) => {
    const existing = await load();
    const values = body();
    const input = inputOf(values, existing);
    const change = {
      ...input,
      ...(values.state !== undefined && { state: values.state as 'on' | 'off' }),
      // Otherwise, callers could redirect events to themselves that they are not allowed to read.
      ...(Object.values(input).some((value) => value !== undefined) &&
        !(await canReadAll(tables, principal, existing)) && { profile: await profileOf(tables, principal) }),
    };
    await transaction(database, (transactionTables) =>
      changeSubscription(transactionTables, actor, organization, existing.id, change),
    );
    wake();
    return toJson(await load());
  });

  route('DELETE', '/:id', 'delete', async ({ organization, actor, load }) => {
    const { id } = await load();
    await transaction(database, (transactionTables) =>
      removeSubscription(transactionTables, actor, organization, id),
    );
    return { ok: true };
  });

  route('POST', '/:id/secrets', 'update', async ({ organization, actor, load }) => {
    const { id } = await load();
    const secret = await transaction(database, (transactionTables) =>
      rotateSecret(transactionTables, actor, sealing, organization, id),
    );
    return { secret };
  });

  route('POST', '/:id/test', 'update', async ({ organization, tables, load }) => {
    const delivery = await sendTest(tables, organization, (await load()).id);
    wake();
    return { delivery: jsonId(delivery) };
  });

  route('POST', '/:id/replay', 'update', async ({ organization, actor, load, body }) => {
    const { id } = await load();
    const range = await replayOf(database, signing, organization, body());
    const queued = await transaction(database, (transactionTables) =>
      replaySubscription(transactionTables, actor, organization, id, range),
    );
    wake();
    return { queued };
  });

  route('GET', '/:id/deliveries', 'read', async ({ organization, tables, load, request }) => {
    const { id } = await load();
    const { before, status } = request.query as Readonly<Record<string, unknown>>;
    if (before !== undefined && !isRowId(before))
      throw errors.invalidParameter('before', 'must be the ID of a delivery');
    if (status !== undefined && !states.includes(String(status)))
      throw errors.invalidParameter('status', `must be one of ${states.join(', ')}`);
    const items = await listItems(tables, deliveryQueue, organization, {
      owner: id,
      before,
      status: status === undefined ? undefined : String(status),
      limit: pageLength,
      isDetailed: true,
    });
    const last = items.length === pageLength ? items.at(-1) : undefined;
    return { data: items.map(deliveryJson), next: last === undefined ? null : jsonId(last.id) };
  });

  rejectOtherMethods(app, subscriptionsPath, ['GET', 'HEAD', 'POST']);
  rejectOtherMethods(app, `${subscriptionsPath}/:id`, ['GET', 'HEAD', 'PATCH', 'DELETE']);
  rejectOtherMethods(app, `${subscriptionsPath}/:id/deliveries`, ['GET', 'HEAD']);
  for (const subpath of ['secrets', 'test', 'replay'])
    rejectOtherMethods(app, `${subscriptionsPath}/:id/${subpath}`, ['POST']);
}

/**
 * Returns the ID of a caller's profile, which determines what data the events of the caller's subscriptions contain.
 */
async function profileOf(tables: Tables, { kind, actor, organization }: Principal): Promise<string> {
  const row = await (kind === 'key'
    ? tables
        .selectFrom('crm_api_keys')
        .select('profile_id')
        .where('organization_id', '=', organization)
        .where('id', '=', actor)
        .executeTakeFirst()
    : tables
        .selectFrom('crm_memberships')
        .select('profile_id')
        .where('organization_id', '=', organization)
        .where('user_id', '=', actor)
        .executeTakeFirst());
  if (row === undefined) throw errors.unauthenticated();
  return row.profile_id;
}

/**
 * Parses the range to replay. @throws HttpError 400 if it is invalid, 410 if changes after the cursor may already have
 * been deleted
 */
async function replayOf(
  database: Database,
  signing: TextSigner,
  organization: string,
  { after, from, to = from }: Readonly<Record<string, unknown>>,
): Promise<ReplayRange> {
  const invalid = (field: string, message: string) =>
    errors.invalidFields([{ field, message: `${field} ${message}` }]);
  if (after === undefined) {
    const [first, last] = [String(from), String(to)];
    if (!isRowId(first))
      throw invalid(
        'from',
        'must be the ID of a delivery. Alternatively, send "after" with a cursor from GET /events',
      );
    if (!isRowId(last)) throw invalid('to', 'must be the ID of a delivery');
    return { from: first, to: last };
  }
  const position = typeof after === 'string' ? feedCursors(signing, organization).read(after) : undefined;
  if (position === undefined)
    throw invalid('after', 'must be a cursor from GET /events of this organization');
  assertRetained(position, await feedEnd(database));
  return { position };
}

const toJson = ({ id, failingSince, createdAt, ...rest }: Subscription) => ({
  id: jsonId(id),
  ...rest,
  failing_since: failingSince,
  created_at: createdAt,
});

const deliveryJson = ({ id, title, status, attempts, error, receivedAt, detail = '' }: QueueItem) => {
  const [request = '', response = ''] = detail.split('\n\n');
  return {
    id: jsonId(id),
    event: title,
    status,
    attempts,
    error,
    queued_at: receivedAt,
    request,
    response,
  };
};
