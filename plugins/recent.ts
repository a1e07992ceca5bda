import { LRUCache } from 'lru-cache';
import { databaseFailure } from '../engine/database/index.ts';

/** How long a look-up may be used: well under the second after which a withdrawn right may not work any more. */
const freshMs = 700;

/** Look-ups that are made at most once for each key and moment, however many requests ask. Bounded. */
export interface Recent<T> {
  /**
   * What the key stands for; at once where it was looked up within the last moment.
   * @throws HttpError 500 (also as rejection) when the database does not answer
   */
  readonly get: (key: string) => T | undefined | Promise<T | undefined>;
  /** Forgets a key that this node has just changed. */
  readonly forget: (key: string) => void;
}

/** Keeps the answers of `find` for a moment, also that there is none. */
export function recent<T extends object>(find: (key: string) => Promise<T | undefined>): Recent<T> {
  const known = new LRUCache<string, { readonly value: T | undefined }>({ max: 10_000, ttl: freshMs });
  const pending = new Map<string, Promise<T | undefined>>();
  const lookUp = async (key: string): Promise<T | undefined> => {
    // The answer is as old as the question.
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
