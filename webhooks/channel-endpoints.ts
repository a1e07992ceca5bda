import type { FastifyInstance, FastifyRequest } from 'fastify';
import { errors, HttpError } from '../engine/errors.ts';
import { hashSecret, isSecret, platform, sealing } from '../engine/platform/index.ts';
import { refuseOtherMethods } from '../engine/routes/methods.ts';
import type { Delivery } from './channels/channel.ts';
import { channelOf } from './channels/index.ts';
import { store } from './inbox/inbox.ts';
import { openIntegration, renewSecrets } from './inbox/integrations.ts';
import { startWorker } from './inbox/worker.ts';
import type { Webhooks } from './index.ts';

const path = '/webhooks/channels/:provider/:endpoint';
/** Providers send up to 3 MB. */
const bodyLimit = 4 * 1024 * 1024;

/** /webhooks/channels/<provider>/<endpoint> (contract section 4.5): proved, stored, answered; processed after. */
export function channelEndpoints(app: FastifyInstance, webhooks: Webhooks): void {
  const { config, database, settings } = webhooks;
  const sealed = sealing(config);
  const worker = startWorker(app, webhooks, sealed);
  app.addHook('onReady', async () => {
    try {
      const lost = await renewSecrets(platform(database), sealed);
      if (lost.length > 0)
        app.log.error({ integrations: lost }, 'AUTH_SECRETS opens not all secrets; enter them again');
    } catch (cause) {
      app.log.warn({ code: (cause as { code?: string }).code }, 'stored secrets could not be looked at');
    }
  });

  const find = async (request: FastifyRequest) => {
    const { provider, endpoint } = request.params as { provider: string; endpoint: string };
    const channel = channelOf(provider);
    const known = /^[\w-]{10,64}$/.test(endpoint);
    const integration = known ? await openIntegration(platform(database), sealed, { endpoint }) : undefined;
    if (channel === undefined || integration?.provider !== provider) throw errors.notFound();
    return { channel, integration };
  };

  app.get(path, async (request, reply) => {
    const { channel, integration } = await find(request);
    if (!channel.handshake) throw errors.methodNotAllowed('POST');
    const query = request.query as Readonly<Record<string, unknown>>;
    const token = query['hub.verify_token'];
    const challenge = query['hub.challenge'];
    const right =
      query['hub.mode'] === 'subscribe' &&
      isSecret(typeof token === 'string' ? token : '', integration.verifyTokenHash || hashSecret(''));
    if (!right || typeof challenge !== 'string') throw new HttpError(403, 'the verify token is wrong');
    reply.header('content-type', 'text/plain; charset=utf-8').header('x-content-type-options', 'nosniff');
    return challenge.slice(0, 1000);
  });

  app.post(path, { bodyLimit }, async (request, reply) => {
    const { channel, integration } = await find(request);
    const delivery: Delivery = {
      headers: request.headers,
      raw: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
      url: request.url,
    };
    if (!channel.verify(delivery, integration.secret, settings.current.public_url)) {
      throw errors.unauthenticated();
    }
    if (!channel.accepts.test(request.headers['content-type'] ?? '')) {
      throw errors.invalidJson('the provider does not send this Content-Type');
    }
    const events = readEvents(() => channel.events(delivery));
    const stored = await store(platform(database), integration, events);
    if (stored > 0) worker.wake();
    reply.header('content-type', channel.reply.type);
    return channel.reply.body;
  });
  refuseOtherMethods(app, path, ['GET', 'HEAD', 'POST']);
}

function readEvents<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof SyntaxError || cause instanceof RangeError)
      throw errors.invalidJson('it is not JSON');
    throw cause;
  }
}
