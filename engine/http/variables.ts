import { integer, oneOf, type Values } from '../config/index.ts';

const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/** The environment variables of the HTTP server. */
export const httpVariables = {
  /** Connections of clients; further ones get 503. */
  maxConnections: integer('MAX_CONNECTIONS', 5000, [1, 1_000_000]),
  logLevel: oneOf('LOG_LEVEL', 'warn', Object.fromEntries(levels.map((level) => [level, level]))),
  /** Proxies in front whose X-Forwarded-For is believed. */
  trustedProxies: integer('TRUSTED_PROXIES', 0, [0, 10]),
};

/** How the server listens and logs. */
export type HttpConfig = Values<typeof httpVariables>;
