import type { FastifyInstance } from 'fastify';
import type { Variable, VariableValues } from '../../../engine/config/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import { type RateLimit, requestCounts } from './request-counts.ts';
import { storeCounts } from './tables.ts';

const units: Readonly<Record<string, number>> = { s: 1000, min: 60_000, h: 3_600_000 };

/** The environment variables of throttling. */
export const rateLimitingVariables = {
  /** Undefined: requests are not counted. */
  rateLimit: {
    name: 'RATE_LIMIT',
    fallback: undefined,
    expected: 'a number of requests for each s, min or h, such as 60/min',
    read: (given) => {
      const [, requests = '', unit = ''] = /^([1-9]\d{0,8})\/(s|min|h)$/.exec(given) ?? [];
      const windowMs = units[unit];
      return windowMs === undefined ? undefined : { requests: Number(requests), windowMs };
    },
  } satisfies Variable<RateLimit | undefined> as Variable<RateLimit | undefined>,
};

/** Whether, and how, requests are limited. */
export type RateLimitingConfig = VariableValues<typeof rateLimitingVariables>;

/**
 * Limits the requests of each key and person, where that is configured: 429 with Retry-After. The fields `RateLimit` and
 * `RateLimit-Policy` are those of draft-ietf-httpapi-ratelimit-headers-09.
 */
export function limitRequests(
  app: FastifyInstance,
  { config: { rateLimit }, database }: { readonly config: RateLimitingConfig; readonly database: Database },
): void {
  if (rateLimit === undefined) return;
  const policy = `"requests";q=${rateLimit.requests};w=${rateLimit.windowMs / 1000}`;
  const counts = requestCounts(
    rateLimit,
    (window, taken) => storeCounts(database, window, taken),
    (cause) =>
      app.log.warn({ code: (cause as { code?: string }).code }, 'could not store how many requests came'),
  );
  // After authentication, which says who it is, and before the body is read.
  app.addHook('preParsing', ({ principal }, reply, payload, done) => {
    if (principal === null || principal === undefined) return done(null, payload);
    const { organization, kind, actor } = principal;
    const { isAllowed, left, resetMs } = counts.take(organization, `${kind} ${actor}`);
    const seconds = Math.ceil(resetMs / 1000);
    reply.header('ratelimit-policy', policy).header('ratelimit', `"requests";r=${left};t=${seconds}`);
    done(isAllowed ? null : errors.rateLimited(seconds), payload);
  });
  app.addHook('onClose', () => counts.close());
}
