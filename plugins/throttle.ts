import { isIPv6 } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible';
import { errors } from '../engine/errors.ts';

/** Wrong passwords within the window, in seconds, before a user or an address has to wait. */
const windowSeconds = 15 * 60;
const perUser = 10;
const perAddress = 100;

/** Counts failed logins on this node, by user and by address. */
export interface Throttle {
  /** Counts an attempt. @throws HttpError 429 with Retry-After when there were too many */
  readonly attempt: (request: FastifyRequest, user: string) => Promise<void>;
  /** Takes it back: the password was right. */
  readonly succeeded: (request: FastifyRequest, user: string) => Promise<void>;
}

export function throttle(): Throttle {
  const users = new RateLimiterMemory({ points: perUser, duration: windowSeconds });
  const addresses = new RateLimiterMemory({ points: perAddress, duration: windowSeconds });
  const refuse = (rejection: unknown): never => {
    const { msBeforeNext = windowSeconds * 1000 } = rejection as Partial<RateLimiterRes>;
    throw errors.throttled(Math.max(1, Math.ceil(msBeforeNext / 1000)));
  };
  return {
    attempt: async (request, user) => {
      await addresses.consume(network(request.ip)).catch(refuse);
      await users.consume(name(user)).catch(refuse);
    },
    succeeded: async (request, user) => {
      await addresses.reward(network(request.ip));
      await users.delete(name(user));
    },
  };
}

const name = (user: string): string => user.trim().toLowerCase().slice(0, 300);

/** An IPv6 caller owns a /64 and may use any address in it. */
function network(address: string): string {
  if (!isIPv6(address) || address.startsWith('::ffff:')) return address;
  const [head = '', tail = ''] = address.split('::');
  const groups = head.split(':');
  const missing = 8 - groups.length - (address.includes('::') ? tail.split(':').length : 0);
  const full = address.includes('::') ? [...groups, ...Array<string>(missing).fill('0')] : groups;
  return full.slice(0, 4).join(':');
}
