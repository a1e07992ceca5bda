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

/** Environment variables that configure the HTTP server. */
export const httpVariables = {
  /** Maximum number of client connections. Requests on additional connections get a 503. */
  maxConnections: integerVariable('MAX_CONNECTIONS', 5000, [1, 1_000_000]),
  logLevel: choiceVariable('LOG_LEVEL', 'warn', Object.fromEntries(levels.map((level) => [level, level]))),
  /** Whether to log every request, regardless of the log level. */
  logRequests: flagVariable('LOG_REQUESTS', false),
  /** Threshold for logging slow requests, in milliseconds of statement time; 0 disables logging. */
  logSlowMs: integerVariable('LOG_SLOW_MS', 1000, [0, 600_000]),
  logFormat: choiceVariable<'json' | 'text' | undefined>('LOG_FORMAT', undefined, {
    json: 'json',
    text: 'text',
  }),
  /** Origins of pages that can call the API. */
  corsOrigins,
  /** Whether to compress lists, the OpenAPI document and the explorer; false if a proxy compresses them. */
  compress: flagVariable('COMPRESSION', true),
  /** Maximum length of a decoded import body, in bytes. */
  importBytes: integerVariable('IMPORT_MAX_MB', 1024, [1, 1_048_576], 1024 * 1024),
  /** Number of proxies whose X-Forwarded-For entries are trusted. */
  trustedProxies: integerVariable('TRUSTED_PROXIES', 0, [0, 10]),
};

/** Configuration of the HTTP server. */
export type HttpConfig = VariableValues<typeof httpVariables>;
