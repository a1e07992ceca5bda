/** Heartbeats that a worker may miss in a row before it counts as hung. */
const maxMissed = 5;
/** Shortest time that a starting worker gets, in milliseconds: a busy machine loads its code slowly. */
const startMs = 120_000;
/** Heartbeats after which a kill is forgotten. */
const forgottenAfter = 12 * maxMissed;

/** Returns the interval of heartbeats for a limit on a worker's silence, both in milliseconds. */
export const intervalFor = (limitMs: number): number => Math.max(1, Math.floor(limitMs / maxMissed));

/** Returns how many heartbeats a starting worker may miss, for the same limit. */
export const missedAtStartFor = (limitMs: number): number =>
  Math.max(6 * maxMissed, Math.ceil(startMs / intervalFor(limitMs)));

/**
 * Decides which workers hang and whether replacing them helps. Time is counted in heartbeats and not by a clock:
 * after a pause of the whole machine, every worker gets the chance to respond.
 */
export interface Heartbeats<Worker> {
  readonly add: (worker: Worker) => void;
  /** The worker has started and serves. */
  readonly serves: (worker: Worker) => void;
  readonly responded: (worker: Worker) => void;
  readonly remove: (worker: Worker) => void;
  /** Counts a heartbeat. @returns workers to kill and those to ask for the next response */
  readonly beat: () => { readonly hung: readonly Worker[]; readonly others: readonly Worker[] };
  /** Why the process should be restarted; undefined while replacing workers helps. */
  readonly problem: () => string | undefined;
}

/**
 * @param size number of workers that the instance should have
 * @param maxMissedAtStart heartbeats that a starting worker may miss in a row
 */
export function heartbeats<Worker>(size: number, maxMissedAtStart: number): Heartbeats<Worker> {
  const workers = new Map<Worker, { missed: number; serves: boolean; isKilled: boolean }>();
  let kills: readonly number[] = [];
  let now = 0;
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
      now++;
      beatsWithoutResponse++;
      kills = kills.filter((beat) => now - beat < forgottenAfter);
      const hung: Worker[] = [];
      const others: Worker[] = [];
      for (const [worker, state] of workers) {
        if (state.missed++ < limitOf(state)) others.push(worker);
        else if (!state.isKilled) {
          state.isKilled = true;
          kills = [...kills, now];
          hung.push(worker);
        }
      }
      return { hung, others };
    },
    problem: () => {
      for (const state of workers.values()) {
        if (state.isKilled && state.missed > limitOf(state) + maxMissed) return 'a worker cannot be ended';
      }
      if (beatsWithoutResponse > 2 * maxMissed) return 'no worker responds';
      if (kills.length > 2 * size) return 'workers hang again and again';
      return undefined;
    },
  };
}
