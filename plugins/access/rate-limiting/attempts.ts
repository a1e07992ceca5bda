import cluster from 'node:cluster';
import { isIPv6 } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import {
  type RateLimiterAbstract,
  RateLimiterCluster,
  RateLimiterClusterMaster,
  RateLimiterMemory,
} from 'rate-limiter-flexible';
import { errors } from '../../../engine/errors.ts';
import { parseEmail } from '../identity/index.ts';

/** How long failures are counted, in minutes, starting with the first failure. */
export const failureWindowMinutes = 15;
const windowSeconds = failureWindowMinutes * 60;
/** Timeout for requests to the process that counts for all workers, in milliseconds. */
const timeoutMs = 2000;

/**
 * Creates a counter for each key's failures within {@link failureWindowMinutes}, shared by all processes on this node.
 * @param name unique within the process
 * @param points maximum number of failures
 */
export const failureCounter = (name: string, points: number): RateLimiterAbstract =>
  cluster.isWorker
    ? new RateLimiterCluster({ keyPrefix: name, points, duration: windowSeconds, timeoutMs })
    : new RateLimiterMemory({ keyPrefix: name, points, duration: windowSeconds });

/** Starts counting failures in this process on behalf of its workers. */
export const countForWorkers = (): void => {
  new RateLimiterClusterMaster();
};

/** Maximum delay before a slowed-down attempt, in milliseconds. */
const maxDelayMs = 5000;

/**
 * Limits failed attempts per key, including concurrent ones. Failures are counted for the whole node;
 * attempts in flight are counted only for this process.
 */
interface Attempts {
  /**
   * Runs an attempt, which returns undefined if it fails. The number of attempts in flight never exceeds the number of
   * remaining failures. Other attempts wait, so that any number of concurrent attempts can succeed.
   * @throws HttpError 429 with Retry-After if no failures remain or too many attempts are waiting
   */
  readonly run: <T>(key: string, attempt: () => Promise<T | undefined>) => Promise<T | undefined>;
  /** Returns the number of keys with attempts in flight or waiting. */
  readonly busy: () => number;
}

/** Limits for {@link Attempts}. */
interface AttemptLimits {
  /** Maximum number of failures within the window. */
  readonly failures: number;
  /** Maximum number of attempts per key waiting at the same time. */
  readonly waiting: number;
  /** If true, attempts beyond the limit run one at a time after a growing delay, instead of being rejected. */
  readonly slowDown?: boolean;
}

/** The state of one key's attempts. */
interface KeyState {
  /** Number of `run` calls that use this object. */
  calls: number;
  running: number;
  readonly queue: (() => void)[];
}

/** Creates a limiter for failed attempts. @param name identifies the counter within the process */
export function attempts(name: string, { failures, waiting, slowDown = false }: AttemptLimits): Attempts {
  const failureCounts = failureCounter(name, failures);
  const states = new Map<string, KeyState>();

  /**
   * Waits until an attempt can start, and counts it as running.
   * @returns the number of remaining failures; 0 or less if the attempt is slowed down
   */
  const admit = async (key: string, state: KeyState): Promise<number> => {
    for (;;) {
      const record = await failureCounts.get(key);
      const remaining = failures - (record?.consumedPoints ?? 0);
      if (remaining <= 0 && !slowDown) throw tooManyAttempts(record?.msBeforeNext);
      if (state.running < (slowDown ? Math.max(remaining, 1) : remaining)) {
        // Counted here, because other attempts can be admitted before the caller continues.
        state.running++;
        return remaining;
      }
      if (state.queue.length >= waiting) throw tooManyAttempts(1000);
      await new Promise<void>((resolve) => state.queue.push(resolve));
    }
  };

  return {
    busy: () => states.size,
    run: async (key, attempt) => {
      const state = states.get(key) ?? { calls: 0, running: 0, queue: [] };
      states.set(key, state);
      state.calls++;
      try {
        const remaining = await admit(key, state);
        try {
          if (remaining <= 0) await pause(Math.min(1000 * 2 ** -remaining, maxDelayMs));
          const result = await attempt();
          if (result === undefined) await failureCounts.penalty(key);
          else if (slowDown) await failureCounts.delete(key);
          return result;
        } finally {
          state.running--;
        }
      } finally {
        state.calls--;
        if (state.calls === 0) states.delete(key);
        state.queue.shift()?.();
      }
    },
  };
}

const tooManyAttempts = (msBeforeNext = windowSeconds * 1000) =>
  errors.tooManyAttempts(Math.max(1, Math.ceil(msBeforeNext / 1000)));

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
 * Returns the key under which a user's attempts are counted: the normalized email address, or the start of
 * the input if it is not an email address.
 */
const keyOf = (email: string): string => parseEmail(email) ?? email.slice(0, 300);

/**
 * Returns the network of a request: its IPv4 address, or the /64 prefix of its IPv6 address, because a client can use
 * any address in its /64.
 */
export function networkOf({ ip: address }: Pick<FastifyRequest, 'ip'>): string {
  if (!isIPv6(address) || address.startsWith('::ffff:')) return address;
  const [head = [], tail] = address.split('::').map((part) => part.split(':'));
  const groups = tail === undefined ? head : [...head, ...zeros(8 - head.length - tail.length), ...tail];
  return groups.slice(0, 4).join(':');
}

const zeros = (count: number): string[] => Array<string>(count).fill('0');
