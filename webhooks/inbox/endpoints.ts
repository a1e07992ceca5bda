import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { CompiledQuery } from 'kysely';
import { sqlState } from '../../engine/database/index.ts';
import { errors, HttpError, UserError } from '../../engine/errors.ts';
import { documentText, parseOwnJson } from '../../engine/fields/index.ts';
import { rejectOtherMethods } from '../../engine/http/index.ts';
import { statementOf, type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';
import {
  cachedOpener,
  isSecret,
  renewSealed,
  type Sealing,
  sealing,
} from '../../plugins/access/secrets/index.ts';
import {
  availableChannels,
  type Channels,
  PermanentError,
  type ProviderRequest,
  RetryableError,
} from '../channels/index.ts';
import { ownProperty, type Webhooks } from '../endpoint/index.ts';
import {
  backlog,
  backoff,
  type ClaimedItem,
  type ItemOutcome,
  startQueueRetention,
  startWorker,
} from '../queue/index.ts';
import { type InboxClaim, type InboxReason, inboxQueue, store } from './inbox.ts';
import { endpointPath, type OpenIntegration, openIntegration, sealedColumns } from './integrations.ts';

/** Thrown if an event's channel is not available. */
class UnavailableChannel extends Error {
  readonly reason: InboxReason;
  readonly isPermanent: boolean;

  constructor(reason: InboxReason, { isPermanent }: { readonly isPermanent: boolean }) {
    super(reason.code);
    this.reason = reason;
    this.isPermanent = isPermanent;
  }
}

/** Returns the reason for a failure. Messages of errors from other code are omitted, because they can contain personal data. */
function reasonOf(cause: unknown): InboxReason {
  if (cause instanceof UnavailableChannel) return cause.reason;
  const { message, name } = cause as Error;
  return [RetryableError, PermanentError, UserError, HttpError].some((kind) => cause instanceof kind)
    ? { code: 'message', values: { message } }
    : { code: 'internal', values: { name } };
}

/**
 * Returns whether retrying would fail in the same way, because the event is malformed or the database cannot
 * store it. Such events become dead letters immediately.
 */
const isPermanent = (cause: unknown): boolean =>
  [PermanentError, TypeError, RangeError, SyntaxError].some((kind) => cause instanceof kind) ||
  (cause instanceof UnavailableChannel && cause.isPermanent) ||
  // An exceeded quota is not permanent, because records can be deleted or the operator can raise the quota.
  (cause instanceof HttpError && cause.status < 500 && cause.code !== 'quota_exceeded') ||
  /^(?:22|54)/.test(sqlState(cause instanceof HttpError ? cause.cause : cause) ?? '');

/** The parts of an instance that process events. */
interface Processing {
  readonly webhooks: Webhooks;
  readonly channels: Channels;
  readonly sealing: Sealing;
}

/** Processes a channel event. */
async function processEvent(processing: Processing, item: ClaimedItem<InboxClaim>): Promise<ItemOutcome> {
  try {
    await passToChannel(processing, item);
    return {};
  } catch (cause) {
    const { webhooks } = processing;
    if (cause instanceof HttpError && cause.code === 'rejected_by_database')
      webhooks.database.reportRejection?.(`inbox-${item.id}`, cause.cause);
    const isDeadLetter = isPermanent(cause) || item.attempts >= webhooks.settings.current.inbox.attempts;
    return { failure: reasonOf(cause), ...(!isDeadLetter && { retryMs: backoff(item.attempts) }) };
  }
}

/** Time limit for processing an event, in milliseconds. Must be shorter than the lease of the queue. */
const processTimeoutMs = 30_000;

async function passToChannel(
  { webhooks, channels, sealing: { open } }: Processing,
  { id, organization, owner, eventId, ageMs, row }: ClaimedItem<InboxClaim>,
): Promise<void> {
  const { database } = webhooks;
  const channel = ownProperty(channels, row.provider);
  if (channel === undefined)
    throw new UnavailableChannel(
      { code: 'unknownChannel', values: { channel: row.provider } },
      { isPermanent: false },
    );
  if (!Object.hasOwn(availableChannels(channels, webhooks.retiredResources), row.provider))
    throw new UnavailableChannel(
      { code: 'retired', values: { resource: channel.needs?.resource ?? '' } },
      { isPermanent: true },
    );
  const [secret, token] = await Promise.all([open(row.secret), open(row.token)]);
  const { provider, endpoint } = row;
  await channel.process(
    { id: eventId, data: parseOwnJson(row.payload) },
    {
      webhooks,
      integration: { id: owner, provider, endpoint, organization, secret, token },
      requestId: `inbox-${id}`,
      ageMs,
      signal: AbortSignal.timeout(processTimeoutMs),
      transaction: (work) => transaction(database, work),
      remember: async (run, data) => {
        await run(statementOf(eventDataUpdate(tablesOf(database), organization, id, data)));
      },
    },
  );
}

/** Returns the query that replaces an event's data. */
const eventDataUpdate = (tables: Tables, organization: string, id: string, data: unknown): CompiledQuery =>
  tables
    .updateTable('crm_inbox')
    .set({ payload: documentText(data) })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .compile();

declare module 'fastify' {
  interface FastifyRequest {
    /** The integration identified by the delivery's URL. */
    integration: OpenIntegration | null;
  }
}

/** Maximum number of events per delivery. Providers send up to 1,000. */
const maxEvents = 2000;

/**
 * Registers /webhooks/channels/<provider>/<endpoint>. Authenticated deliveries are stored before the response
 * is sent, and the worker processes them afterwards.
 */
export function channelEndpoints(app: FastifyInstance, webhooks: Webhooks, channels: Channels): void {
  const { database, secrets, settings, wrongSecrets } = webhooks;
  const sealed = cachedOpener(sealing(secrets));
  const worker = startWorker<InboxClaim>(app, database, inboxQueue, (item) =>
    processEvent({ webhooks, channels, sealing: sealed }, item),
  );
  const inboxBacklog = backlog(database, inboxQueue);
  startQueueRetention(
    app,
    database,
    inboxQueue,
    (status) => settings.current.retention[`inbox_${status}_days`],
  );
  renewSealed(app, database, sealed, 'crm_integrations', sealedColumns);

  app.decorateRequest('integration', null);
  for (const [provider, channel] of Object.entries(availableChannels(channels, webhooks.retiredResources))) {
    const path = endpointPath(provider, ':endpoint');
    // Looks up the integration before the body is read.
    const onRequest = async (request: FastifyRequest) => {
      const { endpoint } = request.params as { endpoint: string };
      const integration = /^[\w-]{10,64}$/.test(endpoint)
        ? await openIntegration(tablesOf(database), sealed, { endpoint })
        : undefined;
      if (integration?.provider !== provider) throw errors.notFound();
      request.integration = integration;
      request.owner = integration.organization;
    };

    app.get(path, { onRequest }, async (request, reply) => {
      if (channel.handshake !== true) throw errors.methodNotAllowed('POST');
      reply.header('content-type', 'text/plain; charset=utf-8');
      const integration = integrationOf(request);
      const challenge = challengeOf(integration, request.query as Readonly<Record<string, unknown>>);
      if (challenge !== undefined) return challenge;
      const rejection = errors.notPermitted('wrong verify token');
      throw await wrongSecrets.errorFor(request, endpointPath(provider, integration.endpoint), rejection);
    });

    app.post(path, { onRequest, bodyLimit: channel.bodyLimit }, async (request, reply) => {
      const integration = integrationOf(request);
      const delivery: ProviderRequest = {
        headers: request.headers,
        raw: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
        url: request.url,
      };
      const isValid = await channel.verify(delivery, integration.secret, settings.current.public_url);
      // Channels of modules can be JavaScript, where any object is truthy.
      if (isValid !== true) {
        throw await wrongSecrets.errorFor(request, endpointPath(provider, integration.endpoint));
      }
      if (!channel.accepts.test(request.headers['content-type'] ?? '')) {
        throw errors.invalidJson('unexpected Content-Type for this provider');
      }
      const events = channel.events(delivery);
      if (events.length > maxEvents) throw errors.invalidJson(`more than ${maxEvents} events`);
      const { organization } = integration;
      if (events.length > 0) await inboxBacklog.admit(organization, settings.current.inbox.max_waiting);
      const storedCount = await store(tablesOf(database), integration, events);
      inboxBacklog.add(organization, storedCount);
      if (storedCount > 0) worker.wake();
      reply.header('content-type', channel.reply.type);
      return channel.reply.body;
    });
    rejectOtherMethods(app, path, ['GET', 'HEAD', 'POST']);
  }
}

/** Returns the integration loaded by the route's `onRequest` hook. */
function integrationOf({ integration }: FastifyRequest): OpenIntegration {
  if (integration === null) throw errors.notFound();
  return integration;
}

/** Returns the challenge if the verify token is correct, or undefined otherwise. */
function challengeOf(
  { verifyTokenHash }: OpenIntegration,
  query: Readonly<Record<string, unknown>>,
): string | undefined {
  const token = query['hub.verify_token'];
  const challenge = query['hub.challenge'];
  const isValid =
    query['hub.mode'] === 'subscribe' && isSecret(typeof token === 'string' ? token : '', verifyTokenHash);
  return isValid && typeof challenge === 'string' ? challenge.slice(0, 1000) : undefined;
}
