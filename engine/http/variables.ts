import {
  choiceVariable,
  flagVariable,
  integerVariable,
  type Variable,
  type VariableValues,
} from '../config/index.ts';
import { parseOrigins } from './cors.ts';

const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

const corsOrigins: Variable<readonly string[]> = {
  name: 'CORS_ORIGINS',
  fallback: [],
  expected: '* or origins such as https://app.example, separated by commas',
  read: parseOrigins,
};

/** The environment variables of the HTTP server. */
export const httpVariables = {
  /** Connections of clients; further ones get 503. */
  maxConnections: integerVariable('MAX_CONNECTIONS', 5000, [1, 1_000_000]),
  logLevel: choiceVariable('LOG_LEVEL', 'warn', Object.fromEntries(levels.map((level) => [level, level]))),
  /** Whether each request is logged, at any level. */
  logRequests: flagVariable('LOG_REQUESTS', false),
  /** Statements of a request that take longer are logged, in milliseconds; 0: none. */
  logSlowMs: integerVariable('LOG_SLOW_MS', 1000, [0, 600_000]),
  logFormat: choiceVariable<'json' | 'text' | undefined>('LOG_FORMAT', undefined, {
    json: 'json',
    text: 'text',
  }),
  /** Origins whose pages may call the API. */
  corsOrigins,
  /** Whether lists, the description and the explorer are compressed; false where a proxy does it. */
  compress: flagVariable('COMPRESSION', true),
  /** The longest body of an import, once it is decoded, in bytes. */
  importBytes: integerVariable('IMPORT_MAX_MB', 1024, [1, 1_048_576], 1024 * 1024),
  /** Proxies in front whose X-Forwarded-For is believed. */
  trustedProxies: integerVariable('TRUSTED_PROXIES', 0, [0, 10]),
};

/** How the server listens and logs. */
export type HttpConfig = VariableValues<typeof httpVariables>;
