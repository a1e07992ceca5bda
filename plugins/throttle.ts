import { isIPv6 } from 'node:net';
import type { FastifyRequest } from 'fastify';
import pLimit, { type LimitFunction } from 'p-limit';
import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible';
import { errors } from '../engine/errors.ts';

/** Wrong passwords within the window, in seconds, before a user or an address has to wait. */
const windowSeconds = 15 * 60;
const perUser = 10;
const perAddress = 100;

/** Logins of one user that may wait for one another at a time. */
const waiting = 50;

/** Counts wrong passwords on this node, by user and by address. */
export interface Throttle {
  /**
   * Judges a password; logins of one user one after the other, so that no more wrong ones are compared than may be.
   * @throws HttpError 429 with Retry-After after too many wrong ones
   */
  readonly judge: <T>(
    request: FastifyRequest,
    user: string,
    verify: () => Promise<T | undefined>,
  ) => Promise<T | undefined>;
}

export function throttle(): Throttle {
  const users = new RateLimiterMemory({ points: perUser, duration: windowSeconds });
  const addresses = new RateLimiterMemory({ points: perAddress, duration: windowSeconds });
  const queues = new Map<string, LimitFunction>();
  const refuse = (rejection: unknown): never => {
    const { msBeforeNext = windowSeconds * 1000 } = rejection as Partial<RateLimiterRes>;
    throw errors.throttled(Math.max(1, Math.ceil(msBeforeNext / 1000)));
  };
  const inTurn = async <T>(user: string, work: () => Promise<T>): Promise<T> => {
    const queue = queues.get(user) ?? pLimit(1);
    queues.set(user, queue);
    if (queue.pendingCount >= waiting) refuse({ msBeforeNext: 1000 });
    try {
      return await queue(work);
    } finally {
      if (queue.activeCount + queue.pendingCount === 0) queues.delete(user);
    }
  };
  return {
    judge: async (request, user, verify) => {
      const [who, from] = [name(user), network(request.ip)];
      // Taken back when the password is right; many users may log in at once from one address.
      await addresses.consume(from).catch(refuse);
      const result = await inTurn(who, async () => {
        const before = await users.get(who);
        if (before !== null && before.consumedPoints >= perUser) refuse(before);
        const verified = await verify();
        if (verified === undefined) await users.consume(who);
        else await users.delete(who);
        return verified;
      });
      if (result !== undefined) await addresses.reward(from);
      return result;
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
