import type { FastifyRequest } from 'fastify';
import { RateLimiterRes } from 'rate-limiter-flexible';
import { errors, type HttpError } from '../../engine/errors.ts';
import { failureCounter, networkOf } from '../../plugins/access/rate-limiting/index.ts';

/** Wrong secrets of one address at one endpoint within the window; further ones get 429. */
const maxWrong = 100;

/** Counts wrong secrets on this node, by endpoint and address. */
export interface WrongSecrets {
  /**
   * The error for a wrong secret or signature: `otherwise`, or 429 with Retry-After after a hundred in a
   * quarter of an hour. A right secret is never refused, even if others at its address guess.
   */
  readonly refusal: (request: FastifyRequest, endpoint: string, otherwise?: HttpError) => Promise<HttpError>;
}

export function wrongSecrets(): WrongSecrets {
  const counts = failureCounter('wrong secrets', maxWrong);
  return {
    refusal: async (request, endpoint, otherwise = errors.unauthenticated()) => {
      try {
        await counts.consume(`${endpoint} ${networkOf(request)}`);
        return otherwise;
      } catch (rejection) {
        if (!(rejection instanceof RateLimiterRes)) throw rejection;
        return errors.throttled(Math.max(1, Math.ceil(rejection.msBeforeNext / 1000)));
      }
    },
  };
}
