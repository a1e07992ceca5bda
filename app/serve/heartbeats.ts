/** Number of consecutive missed heartbeats after which a worker counts as hung. */
const maxMissed = 5;
/** Minimum startup timeout of a worker, in milliseconds. Loading the code is slow on a busy machine. */
const minStartMs = 120_000;
/** Number of heartbeats after which a killed worker no longer counts as recently killed. */
const killWindow = 12 * maxMissed;

/** Returns the heartbeat interval for a worker timeout, both in milliseconds. */
export const intervalFor = (limitMs: number): number => Math.max(1, Math.floor(limitMs / maxMissed));

/** Returns the number of heartbeats that a starting worker can miss, given a worker timeout in milliseconds. */
export const missedAtStartFor = (limitMs: number): number =>
  Math.max(6 * maxMissed, Math.ceil(minStartMs / intervalFor(limitMs)));

/**
 * Detects hung workers and whether replacing them helps. Counts heartbeats instead of measuring time, so that
 * workers do not count as hung just because the machine was suspended.
 */
interface Heartbeats<Worker> {
  readonly add: (worker: Worker) => void;
  /** Records that a worker has started and serves requests. */
  readonly serves: (worker: Worker) => void;
  readonly responded: (worker: Worker) => void;
  readonly remove: (worker: Worker) => void;
  /** Counts a heartbeat. @returns hung workers to kill, and other workers to ping */
  readonly beat: () => { readonly hung: readonly Worker[]; readonly others: readonly Worker[] };
  /**
   * Returns the reason the whole process should be restarted, or undefined if replacing workers is
   * sufficient.
   */
  readonly problem: () => string | undefined;
}

/**
 * Creates a detector for hung workers.
 * @param size configured number of workers
 * @param maxMissedAtStart number of consecutive heartbeats that a starting worker can miss
 */
export function heartbeats<Worker>(size: number, maxMissedAtStart: number): Heartbeats<Worker> {
  const workers = new Map<Worker, { missed: number; serves: boolean; isKilled: boolean }>();
  let kills: readonly number[] = [];
  let currentBeat = 0;
  let beatsWithoutResponse = 0;

  const update = (worker: Worker, change: Partial<{ missed: number; serves: boolean }>) => {
    const state = workers.get(worker);
    if (state !== undefined) Object.assign(state, change);
  };
  const limitOf = ({ serves }: { serves: boolean }) => (serves ? maxMissed : maxMissedAtStart);

  return {
    add: (worker) => void workers.set(worker, { missed: 0, serves: false, isKilled: false }),
    serves: (worker) => update(worker, { missed: 0, serves: true }),
    responded: (worker) => {
      beatsWithoutResponse = 0;
      update(worker, { missed: 0 });
    },
    remove: (worker) => void workers.delete(worker),
    beat: () => {
      currentBeat++;
      beatsWithoutResponse++;
      kills = kills.filter((beat) => currentBeat - beat < killWindow);
      const hung: Worker[] = [];
      const others: Worker[] = [];
      for (const [worker, state] of workers) {
        if (state.missed++ < limitOf(state)) others.push(worker);
        else if (!state.isKilled) {
          state.isKilled = true;
          kills = [...kills, currentBeat];
          hung.push(worker);
        }
      }
      return { hung, others };
    },
    problem: () => {
      for (const state of workers.values()) {
        if (state.isKilled && state.missed > limitOf(state) + maxMissed) return 'a worker cannot be stopped';
      }
      if (beatsWithoutResponse > 2 * maxMissed) return 'no worker responds';
      if (kills.length > 2 * size) return 'workers hang repeatedly';
      return undefined;
    },
  };
}
