import { runOutsideRequests } from '../../../engine/database/index.ts';

/** How many requests a key, or a person in an organization, may send. */
export interface RateLimit {
  readonly requests: number;
  /** All windows begin at multiples of it since 1970, on every node. */
  readonly windowMs: number;
}

/** Requests of a caller that are not stored yet. */
export interface UnstoredCounts {
  readonly organization: string;
  readonly caller: string;
  readonly requests: number;
}

/**
 * Adds to what all nodes have stored for a window.
 * @param window when it began
 * @returns the sums, in the order of `taken`; undefined for one of a later window
 */
export type StoreCounts = (
  window: Date,
  taken: readonly UnstoredCounts[],
) => Promise<readonly (number | undefined)[]>;

/** How often this node stores its counts and learns those of others, in milliseconds, and how soon for a new caller. */
const [settleMs, soonMs] = [1000, 50];

/** A caller's requests of the current window. */
interface Count {
  readonly organization: string;
  readonly caller: string;
  /** What all nodes had stored when this one did last. */
  stored: number;
  /** Of this node since then. */
  unsettled: number;
}

/** Counts the requests of each caller in fixed windows, on all nodes that share a database. */
export interface RequestCounts {
  /** Counts a request if there is one left. */
  readonly take: (
    organization: string,
    caller: string,
  ) => { readonly isAllowed: boolean; readonly left: number; readonly resetMs: number };
  /** Stores the rest. */
  readonly close: () => Promise<void>;
}

/**
 * Each node counts by itself and settles with the database now and then, in one statement for all callers. So a node never
 * allows more than the limit, and all nodes together exceed it at most by what the others allowed since they settled: within
 * a second, or a tenth of the window, and 50 ms for a caller that this node has not seen in the window.
 */
export function requestCounts(
  { requests, windowMs }: RateLimit,
  store: StoreCounts,
  failed: (cause: unknown) => void,
): RequestCounts {
  let window = 0;
  let counts = new Map<string, Count>();
  let timer: NodeJS.Timeout | undefined;
  let settling: Promise<void> | undefined;

  const settle = async () => {
    const all = [...counts.values()].filter(({ unsettled }) => unsettled > 0);
    if (all.length === 0) return;
    const taken = all.map(({ organization, caller, unsettled }) => ({
      organization,
      caller,
      requests: unsettled,
    }));
    try {
      const sums = await store(new Date(window), taken);
      for (const [index, count] of all.entries()) {
        count.stored = sums[index] ?? count.stored;
        count.unsettled -= taken[index]?.requests ?? 0;
      }
    } catch (cause) {
      failed(cause);
    }
  };
  const schedule = (delayMs: number) => {
    clearTimeout(timer);
    const begin = () => {
      settling = settle().finally(() => {
        [timer, settling] = [undefined, undefined];
        if ([...counts.values()].some(({ unsettled }) => unsettled > 0)) schedule(regularMs);
      });
    };
    // One statement covers all callers.
    timer = runOutsideRequests(() => setTimeout(begin, delayMs).unref());
  };
  const regularMs = Math.min(settleMs, windowMs / 10);

  return {
    take: (organization, caller) => {
      const now = Date.now();
      const current = now - (now % windowMs);
      // What is not stored of a window that is over is of no use.
      if (current > window) [window, counts] = [current, new Map()];
      const key = `${organization} ${caller}`;
      const known = counts.get(key);
      const count = known ?? { organization, caller, stored: 0, unsettled: 0 };
      if (known === undefined) counts.set(key, count);
      const left = requests - count.stored - count.unsettled;
      const resetMs = window + windowMs - now;
      if (left <= 0) return { isAllowed: false, left: 0, resetMs };
      count.unsettled++;
      if (settling === undefined && (timer === undefined || known === undefined)) {
        schedule(known === undefined ? soonMs : regularMs);
      }
      return { isAllowed: true, left: left - 1, resetMs };
    },
    close: async () => {
      clearTimeout(timer);
      await settling;
      clearTimeout(timer);
      await settle();
    },
  };
}
