import type { FastifyRequest } from 'fastify';
import { RateLimiterRes } from 'rate-limiter-flexible';
import { errors, type HttpError } from '../../engine/errors.ts';
import { failureCounter, networkOf } from '../../plugins/access/rate-limiting/index.ts';

/** Wrong secrets allowed per IP address and endpoint within the window. Further ones get 429. */
const maxWrong = 100;

/** Counts wrong secrets on this node, by endpoint and IP address. */
export interface WrongSecrets {
  /**
   * Counts a wrong secret or signature and returns the error to throw: `otherwise`, or 429 with `Retry-After` after 100
   * failures within 15 minutes. A valid secret is always accepted, even if others at its IP address guess.
   */
  readonly refusal: (request: FastifyRequest, endpoint: string, otherwise?: HttpError) => Promise<HttpError>;
}

/** Creates the counter. */
export function wrongSecrets(): WrongSecrets {
  const counts = failureCounter('wrong secrets', maxWrong);
  return {
    refusal: async (request, endpoint, otherwise = errors.unauthenticated()) => {
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
