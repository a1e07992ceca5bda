import type { Database } from '../../engine/database/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import { limitRequests, type ThrottlingConfig, throttlingVariables } from './rate-limit.ts';
import { throttlingTables } from './tables.ts';

/** Requests of keys and people are limited, where that is configured. */
export const throttlingModule: Module<{ readonly config: ThrottlingConfig; readonly database: Database }> = {
  name: 'throttling',
  tables: throttlingTables,
  variables: throttlingVariables,
  register: limitRequests,
};
