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
import { assertKept, feedCursors, feedEnd } from '../../plugins/change-log/index.ts';
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

/** What the API of subscriptions needs. */
export interface SubscriptionServices {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly RecordResource[];
  readonly sealing: Sealing;
  /** Of cursors of the change feed. */
  readonly signing: TextSigner;
  readonly allowed: () => Settings['events'];
  /** Has the ledger read, and the deliveries sent, at once. */
  readonly wake: () => void;
}

/** Where subscriptions are; next to the change feed. */
export const subscriptionsPath = '/events/subscriptions';

const pageLength = 50;
const bodyLimit = 16 * 1024;

/** One request about subscriptions. */
interface Asked {
  readonly principal: Principal;
  readonly organization: string;
  readonly actor: Actor;
  readonly tables: Tables;
  /** The subscription of the path. @throws HttpError 404 */
  readonly found: () => Promise<Subscription>;
  readonly body: () => Readonly<Record<string, unknown>>;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** Event subscriptions: made, changed, tested and replayed by callers with the permission `events`. */
export function subscriptionRoutes(app: FastifyInstance, services: SubscriptionServices): void {
  const { config, database, resources, sealing, signing, allowed, wake } = services;

  const route = (
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    action: Action,
    handle: (asked: Asked) => Promise<object>,
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
        const found = async () => {
          const { id } = request.params as { id: string };
          const [one] = isRowId(id) ? await listSubscriptions(tables, organization, id) : [];
          if (one === undefined) throw errors.noRecord('event_subscription');
          return one;
        };
        const asked: Asked = {
          principal,
          organization,
          actor: { kind, id, name, requestId: request.id, audited: config.audit },
          tables,
          found,
          body: () => readBody(request.headers['content-type'], request.body),
          request,
          reply,
        };
        try {
          const body = await handle(asked);
          reply.header('content-type', json).header('cache-control', 'no-store');
          return JSON.stringify(body);
        } catch (cause) {
          throw cause instanceof UserError ? errors.invalidItem(cause.message) : cause;
        }
      },
    });

  /** Whether a caller may read all that a subscription may show. */
  const readsAll = async (tables: Tables, { organization, grants }: Principal, { id }: Subscription) => {
    const { profile_id } = await tables
      .selectFrom('crm_event_subscriptions')
      .select('profile_id')
      .where('organization_id', '=', organization)
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    const shown = await profileGrants(tables, `${organization}/${profile_id}`);
    return resources.every(({ name }) => allows(grants, name, 'read') || !allows(shown, name, 'read'));
  };

  /** Reads the body of a create or a change. @throws HttpError 400 with everything that is wrong */
  const wishOf = (
    given: Readonly<Record<string, unknown>>,
    known?: Subscription,
  ): Partial<SubscriptionInput> => {
    const problems: FieldIssue[] = [];
    const wish = readSubscriptionInput(given, known === undefined, resources, allowed(), problems);
    const { filter = known?.filter, resources: wanted = known?.resources } = wish;
    if (filter !== undefined && wanted !== undefined)
      checkFilter({ filter, resources: wanted }, resources, problems);
    const { state } = given;
    if (known !== undefined && state !== undefined && state !== 'on' && state !== 'off')
      problems.push({ field: 'state', message: 'state must be on or off' });
    if (problems.length > 0) throw errors.invalidFields(problems);
    return wish;
  };

  route('GET', '', 'list', async ({ tables, organization }) => ({
    data: (await listSubscriptions(tables, organization)).map(toJson),
  }));

  route('POST', '', 'create', async ({ principal, organization, actor, tables, body, reply }) => {
    const wish = wishOf(body()) as SubscriptionInput;
    const profile = await profileOf(tables, principal);
    const { end: place } = await feedEnd(database);
    const { id, secret } = await transaction(database, (within) =>
      createSubscription(within, actor, sealing, { ...wish, organization, profile, place }),
    );
    wake();
    const [made] = await listSubscriptions(tables, organization, id);
    reply.code(201).header('location', `${subscriptionsPath}/${id}`);
    return { ...toJson(made as Subscription), secret };
  });

  route('GET', '/:id', 'read', async ({ found }) => toJson(await found()));

  route('PATCH', '/:id', 'update', async ({ principal, organization, actor, tables, found, body }) => {
    const known = await found();
    const given = body();
    const wish = wishOf(given, known);
    const change = {
      ...wish,
      ...(given.state !== undefined && { state: given.state as 'on' | 'off' }),
      // Otherwise a caller could have sent, or sent elsewhere, what only others may read.
      ...(Object.values(wish).some((value) => value !== undefined) &&
        !(await readsAll(tables, principal, known)) && { profile: await profileOf(tables, principal) }),
    };
    await transaction(database, (within) =>
      changeSubscription(within, actor, organization, known.id, change),
    );
    wake();
    return toJson(await found());
  });

  route('DELETE', '/:id', 'delete', async ({ organization, actor, found }) => {
    const { id } = await found();
    await transaction(database, (within) => removeSubscription(within, actor, organization, id));
    return { ok: true };
  });

  route('POST', '/:id/secrets', 'update', async ({ organization, actor, found }) => {
    const { id } = await found();
    const secret = await transaction(database, (within) =>
      rotateSecret(within, actor, sealing, organization, id),
    );
    return { secret };
  });

  route('POST', '/:id/test', 'update', async ({ organization, tables, found }) => {
    const delivery = await sendTest(tables, organization, (await found()).id);
    wake();
    return { delivery: jsonId(delivery) };
  });

  route('POST', '/:id/replay', 'update', async ({ organization, actor, found, body }) => {
    const { id } = await found();
    const given = await replayOf(database, signing, organization, body());
    const queued = await transaction(database, (within) =>
      replaySubscription(within, actor, organization, id, given),
    );
    wake();
    return { queued };
  });

  route('GET', '/:id/deliveries', 'read', async ({ organization, tables, found, request }) => {
    const { id } = await found();
    const { before, status } = request.query as Readonly<Record<string, unknown>>;
    if (before !== undefined && !isRowId(before))
      throw errors.invalidParameter('before', 'must be the id of a delivery');
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
  for (const work of ['secrets', 'test', 'replay'])
    rejectOtherMethods(app, `${subscriptionsPath}/:id/${work}`, ['POST']);
}

/** The profile of a caller: what it subscribes to shows no more than the caller may read. */
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

/** What a body asks to deliver again. @throws HttpError 400; 410 for a cursor after which changes may be missing */
async function replayOf(
  database: Database,
  signing: TextSigner,
  organization: string,
  { after, from, to = from }: Readonly<Record<string, unknown>>,
): Promise<ReplayRange> {
  const wrong = (field: string, message: string) =>
    errors.invalidFields([{ field, message: `${field} ${message}` }]);
  if (after === undefined) {
    const [first, last] = [String(from), String(to)];
    if (!isRowId(first))
      throw wrong('from', 'must be the id of a delivery, or after a cursor of GET /events');
    if (!isRowId(last)) throw wrong('to', 'must be the id of a delivery');
    return { from: first, to: last };
  }
  const place = typeof after === 'string' ? feedCursors(signing, organization).read(after) : undefined;
  if (place === undefined) throw wrong('after', 'must be a cursor of GET /events of this organization');
  assertKept(place, await feedEnd(database));
  return { place };
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
