import type { FastifyInstance } from 'fastify';
import { varyBy } from './reply.ts';

/** What pages of other origins may send, and may read of a response. */
const methods = 'GET, HEAD, POST, PUT, PATCH, DELETE';
const sent =
  'Authorization, Content-Type, Content-Encoding, If-Match, If-None-Match, Idempotency-Key, Prefer, X-Request-Id';
const exposed =
  'ETag, Location, Link, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed, Preference-Applied, X-Request-Id, X-Total-Count';
/** How long a browser remembers what it may send, in seconds. */
const maxAge = '600';

/**
 * Lets pages of other origins use the routes registered after it. Never with credentials: they send an API key or a
 * token, and a cookie of a person who is logged in here is of no use to them.
 * @param origins such as `https://app.example`, or `*` for all; none: no page of another origin
 */
export function cors(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const any = origins.includes('*');
  // Before authentication, so that a page can read why it was refused.
  app.addHook('onRequest', ({ headers, method }, reply, done) => {
    if (!any) varyBy(reply, 'origin');
    const { origin } = headers;
    if (origin !== undefined && (any || origins.includes(origin))) {
      reply.header('access-control-allow-origin', any ? '*' : origin);
      if (method === 'OPTIONS') {
        reply.header('access-control-allow-methods', methods).header('access-control-allow-headers', sent);
        reply.header('access-control-max-age', maxAge);
      } else reply.header('access-control-expose-headers', exposed);
    }
    done();
  });
}

/** Parses a list of origins; undefined if one is none. */
export function parseOrigins(text: string): readonly string[] | undefined {
  const origins = text.split(',').map((origin) => origin.trim());
  const isOrigin = (text: string) =>
    text === '*' || (/^https?:[^*]*$/.test(text) && URL.canParse(text) && new URL(text).origin === text);
  return origins.every(isOrigin) ? origins : undefined;
}
