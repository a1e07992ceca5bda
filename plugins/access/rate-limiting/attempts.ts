import { setTimeout as pause } from 'node:timers/promises';
import { errors } from '../../../engine/errors.ts';
import { failureCounter, windowSeconds } from './counter.ts';

/** Maximum delay before a slowed-down attempt, in milliseconds. */
const maxDelayMs = 5000;

/**
 * Limits failed attempts per key, including concurrent ones. Failures are counted for the whole node, and attempts in
 * flight for this process.
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

/** The limits of {@link Attempts}. */
interface AttemptLimits {
  /** Maximum number of failures within the window. */
  readonly failures: number;
  /** Maximum number of attempts per key waiting at the same time. */
  readonly waiting: number;
  /** If true, attempts beyond the limit run one at a time after a growing delay, instead of being rejected. */
  readonly slowDown?: boolean;
}

/** State of one key's attempts. */
interface KeyState {
  /** Number of calls of `run` that use this object. */
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
        // Counted before others are admitted, which can happen before the caller continues.
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
