import { runOutsideRequests } from '../../../engine/database/index.ts';

/** Maximum number of requests that a key, or a user in an organization, can send within a window. */
export interface RateLimit {
  readonly requests: number;
  /** Length of a window, in milliseconds. On every node, windows start at multiples of this length since 1970. */
  readonly windowMs: number;
}

/** Number of a caller's requests that have not been stored yet. */
export interface UnstoredCounts {
  readonly organization: string;
  readonly caller: string;
  readonly requests: number;
}

/**
 * Adds requests to the counts that all nodes share for a window.
 * @param window start of the window
 * @returns the new counts in batch order, or undefined for callers that already have requests in a later
 * window
 */
type StoreCounts = (
  window: Date,
  batch: readonly UnstoredCounts[],
) => Promise<readonly (number | undefined)[]>;

/**
 * Interval at which this node stores its counts and reads the counts from other nodes, and the shorter delay
 * for a new caller, in milliseconds.
 */
const [settleMs, newCallerMs] = [1000, 50];

/** A caller's request counts in the current window. */
interface Count {
  readonly organization: string;
  readonly caller: string;
  /** Number of requests on all nodes when this node last settled. */
  stored: number;
  /** Number of requests on this node since it last settled. */
  unsettled: number;
}

/** Counts each caller's requests in fixed windows, on all nodes that share a database. */
interface RequestCounts {
  /** Counts a caller's request if the limit allows it. */
  readonly consume: (
    organization: string,
    caller: string,
  ) => { readonly isAllowed: boolean; readonly remaining: number; readonly resetMs: number };
  /** Stores all counts that have not been stored yet. */
  readonly close: () => Promise<void>;
}

/**
 * Creates a request counter. Each node counts on its own and periodically settles its counts with the
 * database, in one statement for all callers. A single node never allows more requests than the limit. All
 * nodes together can exceed the limit by at most the requests that other nodes have allowed since they last
 * settled: within a second or a tenth of the window, or within 50 ms for a caller that is new to a node.
 */
export function requestCounts(
  { requests, windowMs }: RateLimit,
  store: StoreCounts,
  onError: (cause: unknown) => void,
): RequestCounts {
  let window = 0;
  let counts = new Map<string, Count>();
  let timer: NodeJS.Timeout | undefined;
  let settlement: Promise<void> | undefined;

  const settle = async () => {
    const unsettledCounts = [...counts.values()].filter(({ unsettled }) => unsettled > 0);
    if (unsettledCounts.length === 0) return;
    const batch = unsettledCounts.map(({ organization, caller, unsettled }) => ({
      organization,
      caller,
      requests: unsettled,
    }));
    try {
      const sums = await store(new Date(window), batch);
      for (const [index, count] of unsettledCounts.entries()) {
        count.stored = sums[index] ?? count.stored;
        count.unsettled -= batch[index]?.requests ?? 0;
      }
    } catch (cause) {
      onError(cause);
    }
  };
  const schedule = (delayMs: number) => {
    clearTimeout(timer);
    const run = () => {
      settlement = settle().finally(() => {
        [timer, settlement] = [undefined, undefined];
        if ([...counts.values()].some(({ unsettled }) => unsettled > 0)) schedule(regularMs);
      });
    };
    // The timer is not tied to a request, because one statement stores all callers' counts.
    timer = runOutsideRequests(() => setTimeout(run, delayMs).unref());
  };
  const regularMs = Math.min(settleMs, windowMs / 10);

  return {
    consume: (organization, caller) => {
      const now = Date.now();
      const current = now - (now % windowMs);
      // Unstored counts from a past window are no longer needed.
      if (current > window) [window, counts] = [current, new Map()];
      const key = `${organization} ${caller}`;
      const existing = counts.get(key);
      const count = existing ?? { organization, caller, stored: 0, unsettled: 0 };
      if (existing === undefined) counts.set(key, count);
      const remaining = requests - count.stored - count.unsettled;
      const resetMs = window + windowMs - now;
      if (remaining <= 0) return { isAllowed: false, remaining: 0, resetMs };
      count.unsettled++;
      if (settlement === undefined && (timer === undefined || existing === undefined)) {
        schedule(existing === undefined ? newCallerMs : regularMs);
      }
      return { isAllowed: true, remaining: remaining - 1, resetMs };
    },
    close: async () => {
      clearTimeout(timer);
      await settlement;
      clearTimeout(timer);
      await settle();
    },
  };
}
