import { LRUCache } from 'lru-cache';
import { databaseFailure } from './failures.ts';

/** How long a look-up may be used: well under the second after which a withdrawn right may not work any more. */
const freshMs = 700;

/** Look-ups that are made at most once at a time for each key, however many requests ask, and kept for a moment. */
export interface TtlCache<T> {
  /**
   * Returns the cached value if it is fresh; otherwise looks it up.
   * @throws HttpError 500 (also as rejection) when the database does not answer
   */
  readonly get: (key: string) => T | undefined | Promise<T | undefined>;
  /** Forgets a key that this node has just changed. */
  readonly forget: (key: string) => void;
}

/** Caches what `find` returns, also that there is nothing. Bounded; the oldest go first. */
export function ttlCache<T extends object>(find: (key: string) => Promise<T | undefined>): TtlCache<T> {
  const known = new LRUCache<string, { readonly value: T | undefined }>({ max: 10_000, ttl: freshMs });
  const pending = new Map<string, Promise<T | undefined>>();
  const lookUp = async (key: string): Promise<T | undefined> => {
    // A result is as old as its question.
    const start = performance.now();
    try {
      const value = await find(key);
      known.set(key, { value }, { start });
      return value;
    } catch (cause) {
      throw databaseFailure(cause);
    } finally {
      pending.delete(key);
    }
  };
  return {
    get: (key) => {
      const fresh = known.get(key);
      if (fresh !== undefined) return fresh.value;
      const running = pending.get(key) ?? lookUp(key);
      pending.set(key, running);
      return running;
    },
    forget: (key) => known.delete(key),
  };
}
