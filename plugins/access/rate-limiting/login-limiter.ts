import { isIPv6 } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { parseEmail } from '../identity/index.ts';
import { attempts } from './attempts.ts';

/** Attempts of one user or device that may wait at a time. */
const waiting = 250;

/** Bounds wrong passwords on this node: for strangers by user and address, for a known device by the device. */
export interface LoginLimiter {
  /**
   * An attempt from a browser that has not logged in to the user before. All of them share the limit of the user.
   * @throws HttpError 429 with Retry-After after too many wrong passwords
   */
  readonly stranger: <T>(
    request: FastifyRequest,
    email: string,
    attempt: () => Promise<T | undefined>,
  ) => Promise<T | undefined>;
  /** An attempt from a device that has logged in to the user before: slowed down only by its own failures. */
  readonly device: <T>(device: string, attempt: () => Promise<T | undefined>) => Promise<T | undefined>;
  /** How many users, addresses and devices have attempts in flight. */
  readonly busy: () => number;
}

export function createLoginLimiter(): LoginLimiter {
  const users = attempts('users', { failures: 20, waiting });
  const addresses = attempts('addresses', { failures: 100, waiting: 4 * waiting });
  const devices = attempts('devices', { failures: 10, waiting, slowDown: true });
  return {
    stranger: (request, email, attempt) =>
      addresses.run(networkOf(request), () => users.run(nameOf(email), attempt)),
    device: devices.run,
    busy: () => users.busy() + addresses.busy() + devices.busy(),
  };
}

/** The key of a user: the normal form of the address, or the text if it is not an address. */
const nameOf = (email: string): string => parseEmail(email) ?? email.slice(0, 300);

/** The network of a request: an IPv6 caller owns a /64 and may use any address in it. */
export function networkOf({ ip: address }: Pick<FastifyRequest, 'ip'>): string {
  if (!isIPv6(address) || address.startsWith('::ffff:')) return address;
  const [head = '', tail = ''] = address.split('::');
  const groups = head.split(':');
  const missing = 8 - groups.length - (address.includes('::') ? tail.split(':').length : 0);
  const full = address.includes('::') ? [...groups, ...Array<string>(missing).fill('0')] : groups;
  return full.slice(0, 4).join(':');
}
