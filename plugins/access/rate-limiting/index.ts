// Rate limiting: limits wrong passwords and secrets and, if configured, requests from keys and users.
// May import engine, identity.

import type { Database } from '../../../engine/database/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import {
  limitRequests,
  type RateLimitingConfig,
  rateLimitingResponses,
  rateLimitingVariables,
} from './rate-limit.ts';
import { rateLimitingTables } from './tables.ts';

export {
  attempts,
  countForWorkers,
  createLoginLimiter,
  failureCounter,
  failureWindowMinutes,
  networkOf,
} from './attempts.ts';
export { type RateLimitingConfig, rateLimitingVariables } from './rate-limit.ts';

/** Limits requests from keys and users, if configured. */
export const rateLimitingModule: Module<
  { readonly config: RateLimitingConfig; readonly database: Database },
  unknown,
  unknown,
  RateLimitingConfig
> = {
  name: 'rate-limiting',
  tables: rateLimitingTables,
  variables: rateLimitingVariables,
  responses: { ...rateLimitingResponses, isEnabled: ({ rateLimit }) => rateLimit !== undefined },
  register: limitRequests,
};
