/** Maximum time between two exits that count as consecutive, in milliseconds. */
const inARowMs = 30_000;
/** Number of consecutive exits after which an instance without serving workers stops. */
const maxExits = 8;
/** Delay before the first restart, which doubles with each exit, and maximum delay, both in milliseconds. */
const [firstDelayMs, longestDelayMs] = [100, 10_000];

/** Calculates restart delays for workers that exit repeatedly. */
interface RestartBackoff {
  /**
   * Counts an exit.
   * @param now time of a monotonic clock in milliseconds
   * @param othersServe whether other workers are serving
   * @returns the delay in milliseconds, or undefined if workers exit too often to be restarted
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
