import type { Database } from '../../../engine/database/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { limitRequests, type RateLimitingConfig, rateLimitingVariables } from './rate-limit.ts';
import { rateLimitingTables } from './tables.ts';

/** Requests of keys and people are limited, where that is configured. */
export const rateLimitingModule: Module<{
  readonly config: RateLimitingConfig;
  readonly database: Database;
}> = {
  name: 'rate-limiting',
  tables: rateLimitingTables,
  variables: rateLimitingVariables,
  register: limitRequests,
};
