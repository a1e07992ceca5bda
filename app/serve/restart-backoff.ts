/** Maximum time between two exits in a row, in milliseconds. */
const inARowMs = 30_000;
/** Number of exits in a row that stop an instance without serving workers. */
const maxExits = 8;
/** Delay of the first restart, which doubles with each exit, and maximum delay, in milliseconds. */
const [firstDelayMs, longestDelayMs] = [100, 10_000];

/** Delays restarts of workers that exit repeatedly. */
export interface RestartBackoff {
  /**
   * Counts an exit.
   * @param now time of a monotonic clock in milliseconds
   * @param othersServe whether other workers serve
   * @returns the delay in milliseconds, or undefined if workers exit too often to continue
   */
  readonly next: (now: number, othersServe: boolean) => number | undefined;
}

/**
 * Creates a backoff with exponentially growing delays. A worker that exits occasionally is restarted after the shortest
 * delay.
 */
export function restartBackoff(): RestartBackoff {
  let exits = 0;
  let lastExit = Number.NEGATIVE_INFINITY;
  return {
    next: (now, othersServe) => {
      exits = now - lastExit > inARowMs ? 1 : exits + 1;
      lastExit = now;
      if (exits > maxExits && !othersServe) return undefined;
      return Math.min(firstDelayMs * 2 ** (exits - 1), longestDelayMs);
    },
  };
}
