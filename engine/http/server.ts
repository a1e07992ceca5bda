import type { Server } from 'node:http';
import type { FastifyHttpOptions, FastifyInstance, LogController } from 'fastify';
import { type Admission, type DatabaseConfig, processShare } from '../database/index.ts';
import { bodyTimeout } from './body-timeout.ts';
import { compression } from './compression.ts';
import { draining } from './draining.ts';
import { errorHandling, rejectMalformedRequest, rejectUndecodableUrl } from './error-handling.ts';
import { gracefulClose } from './graceful-close.ts';
import { logRequests, logStream } from './log.ts';
import { memory } from './memory.ts';
import { restoreMethod, substituteMethod } from './methods.ts';
import { createNotFound, type NamedResource, type NotFound } from './not-found.ts';
import { rawBodies } from './raw-bodies.ts';
import { requestIdOf } from './request-id.ts';
import { requestScopes } from './request-scope.ts';
import type { HttpConfig } from './variables.ts';

/**
 * Creates a server without routes that enforces limits, handles errors and shuts down gracefully.
 * @param resources the resources whose names are used in URLs
 */
export async function httpServer(
  config: HttpConfig & Pick<DatabaseConfig, 'responseBytes' | 'workers'>,
  admission: Admission,
  resources: readonly NamedResource[],
): Promise<FastifyInstance> {
  const notFound = createNotFound(resources);
  // Imported here because commands that do not serve do not need it.
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
  await app.register(memory, { admission, maxConnections, bodyBytes });
  await app.register(rawBodies);
  return app;
}

/** Connection limits, in bytes and milliseconds. */
export const connectionOptions = {
  // Sufficient for the longest import. Other bodies have a shorter limit, see body-timeout.ts.
  requestTimeout: 3_600_000,
  // Longer than the timeout of typical load balancers, so that they do not send requests on a connection
  // being closed.
  keepAliveTimeout: 72_000,
  // error-handling.ts rejects requests without Host, because Node's response has a different format.
  http: {
    headersTimeout: 10_000,
    // Interval at which Node checks timeouts. With the default of 30 s, a slow client would be disconnected
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
    bodyLimit: 1024 * 1024,
    ...connectionOptions,
    connectionTimeout: 30_000,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: 16_384 },
    clientErrorHandler: rejectMalformedRequest,
    frameworkErrors: rejectUndecodableUrl(notFound),
  };
}
