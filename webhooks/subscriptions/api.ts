import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type RawBuilder, sql } from 'kysely';
import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import type { Actor, AuditConfig } from '../../engine/effects/index.ts';
import { errors, type FieldIssue, UserError } from '../../engine/errors.ts';
import { isRowId } from '../../engine/fields/index.ts';
import { authorize, json, jsonId, rejectOtherMethods } from '../../engine/http/index.ts';
import {
  type Action,
  type CustomFields,
  canReadAll,
  eventsObject,
  type Grants,
  organizationCustomFields,
  type Principal,
  readBody,
  type TextSigner,
} from '../../engine/records/index.ts';
import { findRow, listRows, type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';
import { profileGrants } from '../../plugins/access/identity/index.ts';
import type { Sealing } from '../../plugins/access/secrets/index.ts';
import { assertRetained, feedCursors, feedEnd } from '../../plugins/change-log/index.ts';
import { type DetailedItem, detailedItems, ownedBy, states, withStatus } from '../queue/index.ts';
import type { Settings } from '../settings/index.ts';
import { deliveryQueue, visibleTo } from './deliveries.ts';
import { checkSelection, readSubscriptionInput, type SubscriptionInput } from './input.ts';
import {
  changeSubscription,
  createSubscription,
  overlapHours,
  type ReplayRange,
  removeSubscription,
  replaySubscription,
  rotateSecret,
  type Subscription,
  sendTest,
  subscriptionRows,
} from './subscriptions.ts';

/** Services required for the subscriptions API. */
interface SubscriptionServices {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly sealing: Sealing;
  /** Verifies change feed cursors. */
  readonly signing: TextSigner;
  /** Returns the current restrictions on receiver URLs. */
  readonly urlPolicy: () => Settings['events'];
  /** Triggers an immediate fan-out and delivery of events. */
  readonly wake: () => void;
}

/** Path for the subscriptions API, below the change feed's path. */
export const subscriptionsPath = '/events/subscriptions';

const pageLength = 50;
const bodyLimit = 16 * 1024;

/** A request's context. */
interface SubscriptionRequest {
  readonly principal: Principal;
  readonly organization: string;
  readonly actor: Actor;
  readonly tables: Tables;
  readonly transact: <T>(work: (tables: Tables) => Promise<T>) => Promise<T>;
  /** Loads the subscription whose ID is in the path. @throws HttpError 404 if it does not exist */
  readonly load: () => Promise<Subscription>;
  readonly body: () => Readonly<Record<string, unknown>>;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** An API operation. Its route and OpenAPI description are generated from it. */
export interface ApiOperation {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Path below {@link subscriptionsPath}. */
  readonly path: '' | '/:id' | `/:id/${string}`;
  /** The action on `events` that the caller must be allowed to perform. */
  readonly action: Action;
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  /** Name of the request body's schema. */
  readonly body?: string;
  /** Parameter names in the OpenAPI document. */
  readonly parameters?: readonly string[];
  /** The successful response and its schema. A request that creates an object returns 201. */
  readonly success: { readonly description: string; readonly schema: string; readonly isCreated?: true };
  /** Error responses in addition to those common to all operations. */
  readonly failures?: Readonly<Record<number, string>>;
  readonly handle: (context: SubscriptionRequest, services: SubscriptionServices) => Promise<object>;
}

/** The API's operations. */
export const operations: readonly ApiOperation[] = [
  {
    method: 'GET',
    path: '',
    action: 'list',
    operationId: 'listSubscriptions',
    summary: 'List event subscriptions',
    description: 'Lists event subscriptions without their secrets. Requires the grant `list` on `events`.',
    success: { description: 'All event subscriptions, oldest first.', schema: 'SubscriptionList' },
    handle: async ({ tables, organization }) => ({
      data: (await listRows(tables, subscriptionRows, organization)).map(toJson),
    }),
  },
  {
    method: 'POST',
    path: '',
    action: 'create',
    operationId: 'createSubscription',
    summary: 'Subscribe to changes',
    description:
      'Creates an event subscription, which sends changes to a URL as they happen: at least once, in order for each record, and signed according to Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`). Events contain only what the caller can read. Requires the grant `create` on `events`, which `*` does not include.',
    body: 'SubscriptionInput',
    success: {
      description: 'The subscription with its secret.',
      schema: 'NewSubscription',
      isCreated: true,
    },
    handle: async ({ principal, organization, actor, tables, transact, body, reply }, services) => {
      const { profile, grants } = await ownProfile(services, tables, principal);
      const customFields = await customFieldsFor(services, organization);
      const input = inputOf(services, { grants, customFields }, body()) as SubscriptionInput;
      const { end: position } = await feedEnd(services.database);
      const { id, secret } = await transact((tx) =>
        createSubscription(tx, actor, services.sealing, { ...input, organization, profile, position }),
      );
      services.wake();
      const subscription = await findRow(tables, subscriptionRows, organization, id);
      reply.code(201).header('location', `${subscriptionsPath}/${id}`);
      return { ...toJson(subscription as Subscription), secret };
    },
  },
  {
    method: 'GET',
    path: '/:id',
    action: 'read',
    operationId: 'getSubscription',
    summary: 'Read an event subscription',
    description: 'Returns an event subscription without its secret. Requires the grant `read` on `events`.',
    success: { description: 'The subscription.', schema: 'Subscription' },
    handle: async ({ load }) => toJson(await load()),
  },
  {
    method: 'PATCH',
    path: '/:id',
    action: 'update',
    operationId: 'patchSubscription',
    summary: 'Change, enable or disable an event subscription',
    description:
      "Changes, enables or disables an event subscription. When enabled again, it continues where it stopped. If the caller changes anything but the state and cannot read everything that the subscription's profile can, the subscription is assigned the caller's profile.",
    body: 'SubscriptionChange',
    success: { description: 'The subscription.', schema: 'Subscription' },
    handle: async ({ principal, organization, actor, tables, transact, load, body }, services) => {
      const existing = await load();
      const values = body();
      const grants = await grantsOf(tables, principal, existing);
      // Otherwise, callers could redirect events that they are not allowed to read to their own URL.
      const own =
        inputFields.some((name) => values[name] !== undefined) && !readsAll(services, principal, grants)
          ? await ownProfile(services, tables, principal)
          : undefined;
      const customFields = await customFieldsFor(services, organization);
      const change = {
        ...inputOf(services, { grants: own?.grants ?? grants, customFields }, values, existing),
        ...(values.state !== undefined && { state: values.state as 'on' | 'off' }),
        ...(own && { profile: own.profile }),
      };
      await transact((tx) => changeSubscription(tx, actor, organization, existing.id, change));
      services.wake();
      return toJson(await load());
    },
  },
  {
    method: 'DELETE',
    path: '/:id',
    action: 'delete',
    operationId: 'deleteSubscription',
    summary: 'Delete an event subscription and its deliveries',
    description: 'Deletes an event subscription. Waiting events are not sent.',
    success: { description: 'The subscription was deleted.', schema: 'Deleted' },
    handle: async ({ organization, actor, transact, load }) => {
      const { id } = await load();
      await transact((tx) => removeSubscription(tx, actor, organization, id));
      return { ok: true };
    },
  },
  {
    method: 'POST',
    path: '/:id/secrets',
    action: 'update',
    operationId: 'rotateSubscriptionSecret',
    summary: "Rotate an event subscription's secret",
    description: `Replaces the signing secret. For ${overlapHours} hours, events are also signed with the previous secret, so that the receiver can switch over.`,
    success: { description: 'The new secret.', schema: 'SubscriptionSecret' },
    handle: async ({ organization, actor, transact, load }, { sealing }) => {
      const { id } = await load();
      return { secret: await transact((tx) => rotateSecret(tx, actor, sealing, organization, id)) };
    },
  },
  {
    method: 'POST',
    path: '/:id/test',
    action: 'update',
    operationId: 'testSubscription',
    summary: 'Send a test event',
    description: 'Sends a signed event with the type `test`.',
    success: {
      description: "The ID of the delivery, which contains the receiver's response.",
      schema: 'TestDelivery',
    },
    handle: async ({ organization, tables, load }, { wake }) => {
      const delivery = await sendTest(tables, organization, (await load()).id);
      wake();
      return { delivery: jsonId(delivery) };
    },
  },
  {
    method: 'POST',
    path: '/:id/replay',
    action: 'update',
    operationId: 'replaySubscription',
    summary: 'Send events again',
    description:
      'Resends the deliveries between two IDs, or all changes after a cursor from `GET /events`, in order.',
    body: 'ReplayInput',
    success: { description: 'The number of deliveries queued immediately.', schema: 'Replayed' },
    failures: { 410: 'CursorExpired' },
    handle: async ({ principal, organization, actor, tables, transact, load, body }, services) => {
      const { wake } = services;
      const subscription = await load();
      const { id } = subscription;
      const range = await replayOf(services, { principal, tables, subscription }, body());
      const queued = await transact((tx) => replaySubscription(tx, actor, organization, id, range));
      wake();
      return { queued };
    },
  },
  {
    method: 'GET',
    path: '/:id/deliveries',
    action: 'read',
    operationId: 'listDeliveries',
    summary: "List an event subscription's deliveries",
    description:
      'Lists deliveries with their request and response headers. Deliveries are deleted after a retention period.',
    parameters: ['deliveries.before', 'deliveries.status'],
    success: { description: 'Up to 50 deliveries, newest first.', schema: 'DeliveryList' },
    handle: async ({ principal, organization, tables, load, request }, services) => {
      const subscription = await load();
      const { id } = subscription;
      const visible = await visibleDeliveries(services, { principal, tables, subscription });
      const { before, status } = request.query as Readonly<Record<string, unknown>>;
      if (before !== undefined && !isRowId(before))
        throw errors.invalidParameter('before', 'must be the ID of a delivery');
      if (status !== undefined && !states.some((state) => state === status))
        throw errors.invalidParameter('status', `must be one of ${states.join(', ')}`);
      const where = [
        ownedBy(deliveryQueue, id),
        visible,
        ...(status === undefined ? [] : [sql.raw(withStatus(String(status)))]),
        ...(before === undefined ? [] : [sql`i.id < ${before}::bigint`]),
      ];
      const page = { where, limit: pageLength };
      const items = await listRows(tables, detailedItems(deliveryQueue), organization, page);
      const last = items.length === pageLength ? items.at(-1) : undefined;
      return { data: items.map(deliveryJson), next: last === undefined ? null : jsonId(last.id) };
    },
  },
];

/** Registers the API for event subscriptions. Callers need a grant on `events`. */
export function subscriptionRoutes(app: FastifyInstance, services: SubscriptionServices): void {
  const { config, database } = services;
  for (const { method, path, action, handle } of operations) {
    app.route({
      method,
      url: `${subscriptionsPath}${path}`,
      bodyLimit,
      onRequest: authorize(app, eventsObject, action),
      handler: async (request, reply) => {
        if (!config.audit) throw errors.notRecorded();
        const principal = request.principal as Principal;
        const { kind, actor: id, name, organization } = principal;
        const tables = tablesOf(database);
        const load = async () => {
          const { id } = request.params as { id: string };
          const subscription = isRowId(id)
            ? await findRow(tables, subscriptionRows, organization, id)
            : undefined;
          if (subscription === undefined) throw errors.recordNotFound('event_subscription');
          return subscription;
        };
        const context: SubscriptionRequest = {
          principal,
          organization,
          actor: { kind, id, name, requestId: request.id, audited: config.audit },
          tables,
          transact: (work) => transaction(database, work),
          load,
          body: () => readBody(request.headers['content-type'], request.body),
          request,
          reply,
        };
        try {
          const body = await handle(context, services);
          reply.header('content-type', json).header('cache-control', 'no-store');
          return JSON.stringify(body);
        } catch (cause) {
          throw cause instanceof UserError ? errors.invalidItem(cause.message) : cause;
        }
      },
    });
  }
  for (const [path, all] of Map.groupBy(operations, (operation) => operation.path)) {
    const methods = all.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
    rejectOtherMethods(app, `${subscriptionsPath}${path}`, methods);
  }
}

/** Returns the grants of a subscription's profile. */
async function grantsOf(
  tables: Tables,
  { organization }: Pick<Principal, 'organization'>,
  { id }: Pick<Subscription, 'id'>,
): Promise<Grants> {
  const { profile_id } = await tables
    .selectFrom('crm_event_subscriptions')
    .select('profile_id')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  return profileGrants(tables, organization, profile_id);
}

/** Returns whether a caller can read everything that events can contain for a profile with these grants. */
const readsAll = (
  { resources }: Pick<SubscriptionServices, 'resources'>,
  { grants }: Principal,
  profile: Grants,
): boolean =>
  canReadAll(
    resources.map(({ definition }) => definition),
    grants,
    profile,
  );

/** Returns the key of a caller's view, which is empty if the caller's grants are not limited. */
const viewKey = ({ resources }: SubscriptionServices, { grants }: Principal): string =>
  resources[0]?.viewFor(grants).context.view ?? '';

/** A caller and the subscription whose deliveries it requests. */
interface DeliveriesRequest extends Pick<SubscriptionRequest, 'principal' | 'tables'> {
  readonly subscription: Subscription;
}

/**
 * Returns the SQL condition for the deliveries that a caller sees.
 * @throws HttpError 403 if the subscription's profile can read more than the caller
 */
async function visibleDeliveries(
  services: SubscriptionServices,
  { principal, tables, subscription }: DeliveriesRequest,
): Promise<RawBuilder<unknown>> {
  if (
    viewKey(services, principal) !== '' &&
    !readsAll(services, principal, await grantsOf(tables, principal, subscription))
  )
    throw errors.notPermitted(
      "The subscription's profile can read records or fields that you are not allowed to read",
    );
  return visibleTo(principal, services.resources);
}

/**
 * Returns a caller's profile and its grants, which determine the data in the events for the caller's subscriptions.
 * @throws HttpError 403 if the caller is not allowed to read everything that the profile can
 */
async function ownProfile(
  services: Pick<SubscriptionServices, 'resources'>,
  tables: Tables,
  principal: Principal,
): Promise<{ readonly profile: string; readonly grants: Grants }> {
  const profile = await profileOf(tables, principal);
  const grants = await profileGrants(tables, principal.organization, profile);
  if (!readsAll(services, principal, grants))
    throw errors.notPermitted(
      'Events would contain records or fields that you are not allowed to read, because your profile allows more than your key',
    );
  return { profile, grants };
}

/** Properties of the body that determine which events are sent, how and where. */
const inputFields = [
  'url',
  'resources',
  'actions',
  'filter',
  'filter_when',
  'transitions',
  'format',
  'batch',
];

const customFieldsFor = ({ database, resources }: SubscriptionServices, organization: string) =>
  organizationCustomFields(database, resources, organization);

/** The fields by which a subscription can filter records, which its profile can read. */
interface FilterableFields {
  /** The grants of the subscription's profile. */
  readonly grants: Grants;
  /** The custom fields of the organization. */
  readonly customFields: CustomFields | undefined;
}

/** Validates a create or update request's body. @throws HttpError 400 listing all issues */
function inputOf(
  { resources, urlPolicy }: SubscriptionServices,
  { grants, customFields }: FilterableFields,
  values: Readonly<Record<string, unknown>>,
  existing?: Subscription,
): Partial<SubscriptionInput> {
  const issues: FieldIssue[] = [];
  const input = readSubscriptionInput(values, existing === undefined, resources, urlPolicy(), issues);
  const { filter, filterWhen, transitions, resources: names } = { ...existing, ...input };
  if (filter !== undefined && filterWhen !== undefined && transitions !== undefined && names !== undefined)
    checkSelection(
      { filter, filterWhen, transitions, resources: names },
      resources,
      grants,
      customFields,
      issues,
    );
  const { state } = values;
  if (existing !== undefined && state !== undefined && state !== 'on' && state !== 'off')
    issues.push({ field: 'state', message: 'state must be "on" or "off"' });
  if (issues.length > 0) throw errors.invalidFields(issues);
  return input;
}

/**
 * Returns the ID of a caller's profile, which determines the data in the events for their subscriptions.
 * @throws HttpError 403 for a key on behalf of a member, because its profile alone does not limit it
 */
async function profileOf(tables: Tables, { kind, actor, organization, grants }: Principal): Promise<string> {
  if (grants.within !== undefined)
    throw errors.notPermitted('API keys on behalf of a member cannot determine what a subscription sends');
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
 * Parses the range to replay. @throws HttpError 400 if it is invalid, 403 if the caller does not see the deliveries, 410
 * if changes after the cursor may already have been deleted
 */
async function replayOf(
  services: SubscriptionServices,
  deliveries: DeliveriesRequest,
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
    return { from: first, to: last, where: await visibleDeliveries(services, deliveries) };
  }
  const { principal } = deliveries;
  const { database, signing } = services;
  const cursors = feedCursors(signing, principal.organization, viewKey(services, principal));
  const position = typeof after === 'string' ? cursors.read(after) : undefined;
  if (position === undefined)
    throw invalid('after', 'must be a cursor from GET /events of this organization');
  assertRetained(position, await feedEnd(database));
  return { position };
}

const toJson = ({ id, filterWhen, batch, failingSince, createdAt, ...rest }: Subscription) => ({
  id: jsonId(id),
  ...rest,
  batch: batch && { max_events: batch.maxEvents, max_wait_seconds: batch.maxWaitSeconds },
  filter_when: filterWhen,
  failing_since: failingSince,
  created_at: createdAt,
});

const deliveryJson = ({ id, title, status, attempts, error, receivedAt, detail }: DetailedItem) => {
  const [request = '', response = '', events] = detail.split('\n\n');
  return {
    id: jsonId(id),
    event: title,
    status,
    attempts,
    error,
    queued_at: receivedAt,
    request,
    response,
    ...(events !== undefined && { events: events === '' ? [] : events.split('\n') }),
  };
};
