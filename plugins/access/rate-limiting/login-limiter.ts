import { isIPv6 } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { parseEmail } from '../identity/index.ts';
import { attempts } from './attempts.ts';

/** Maximum number of attempts per user or device waiting at the same time. */
const waiting = 250;

/** Limits wrong passwords on this node: by user and network for unknown devices, and by device for known devices. */
interface LoginLimiter {
  /**
   * Runs an attempt from a device on which the user has not logged in before. All such devices share the user's limit.
   * @throws HttpError 429 with Retry-After after too many wrong passwords
   */
  readonly unknownDevice: <T>(
    request: FastifyRequest,
    email: string,
    attempt: () => Promise<T | undefined>,
  ) => Promise<T | undefined>;
  /** Runs an attempt from a device on which the user has logged in before. Only its own failures slow it down. */
  readonly knownDevice: <T>(device: string, attempt: () => Promise<T | undefined>) => Promise<T | undefined>;
  /** Returns the number of users, networks and devices with attempts in flight. */
  readonly busy: () => number;
}

export function createLoginLimiter(): LoginLimiter {
  const users = attempts('users', { failures: 20, waiting });
  const networks = attempts('addresses', { failures: 100, waiting: 4 * waiting });
  const devices = attempts('devices', { failures: 10, waiting, slowDown: true });
  return {
    unknownDevice: (request, email, attempt) =>
      networks.run(networkOf(request), () => users.run(keyOf(email), attempt)),
    knownDevice: devices.run,
    busy: () => users.busy() + networks.busy() + devices.busy(),
  };
}

/**
 * Returns the key under which a user's attempts are counted: the normalized email address, or the text itself if it is
 * not an email address.
 */
const keyOf = (email: string): string => parseEmail(email) ?? email.slice(0, 300);

/**
 * Returns the network of a request: its IPv4 address, or the /64 prefix of its IPv6 address, because a client can use
 * any address in its /64.
 */
export function networkOf({ ip: address }: Pick<FastifyRequest, 'ip'>): string {
  if (!isIPv6(address) || address.startsWith('::ffff:')) return address;
  const [head = '', tail = ''] = address.split('::');
  const groups = head.split(':');
  const missing = 8 - groups.length - (address.includes('::') ? tail.split(':').length : 0);
  const allGroups = address.includes('::') ? [...groups, ...Array<string>(missing).fill('0')] : groups;
  return allGroups.slice(0, 4).join(':');
}
