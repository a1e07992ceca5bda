import { errors } from '../errors.ts';
import type { Lane } from '../sql/index.ts';

/** How many at the same time: of each organization, and in total. */
export interface Bound {
  readonly each: number;
  readonly total: number;
}

/** The bounds of an {@link Admission}. */
export interface Bounds {
  /** Statements that run at the same time; a lane's must fit all its bounds. Several lanes may share a bound. */
  readonly lanes: Readonly<Record<Lane, readonly Bound[]>>;
  /** Statements that wait in one lane. */
  readonly queue: Bound;
  /** Bytes of responses that their readers have not taken yet. */
  readonly bytes: Bound;
  /** The longest wait for a turn, in milliseconds. */
  readonly waitMs: number;
}

/** Decides when statements run, so that no organization uses up what others need. */
export interface Admission {
  /**
   * Runs work in a lane when it is the organization's turn. Waiting organizations take turns.
   * @throws HttpError 503 `overloaded` when too many wait already, or the turn does not come in time
   */
  readonly run: <T>(lane: Lane, organization: string, work: () => Promise<T>) => Promise<T>;
  /**
   * Counts bytes held in memory for an organization; while it, or all together, hold too many, none of its
   * statements starts. An organization that holds nothing is never kept waiting for others' readers.
   * @returns ends the count; calling it again does nothing
   */
  readonly hold: (organization: string, bytes: number) => () => void;
}

interface Waiting {
  readonly start: () => void;
}

/** Makes an admission. It belongs to one process; nodes count for themselves. */
export function admission({ lanes, queue, bytes, waitMs }: Bounds): Admission {
  const gates = new Map(
    [...new Set(Object.values(lanes).flat())].map((bound) => [bound, counter()] as const),
  );
  const held = counter();
  const queues = (Object.keys(lanes) as Lane[]).map((lane) => ({
    lane,
    size: 0,
    // In the order of their turns: an organization that was served goes to the end.
    byOrganization: new Map<string, Waiting[]>(),
  }));
  const queueOf = Object.fromEntries(queues.map((each) => [each.lane, each])) as Record<
    Lane,
    (typeof queues)[number]
  >;
  let waiting = 0;

  const fits = (lane: Lane, organization: string): boolean => {
    const heldBytes = held.of(organization);
    if (heldBytes > 0 && (heldBytes >= bytes.each || held.total() >= bytes.total)) return false;
    return lanes[lane].every((bound) => {
      const running = gates.get(bound);
      return running !== undefined && running.of(organization) < bound.each && running.total() < bound.total;
    });
  };
  const count = (lane: Lane, organization: string, change: 1 | -1): void => {
    for (const bound of lanes[lane]) gates.get(bound)?.add(organization, change);
  };

  /** Starts the first in a lane whose organization has room. @returns whether there was one */
  const startNext = ({ lane, byOrganization }: (typeof queues)[number]): boolean => {
    for (const [organization, [first]] of byOrganization) {
      if (first === undefined || !fits(lane, organization)) continue;
      const remaining = leaveQueue(lane, organization, first);
      byOrganization.delete(organization);
      if (remaining.length > 0) byOrganization.set(organization, remaining);
      count(lane, organization, 1);
      first.start();
      return true;
    }
    return false;
  };
  const startAll = (): void => {
    while (waiting > 0) {
      // Lanes may share a bound, so they take turns too.
      const index = queues.findIndex((each) => each.size > 0 && startNext(each));
      if (index < 0) return;
      queues.push(...queues.splice(index, 1));
    }
  };

  /** Removes an entry from its queue. @returns the entries of its organization that still wait */
  const leaveQueue = (lane: Lane, organization: string, entry: Waiting): Waiting[] => {
    const { byOrganization } = queueOf[lane];
    const queued = byOrganization.get(organization) ?? [];
    queued.splice(queued.indexOf(entry), 1);
    if (queued.length === 0) byOrganization.delete(organization);
    queueOf[lane].size--;
    waiting--;
    return queued;
  };
  const waitInQueue = (lane: Lane, organization: string): Promise<void> => {
    const queued = queueOf[lane].byOrganization.get(organization) ?? [];
    if (queued.length >= queue.each || queueOf[lane].size >= queue.total) throw errors.overloaded();
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        start: () => {
          clearTimeout(late);
          resolve();
        },
      };
      const late = setTimeout(() => {
        leaveQueue(lane, organization, entry);
        reject(errors.overloaded());
      }, waitMs).unref();
      queued.push(entry);
      queueOf[lane].byOrganization.set(organization, queued);
      queueOf[lane].size++;
      waiting++;
    });
  };

  return {
    run: async (lane, organization, work) => {
      if (fits(lane, organization)) count(lane, organization, 1);
      else await waitInQueue(lane, organization);
      try {
        return await work();
      } finally {
        count(lane, organization, -1);
        startAll();
      }
    },
    hold: (organization, size) => {
      held.add(organization, size);
      let ended = false;
      return () => {
        if (ended) return;
        ended = true;
        held.add(organization, -size);
        startAll();
      };
    },
  };
}

/** Counts for each organization and in all; forgets an organization that is back at zero. */
function counter() {
  const counts = new Map<string, number>();
  let total = 0;
  return {
    of: (organization: string): number => counts.get(organization) ?? 0,
    total: (): number => total,
    add: (organization: string, change: number): void => {
      const now = (counts.get(organization) ?? 0) + change;
      if (now === 0) counts.delete(organization);
      else counts.set(organization, now);
      total += change;
    },
  };
}
