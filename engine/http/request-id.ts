import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Header of requests and responses. */
export const requestIdHeader = 'x-request-id';

const boot = randomBytes(4).toString('hex');
let requests = 0;

/** Generates an ID that is unique across nodes. All have the same length, so that equal errors do too. */
export const newRequestId = (): string => `${boot}-${(++requests).toString(36).padStart(6, '0')}`;

/** Returns the request ID sent by the caller if it is short and printable, otherwise a new one. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers[requestIdHeader];
  return typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given) ? given : newRequestId();
}
