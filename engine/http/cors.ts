import type { FastifyInstance } from 'fastify';
import { type Operation, operations } from '../records/index.ts';
import { varyBy } from './reply.ts';

/** Methods and headers that pages from other origins can send. */
const methods = 'GET, HEAD, POST, PUT, PATCH, DELETE, QUERY';
const requestHeaders =
  'Authorization, Content-Type, Content-Encoding, If-Match, If-None-Match, Idempotency-Key, Prefer, X-Request-Id';
/** Response headers that pages from other origins can read, in addition to headers added by modules. */
const exposedHeaders = [
  ...Object.values<Pick<Operation, 'responseHeaders'>>(operations).flatMap(({ responseHeaders = {} }) =>
    Object.keys(responseHeaders),
  ),
  'Preference-Applied',
  'Retry-After',
  'X-Request-Id',
];
/** Time that browsers can cache a preflight response, in seconds. */
const maxAge = '600';

/**
 * Allows pages from other origins to use routes registered afterwards. Cookies are never allowed: these pages
 * must send an API key or a token, and cannot use the session of a user who is logged in to this instance.
 * @param origins allowed origins, for example `https://app.example`, or `*` for every origin
 * @param addedHeaders response headers that modules add
 */
export function cors(
  app: FastifyInstance,
  origins: readonly string[],
  addedHeaders: readonly string[],
): void {
  if (origins.length === 0) return;
  const exposed = [...new Set([...exposedHeaders, ...addedHeaders])].sort().join(', ');
  const allowsAny = origins.includes('*');
  // Runs before authentication, so that a page can read why its request was rejected.
  app.addHook('onRequest', ({ headers, method }, reply, done) => {
    if (!allowsAny) varyBy(reply, 'origin');
    const { origin } = headers;
    if (origin !== undefined && (allowsAny || origins.includes(origin))) {
      reply.header('access-control-allow-origin', allowsAny ? '*' : origin);
      if (method === 'OPTIONS') {
        reply
          .header('access-control-allow-methods', methods)
          .header('access-control-allow-headers', requestHeaders);
        reply.header('access-control-max-age', maxAge);
      } else reply.header('access-control-expose-headers', exposed);
    }
    done();
  });
}

/** Parses a comma-separated list of origins. Returns undefined if an origin is invalid. */
export function parseOrigins(text: string): readonly string[] | undefined {
  const origins = text.split(',').map((origin) => origin.trim());
  const isOrigin = (text: string) =>
    text === '*' || (/^https?:[^*]*$/.test(text) && URL.canParse(text) && new URL(text).origin === text);
  return origins.every(isOrigin) ? origins : undefined;
}
