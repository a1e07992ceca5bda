import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** The header of a request and of its response. */
export const requestIdHeader = 'x-request-id';

const boot = randomBytes(4).toString('hex');
let requests = 0;

/** An id that no other request has, also on other nodes. All are equally long, so that equal errors are. */
export const newRequestId = (): string => `${boot}-${(++requests).toString(36).padStart(6, '0')}`;

/** The id of a request: what the caller calls it, if that is short and safe to print, else a new one. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers[requestIdHeader];
  return typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given) ? given : newRequestId();
}
