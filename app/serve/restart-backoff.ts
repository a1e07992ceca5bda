/** Deaths of workers that follow each other this fast count together, in milliseconds. */
const togetherMs = 30_000;
/** Number of exits in a row that stop an instance without serving workers. */
const maxDeaths = 8;
/** The delay of the first replacement, and the longest: each takes twice as long as the one before. In milliseconds. */
const [firstDelayMs, longestDelayMs] = [100, 10_000];

/** Decides how long to wait before a worker that died is replaced. */
export interface RestartBackoff {
  /**
   * Counts a death.
   * @param now in milliseconds, by any clock that does not jump
   * @param othersServe whether other workers serve
   * @returns the delay in milliseconds, or undefined if workers exit too often to continue
   */
  readonly next: (now: number, othersServe: boolean) => number | undefined;
}

/** Replaces a worker that dies occasionally immediately. If workers keep dying, the delay grows, and finally they are not replaced. */
export function restartBackoff(): RestartBackoff {
  let deaths = 0;
  let last = Number.NEGATIVE_INFINITY;
  return {
    next: (now, othersServe) => {
      deaths = now - last > togetherMs ? 1 : deaths + 1;
      last = now;
      if (deaths > maxDeaths && !othersServe) return undefined;
      return Math.min(firstDelayMs * 2 ** (deaths - 1), longestDelayMs);
    },
  };
}
