import type { Server } from 'node:http';
import type { FastifyHttpOptions, FastifyInstance, LogController } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { type Database, type DatabaseConfig, processShare } from '../database/index.ts';
import { defaultBodyLimit } from '../records/index.ts';
import { compression } from './compression.ts';
import {
  createNotFound,
  errorHandling,
  type NamedResource,
  type NotFound,
  rejectMalformedRequest,
  rejectUndecodableUrl,
  requestIdOf,
} from './error-handling.ts';
import { draining, gracefulClose } from './graceful-close.ts';
import { logRequests, logStream } from './log.ts';
import { memory, requestScopes } from './memory.ts';
import { restoreMethod, substituteMethod } from './methods.ts';
import type { HttpConfig } from './variables.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Maximum time for receiving a request body, in milliseconds, except on routes that stream their bodies. */
    bodyTimeoutMs: number;
  }
  interface FastifyContextConfig {
    /** Whether the route streams its body and enforces its own time limit. */
    isStreamed?: true;
  }
}

/** Rejects bodies that take too long to arrive. Node's `requestTimeout` cannot be set per route. */
const bodyTimeout = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.decorate('bodyTimeoutMs', 15_000);
    app.addHook('onRequest', ({ raw, routeOptions }, _reply, done) => {
      const { 'content-length': length = '0', 'transfer-encoding': encoding } = raw.headers;
      const hasBody = encoding !== undefined || length !== '0';
      if (hasBody && routeOptions.config.isStreamed !== true) {
        const timer = setTimeout(() => {
          const error = Object.assign(new Error('the request body timed out'), {
            code: 'ERR_HTTP_REQUEST_TIMEOUT',
          });
          app.server.emit('clientError', error, raw.socket);
        }, app.bodyTimeoutMs);
        // Emitted when the body is complete or the connection is closed.
        raw.once('close', () => clearTimeout(timer));
      }
      done();
    });
  },
  { name: 'body-timeout', fastify: '5.x' },
);

/**
 * Passes every body to its handler as bytes. Permissions must be checked before a body is parsed, and
 * Fastify's parsers would round numbers, repair invalid UTF-8 and reject a DELETE request with an empty body.
 */
const rawBodies = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    app.decorateRequest('principal', null);
  },
  { name: 'raw-bodies', fastify: '5.x' },
);

/**
 * Creates a server without routes that enforces limits, handles errors and shuts down gracefully.
 * @param resources the resources that have URLs
 */
export async function httpServer(
  config: HttpConfig & Pick<DatabaseConfig, 'responseBytes' | 'workers'>,
  database: Pick<Database, 'hold'>,
  resources: readonly NamedResource[],
): Promise<FastifyInstance> {
  const notFound = createNotFound(resources);
  // Imported lazily, because most commands do not start a server.
  const { default: fastify, LogController } = await import('fastify');
  const logController = new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' });
  const app = fastify(serverOptions(config, notFound, logController));
  app.decorateRequest('trace');
  app.decorate('tracesStatements', false);
  app.decorate('slowMs', config.logSlowMs === 0 ? Infinity : config.logSlowMs);
  if (config.logRequests) logRequests(app);
  const maxConnections = processShare(config.maxConnections, config);
  const bodyBytes = processShare(config.responseBytes, config);
  await app.register(errorHandling, { missing: notFound });
  await app.register(gracefulClose);
  await app.register(requestScopes);
  await app.register(draining);
  await app.register(bodyTimeout);
  await app.register(compression, { compress: config.compress });
  await app.register(memory, { database, maxConnections, bodyBytes });
  await app.register(rawBodies);
  return app;
}

/** Connection limits, in bytes and milliseconds. */
export const connectionOptions = {
  // Sufficient for the longest import. Other bodies have a shorter time limit.
  requestTimeout: 3_600_000,
  // Longer than the timeout of typical load balancers, so that they do not send requests on a connection that
  // is being closed.
  keepAliveTimeout: 72_000,
  // error-handling.ts rejects requests without a Host header, because Node's response has a different format.
  http: {
    headersTimeout: 10_000,
    // Interval at which Node checks timeouts. At the default of 30 s, a slow client might be disconnected
    // only after 40 s.
    connectionsCheckingInterval: 1000,
    maxHeaderSize: 16_384,
    requireHostHeader: false,
  },
};

/** Returns Fastify's options. Limits are in bytes and milliseconds. */
function serverOptions(
  { logLevel, logFormat = process.stderr.isTTY ? 'text' : 'json', trustedProxies }: HttpConfig,
  notFound: NotFound,
  logController: LogController,
): FastifyHttpOptions<Server> {
  return {
    logger: { level: logLevel, stream: logStream(logFormat) },
    logController,
    // These are the first functions that Fastify calls before and after routing.
    rewriteUrl: (request) => {
      substituteMethod(request);
      return request.url ?? '';
    },
    genReqId: (request) => {
      restoreMethod(request);
      return requestIdOf(request);
    },
    trustProxy: trustedProxies > 0 && ((_address: string, hop: number) => hop < trustedProxies),
    bodyLimit: defaultBodyLimit,
    ...connectionOptions,
    // Time during which nothing is sent or received. Statements and locks have limits of up to ten minutes of their own.
    connectionTimeout: connectionOptions.requestTimeout,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: 16_384 },
    clientErrorHandler: rejectMalformedRequest,
    frameworkErrors: rejectUndecodableUrl(notFound),
  };
}
