import type { FastifyInstance } from 'fastify';
import type { AddedResponses } from '../../../engine/compile/index.ts';
import type { Variable, VariableValues } from '../../../engine/config/index.ts';
import { type Database, failureDetails } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import { type RateLimit, requestCounts } from './request-counts.ts';
import { storeCounts } from './tables.ts';

const units: Readonly<Record<string, number>> = { s: 1000, min: 60_000, h: 3_600_000 };

/** Environment variables that configure rate limiting. */
export const rateLimitingVariables = {
  /** Rate limit for each caller, or undefined if requests are not limited. */
  rateLimit: {
    name: 'RATE_LIMIT',
    fallback: undefined,
    expected: 'a number of requests per s, min or h, such as 60/min',
    read: (text) => {
      const [, requests = '', unit = ''] = /^([1-9]\d{0,8})\/(s|min|h)$/.exec(text) ?? [];
      const windowMs = units[unit];
      return windowMs === undefined ? undefined : { requests: Number(requests), windowMs };
    },
  } satisfies Variable<RateLimit | undefined> as Variable<RateLimit | undefined>,
};

/** Rate limiting configuration. */
export type RateLimitingConfig = VariableValues<typeof rateLimitingVariables>;

/** Headers defined in draft-ietf-httpapi-ratelimit-headers-09. */
const headers = {
  'RateLimit-Policy': {
    description: 'Maximum number of requests (`q`) in a window of `w` seconds.',
    schema: { type: 'string', examples: ['"requests";q=60;w=60'] },
  },
  RateLimit: {
    description: 'Remaining requests (`r`) in the current window, which ends in `t` seconds.',
    schema: { type: 'string', examples: ['"requests";r=59;t=41'] },
  },
};

/** The headers in every response, and the response to a caller that exceeds its limit. */
export const rateLimitingResponses: AddedResponses = {
  headers,
  errors: {
    429: {
      description: 'The caller has exceeded the rate limit. The request was not processed.',
      headers: {
        'Retry-After': {
          description: 'Seconds to wait before the next request.',
          schema: { type: 'integer', minimum: 0 },
        },
        ...headers,
      },
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    },
  },
};

/**
 * Limits requests from each key and user, if configured. Rejected requests get 429 with Retry-After. The
 * headers `RateLimit` and `RateLimit-Policy` follow draft-ietf-httpapi-ratelimit-headers-09.
 */
export function limitRequests(
  app: FastifyInstance,
  { config: { rateLimit }, database }: { readonly config: RateLimitingConfig; readonly database: Database },
): void {
  if (rateLimit === undefined) return;
  const policy = `"requests";q=${rateLimit.requests};w=${rateLimit.windowMs / 1000}`;
  const counts = requestCounts(
    rateLimit,
    (window, batch) => storeCounts(database, window, batch),
    (cause) => app.log.warn(failureDetails(cause), 'failed to store request counts'),
  );
  // Runs after authentication, which identifies the caller, but before the body is parsed.
  app.addHook('preParsing', ({ principal }, reply, payload, done) => {
    if (principal === null || principal === undefined) return done(null, payload);
    const { organization, kind, actor } = principal;
    const { isAllowed, remaining, resetMs } = counts.consume(organization, `${kind} ${actor}`);
    const seconds = Math.ceil(resetMs / 1000);
    reply.header('ratelimit-policy', policy).header('ratelimit', `"requests";r=${remaining};t=${seconds}`);
    done(isAllowed ? null : errors.rateLimited(seconds), payload);
  });
  app.addHook('onClose', () => counts.close());
}
