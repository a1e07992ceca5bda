import { LRUCache } from 'lru-cache';
import { databaseFailure } from './failures.ts';
import { runShared } from './requests.ts';

/** Time to live, in milliseconds. A revoked permission must take effect within a second. */
const freshMs = 700;

/** A cache with a time to live. Concurrent requests for a key share one lookup. */
export interface TtlCache<T, K = string> {
  /**
   * Returns the cached value if it is fresh, otherwise looks it up.
   * @throws HttpError 500, directly or as a rejection, if the database does not respond
   */
  readonly get: (key: K) => T | undefined | Promise<T | undefined>;
  /** Removes a key whose value this node has changed. */
  readonly forget: (key: K) => void;
}

/** Number of lookups in all caches with the same name since startup. */
export interface CacheCounts {
  /** Lookups answered by the cache. */
  hits: number;
  /** Lookups that queried the database or waited for such a query. */
  misses: number;
}

const counts = new Map<string, CacheCounts>();

/** Returns the lookup counts of all caches in this process, by name. */
export const cacheCounts = (): ReadonlyMap<string, Readonly<CacheCounts>> => counts;

/** Options of {@link ttlCache}. */
interface CacheOptions<K> {
  /**
   * Returns the ID of the organization for which a key's lookup needs a slot. By default, lookups belong to no
   * organization, because requests of different organizations, or requests whose organization is still unknown, can wait
   * for the same lookup.
   */
  readonly ownerOf?: (key: K) => string;
  /** Returns a text that only equal keys have. By default, keys are texts. */
  readonly textOf?: (key: K) => string;
}

/**
 * Caches the results of `find`, including undefined. If the cache is full, the least recently used entry is
 * evicted.
 * @param name the cache's name in metrics
 */
export function ttlCache<T extends object, K = string>(
  name: string,
  find: (key: K) => Promise<T | undefined>,
  { ownerOf = () => '', textOf = String }: CacheOptions<K> = {},
): TtlCache<T, K> {
  const count = counts.get(name) ?? { hits: 0, misses: 0 };
  counts.set(name, count);
  const cache = new LRUCache<string, { readonly value: T | undefined }>({ max: 10_000, ttl: freshMs });
  const pending = new Map<string, Promise<T | undefined>>();
  const lookUp = async (key: K, text: string): Promise<T | undefined> => {
    // A value's age is measured from the start of its lookup.
    const start = performance.now();
    try {
      const value = await find(key);
      cache.set(text, { value }, { start });
      return value;
    } catch (cause) {
      throw databaseFailure(cause);
    } finally {
      pending.delete(text);
    }
  };
  return {
    get: (key) => {
      const text = textOf(key);
      const cached = cache.get(text);
      if (cached !== undefined) {
        count.hits++;
        return cached.value;
      }
      count.misses++;
      const lookup = pending.get(text) ?? runShared(ownerOf(key), () => lookUp(key, text));
      pending.set(text, lookup);
      return lookup;
    },
    forget: (key) => cache.delete(textOf(key)),
  };
}
