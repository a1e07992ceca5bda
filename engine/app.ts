// App: the whole service from its configuration, in the order in which it is put together.
// May import everything.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { METHODS } from 'node:http';
import fastify, { type FastifyHttpOptions, type FastifyInstance, LogController } from 'fastify';
import { authentication } from '../plugins/authentication.ts';
import { draining } from '../plugins/draining.ts';
import { errorHandling, refuseAddress, refuseConnection } from '../plugins/errors.ts';
import { login } from '../plugins/login.ts';
import { loginFragment } from '../plugins/login-description.ts';
import { mailer } from '../plugins/mail.ts';
import { memory } from '../plugins/memory.ts';
import { rawBodies } from '../plugins/raw-bodies.ts';
import { setupScreens } from '../plugins/setup/index.ts';
import { partnerFragment, webhookPages, webhooks } from '../webhooks/index.ts';
import { liveSettings } from '../webhooks/settings/index.ts';
import { compile, type Fragment, type Resource } from './compile/index.ts';
import type { Config } from './config.ts';
import type { Database } from './database/index.ts';
import { checkSources, readSources } from './definition/index.ts';
import { effects } from './effects/index.ts';
import { crud } from './routes/crud.ts';
import { documentation } from './routes/documentation.ts';
import { apiPrefix } from './routes/openapi.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Why the last change of config.yaml was refused; undefined where what it says is in force. */
    configurationProblem: () => string | undefined;
  }
}

/** The version of this package, and of the described API. */
export const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

/** Reads, checks and compiles the resource definitions. @throws YamlError with every mistake */
export const loadResources = async (config: Config): Promise<readonly Resource[]> =>
  compile(checkSources(await readSources(config.resources)), apiPrefix, config.audit ? [effects.audit] : []);

/** What every part of the service says of itself, for the description. */
export const fragments = (resources: readonly Resource[]): readonly Fragment[] => [
  loginFragment,
  partnerFragment,
  ...resources.map((resource) => resource.openApi),
];

/** Puts the service together. It owns neither the database nor the process. */
export async function build(
  config: Config,
  resources: readonly Resource[],
  database: Database,
): Promise<FastifyInstance> {
  const app = fastify(serverOptions(config));
  // So that a known path answers 405 to every method there is.
  for (const method of METHODS) {
    if (!app.supportedMethods.includes(method) && method !== 'CONNECT')
      app.addHttpMethod(method, { hasBody: true });
  }
  const settings = await liveSettings(config, app.log);
  app.addHook('onClose', async () => settings.close());
  app.decorate('configurationProblem', () => settings.problem);
  await app.register(errorHandling);
  await app.register(draining);
  const { maxConnections, responseBytes: bodyBytes } = config;
  await app.register(memory, { admission: database.admission, maxConnections, bodyBytes });
  await app.register(rawBodies);
  const publicUrl = () => settings.current.public_url;
  await app.register(authentication, { config, database, publicUrl });
  await app.register(login, { config, database });
  for (const resource of resources) {
    await app.register(crud, { resource, database, path: `${apiPrefix}/${resource.name}` });
  }
  await app.register(webhooks, { config, database, resources, settings });
  const more = webhookPages({ config, database, settings });
  const mail = mailer(() => settings.current.mail, app.log);
  await app.register(setupScreens, { config, database, resources, mailer: mail, more });
  await app.register(documentation, { fragments: fragments(resources), version });
  return app;
}

/** Limits are in bytes and milliseconds. */
function serverOptions({ logLevel, trustedProxies }: Config): FastifyHttpOptions<Server> {
  const boot = randomBytes(4).toString('hex');
  let requests = 0;
  return {
    logger: { level: logLevel, stream: process.stderr },
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    genReqId: () => `${boot}-${(++requests).toString(36)}`,
    trustProxy: trustedProxies > 0 && ((_address: string, hop: number) => hop < trustedProxies),
    bodyLimit: 1024 * 1024,
    requestTimeout: 15_000,
    connectionTimeout: 30_000,
    // Longer than a balancer's, so that it never sends on a connection being closed.
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    // Node would refuse a request without Host in a shape of its own; plugins/errors.ts does it.
    http: {
      headersTimeout: 10_000,
      // How often Node looks whether it is up; its own default, 30 s, would let a slow client have 40.
      connectionsCheckingInterval: 1000,
      maxHeaderSize: 16_384,
      requireHostHeader: false,
    },
    routerOptions: { maxParamLength: 16_384 },
    clientErrorHandler: refuseConnection,
    frameworkErrors: refuseAddress,
  };
}
