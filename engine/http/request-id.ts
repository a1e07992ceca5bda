import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Header that contains the request ID, in requests and responses. */
export const requestIdHeader = 'x-request-id';

const boot = randomBytes(4).toString('hex');
let requestCount = 0;

/**
 * Generates an ID that is unique across nodes. All IDs have the same length, so that equal errors have the
 * same length too.
 */
export const newRequestId = (): string => `${boot}-${(++requestCount).toString(36).padStart(6, '0')}`;

/** Returns the request ID sent by the caller if it is short and printable, otherwise a new one. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const header = headers[requestIdHeader];
  return typeof header === 'string' && /^[\w.:-]{1,128}$/.test(header) ? header : newRequestId();
}
