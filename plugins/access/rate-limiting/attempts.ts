import { setTimeout as pause } from 'node:timers/promises';
import { errors } from '../../../engine/errors.ts';
import { failureCounter, windowSeconds } from './counter.ts';

/** The longest delay of an attempt that is slowed down, in milliseconds. */
const longestPauseMs = 5000;

/** Bounds failed attempts for each key, also of concurrent ones: failures on this node, those in flight in this process. */
export interface Attempts {
  /**
   * Runs an attempt; undefined means that it failed. Attempts in flight never exceed the failures that are left, and
   * the rest wait for them, so that any number of concurrent successes pass.
   * @throws HttpError 429 with Retry-After if no failure is left, or too many wait
   */
  readonly run: <T>(key: string, attempt: () => Promise<T | undefined>) => Promise<T | undefined>;
  /** How many keys have attempts in flight or waiting. */
  readonly busy: () => number;
}

/** The limits of {@link Attempts}. */
export interface AttemptLimits {
  /** Failures within the window. */
  readonly failures: number;
  /** Attempts of one key that may wait at a time. */
  readonly waiting: number;
  /** Beyond the failures, attempts run one at a time, each after a growing pause, instead of being refused. */
  readonly slowDown?: boolean;
}

/** The attempts of a key in flight. */
interface Place {
  /** Calls that hold this object. */
  calls: number;
  running: number;
  readonly queue: (() => void)[];
}

/** @param name of what is counted, unique within the process */
export function attempts(name: string, { failures, waiting, slowDown = false }: AttemptLimits): Attempts {
  const failed = failureCounter(name, failures);
  const places = new Map<string, Place>();

  /** Waits until the attempt can run, and counts it as running. @returns the failures that are left, at most 0 if it is slowed down */
  const admitted = async (key: string, place: Place): Promise<number> => {
    for (;;) {
      const record = await failed.get(key);
      const left = failures - (record?.consumedPoints ?? 0);
      if (left <= 0 && !slowDown) throw refusal(record?.msBeforeNext);
      if (place.running < (slowDown ? Math.max(left, 1) : left)) {
        // Counted before others are admitted, which can happen before the caller continues.
        place.running++;
        return left;
      }
      if (place.queue.length >= waiting) throw refusal(1000);
      await new Promise<void>((resolve) => place.queue.push(resolve));
    }
  };

  return {
    busy: () => places.size,
    run: async (key, attempt) => {
      const place = places.get(key) ?? { calls: 0, running: 0, queue: [] };
      places.set(key, place);
      place.calls++;
      try {
        const left = await admitted(key, place);
        try {
          if (left <= 0) await pause(Math.min(1000 * 2 ** -left, longestPauseMs));
          const result = await attempt();
          if (result === undefined) await failed.penalty(key);
          else if (slowDown) await failed.delete(key);
          return result;
        } finally {
          place.running--;
        }
      } finally {
        place.calls--;
        if (place.calls === 0) places.delete(key);
        place.queue.shift()?.();
      }
    },
  };
}

const refusal = (msBeforeNext = windowSeconds * 1000) =>
  errors.throttled(Math.max(1, Math.ceil(msBeforeNext / 1000)));
