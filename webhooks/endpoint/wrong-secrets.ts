import type { FastifyRequest } from 'fastify';
import { RateLimiterRes } from 'rate-limiter-flexible';
import { errors, type HttpError } from '../../engine/errors.ts';
import { failureCounter, networkOf } from '../../plugins/access/rate-limiting/index.ts';

/**
 * Maximum number of wrong secrets per IP address and endpoint within the time window. Further wrong secrets
 * receive 429.
 */
const maxWrong = 100;

/** Counts wrong secrets on this node, by endpoint and IP address. */
export interface WrongSecrets {
  /**
   * Counts a wrong secret or signature and returns the error to throw: the given error (`otherwise`), or 429 with
   * `Retry-After` after 100 failures within 15 minutes. Valid secrets are always accepted, even if other clients at
   * the same IP address are guessing secrets.
   */
  readonly errorFor: (request: FastifyRequest, endpoint: string, otherwise?: HttpError) => Promise<HttpError>;
}

/** Creates a counter of wrong secrets. */
export function wrongSecrets(): WrongSecrets {
  const counts = failureCounter('wrong secrets', maxWrong);
  return {
    errorFor: async (request, endpoint, otherwise = errors.unauthenticated()) => {
      try {
        await counts.consume(`${endpoint} ${networkOf(request)}`);
        return otherwise;
      } catch (rejection) {
        if (!(rejection instanceof RateLimiterRes)) throw rejection;
        return errors.tooManyAttempts(Math.max(1, Math.ceil(rejection.msBeforeNext / 1000)));
      }
    },
  };
}
