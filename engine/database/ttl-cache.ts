import { LRUCache } from 'lru-cache';
import { databaseFailure } from './failures.ts';
import { runShared } from './requests.ts';

/** Time to live, in milliseconds: a revoked permission must stop working within a second. */
const freshMs = 700;

/** A cache with a time to live; concurrent requests for a key share one look-up. */
export interface TtlCache<T> {
  /**
   * Returns the cached value if it is fresh; otherwise looks it up.
   * @throws HttpError 500 (also as rejection) if the database does not respond
   */
  readonly get: (key: string) => T | undefined | Promise<T | undefined>;
  /** Removes a key that this node has changed. */
  readonly forget: (key: string) => void;
}

/** Look-ups in the caches of one name since startup. */
export interface CacheCounts {
  /** Look-ups served from the cache. */
  hits: number;
  /** Look-ups that queried the database, or waited for such a query. */
  misses: number;
}

const counts = new Map<string, CacheCounts>();

/** Returns the look-ups of all caches in this process, by name. */
export const cacheCounts = (): ReadonlyMap<string, Readonly<CacheCounts>> => counts;

/**
 * Caches the results of `find`, including undefined. Its size is limited; the oldest entries are removed first.
 * @param name name in metrics
 */
export function ttlCache<T extends object>(
  name: string,
  find: (key: string) => Promise<T | undefined>,
): TtlCache<T> {
  const count = counts.get(name) ?? { hits: 0, misses: 0 };
  counts.set(name, count);
  const known = new LRUCache<string, { readonly value: T | undefined }>({ max: 10_000, ttl: freshMs });
  const pending = new Map<string, Promise<T | undefined>>();
  const lookUp = async (key: string): Promise<T | undefined> => {
    // The age of a result counts from the start of its look-up.
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
      if (fresh !== undefined) {
        count.hits++;
        return fresh.value;
      }
      count.misses++;
      const running = pending.get(key) ?? runShared(() => lookUp(key));
      pending.set(key, running);
      return running;
    },
    forget: (key) => known.delete(key),
  };
}
