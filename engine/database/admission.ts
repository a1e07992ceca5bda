import { errors } from '../errors.ts';
import type { Lane } from '../sql/index.ts';
import { cancellingRequest, runAdmitted } from './requests.ts';

/** Maximum concurrency, per organization and in total. */
export interface LaneLimit {
  readonly perOrganization: number;
  readonly total: number;
}

/**
 * Scheduling classes, each with its own limits and queue:
 * - `short read`, `short list`, `short write`: statements on shared connections, which do not occupy a pooled
 *   one. The limit for lists is lower, because their results are larger.
 * - `read`, `list`, `write`: statements on pooled connections. Lists have their own pool. Writes leave
 *   connections to reads, because they can wait for locks. Later pages are admitted as `list`.
 * - `batch`, `scan`, `aggregate`, `export`: statements that take much longer than the others on the same connections.
 * - `module`: a module's statement or transaction, for example for a page. It has the limits of writes, but
 *   does not wait behind the organization's queue of writes.
 * - `lookup`: work before the organization is known, for example to authenticate a key. Its connections are
 *   reserved, so that no organization can prevent others from logging in.
 * - `stream`: sends or receives many records, and occasionally runs a statement in another lane.
 */
export type AdmissionLane =
  | Exclude<Lane, 'deep'>
  | 'short read'
  | 'short list'
  | 'short write'
  | 'stream'
  | 'module'
  | 'lookup';

/** Lanes whose waiting work is cancelled if the client disconnects. Waiting writes still run. */
const cancellableLanes: ReadonlySet<AdmissionLane> = new Set<AdmissionLane>([
  'short read',
  'short list',
  'read',
  'list',
  'scan',
  'aggregate',
  'export',
]);

/** Limits for an {@link Admission}. */
export interface AdmissionLimits {
  /** Concurrency limits by lane. A statement must satisfy all limits of its lane; lanes can share a limit. */
  readonly lanes: Readonly<Record<AdmissionLane, readonly LaneLimit[]>>;
  /** Limit on statements waiting in a lane. */
  readonly queue: LaneLimit;
  /** Limit on unread response bytes. */
  readonly bytes: LaneLimit;
  /**
   * Maximum wait, in milliseconds. If this process stalled during a wait, the wait is extended once by the
   * same amount.
   */
  readonly waitMs: number;
}

/** Schedules statements so that no organization can starve the others. */
export interface Admission {
  /**
   * Runs work when the organization gets a slot. Waiting organizations take turns.
   * @throws HttpError 503 `overloaded` if too many statements are waiting or the wait takes too long; 400 if
   * the client of a read has disconnected
   */
  readonly run: <T>(lane: AdmissionLane, organization: string, work: () => Promise<T>) => Promise<T>;
  /**
   * Counts bytes that an organization holds in memory. While the organization exceeds its limit, or all
   * organizations together exceed the total, none of its statements are started. An organization that holds
   * no bytes never waits for other organizations' readers.
   * @returns a function that stops counting the bytes; further calls do nothing
   */
  readonly hold: (organization: string, bytes: number) => () => void;
  /** Returns the current load. */
  readonly load: () => AdmissionLoad;
}

/** The running and waiting statements of a lane. */
export interface LaneLoad {
  readonly lane: AdmissionLane;
  readonly running: number;
  /** Maximum concurrency, which can be shared with other lanes. */
  readonly limit: number;
  readonly waiting: number;
  /**
   * Number of organizations with waiting statements, and how many of them are waiting because of their own
   * limit.
   */
  readonly organizations: number;
  readonly limited: number;
  /** Largest number of waiting statements from a single organization. */
  readonly longestQueue: number;
  /** Statements rejected since startup because the queue was full, and because the wait was too long. */
  readonly queueFull: number;
  readonly timedOut: number;
}

/** Load of an {@link Admission}. */
export interface AdmissionLoad {
  readonly lanes: readonly LaneLoad[];
  /** Number of bytes held in memory for readers, and its limit. */
  readonly bytes: number;
  readonly byteLimit: number;
}

/** Timer delay that indicates a stalled process, in milliseconds. */
const stallMs = 100;

/** Creates this process's {@link Admission}. Each process has its own. */
export function createAdmission({ lanes, queue, bytes, waitMs }: AdmissionLimits): Admission {
  const gates = new Map(
    [...new Set(Object.values(lanes).flat())].map((limit) => [limit, counter()] as const),
  );
  const heldBytes = counter();
  const queues = (Object.keys(lanes) as AdmissionLane[]).map((lane) => ({
    lane,
    running: 0,
    size: 0,
    queueFull: 0,
    timedOut: 0,
    // Organizations in scheduling order. After an organization is served, it moves to the end.
    byOrganization: new Map<string, (() => void)[]>(),
  }));
  const queueOf = Object.fromEntries(queues.map((queue) => [queue.lane, queue])) as Record<
    AdmissionLane,
    (typeof queues)[number]
  >;
  let waitingCount = 0;

  const fits = (lane: AdmissionLane, organization: string): boolean => {
    const size = heldBytes.of(organization);
    if (size > 0 && (size >= bytes.perOrganization || heldBytes.total() >= bytes.total)) return false;
    return lanes[lane].every((limit) => {
      const running = gates.get(limit);
      return (
        running !== undefined &&
        running.of(organization) < limit.perOrganization &&
        running.total() < limit.total
      );
    });
  };
  const count = (lane: AdmissionLane, organization: string, change: 1 | -1): void => {
    for (const limit of lanes[lane]) gates.get(limit)?.add(organization, change);
    queueOf[lane].running += change;
  };

  /** Returns whether an organization has reached its own limit in a lane. */
  const isAtLimit = (lane: AdmissionLane, organization: string): boolean =>
    heldBytes.of(organization) >= bytes.perOrganization ||
    lanes[lane].some((limit) => (gates.get(limit)?.of(organization) ?? 0) >= limit.perOrganization);

  /**
   * Starts the first waiting statement that fits its lane's limits. @returns whether a statement was started
   */
  const startNext = ({ lane, byOrganization }: (typeof queues)[number]): boolean => {
    for (const [organization, [start]] of byOrganization) {
      if (start === undefined || !fits(lane, organization)) continue;
      const remaining = leaveQueue(lane, organization, start);
      byOrganization.delete(organization);
      if (remaining.length > 0) byOrganization.set(organization, remaining);
      count(lane, organization, 1);
      start();
      return true;
    }
    return false;
  };
  const startAll = (): void => {
    while (waitingCount > 0) {
      // Lanes can share a limit, so they take turns too.
      const index = queues.findIndex((candidate) => candidate.size > 0 && startNext(candidate));
      if (index < 0) return;
      queues.push(...queues.splice(index, 1));
    }
  };

  /** Removes an entry from its queue. @returns the organization's remaining entries */
  const leaveQueue = (lane: AdmissionLane, organization: string, start: () => void): (() => void)[] => {
    const { byOrganization } = queueOf[lane];
    const entries = byOrganization.get(organization) ?? [];
    entries.splice(entries.indexOf(start), 1);
    if (entries.length === 0) byOrganization.delete(organization);
    queueOf[lane].size--;
    waitingCount--;
    return entries;
  };
  const waitInQueue = (lane: AdmissionLane, organization: string): Promise<void> => {
    const entries = queueOf[lane].byOrganization.get(organization) ?? [];
    if (entries.length >= queue.perOrganization || queueOf[lane].size >= queue.total) {
      queueOf[lane].queueFull++;
      throw errors.overloaded();
    }
    return new Promise((resolve, reject) => {
      const removeListener = cancellableLanes.has(lane)
        ? cancellingRequest()?.onDisconnect(() => {
            clearTimeout(timer);
            leaveQueue(lane, organization, start);
            reject(errors.incompleteRequest());
          })
        : undefined;
      const start = () => {
        removeListener?.();
        clearTimeout(timer);
        resolve();
      };
      const rejectLate = () => {
        removeListener?.();
        leaveQueue(lane, organization, start);
        queueOf[lane].timedOut++;
        reject(errors.overloaded());
      };
      const deadline = performance.now() + waitMs;
      let timer = setTimeout(() => {
        if (performance.now() - deadline < stallMs) return rejectLate();
        // No slot could become free while this process was stalled, so wait once more.
        timer = setTimeout(rejectLate, waitMs).unref();
      }, waitMs).unref();
      entries.push(start);
      queueOf[lane].byOrganization.set(organization, entries);
      queueOf[lane].size++;
      waitingCount++;
    });
  };

  return {
    run: async (lane, organization, work) => {
      if (cancellableLanes.has(lane) && cancellingRequest()?.isDisconnected) throw errors.incompleteRequest();
      if (fits(lane, organization)) count(lane, organization, 1);
      else await waitInQueue(lane, organization);
      try {
        // A stream does not occupy a connection. Each of its statements needs its own slot.
        return await (lane === 'stream' ? work() : runAdmitted(work));
      } finally {
        count(lane, organization, -1);
        startAll();
      }
    },
    hold: (organization, size) => {
      heldBytes.add(organization, size);
      let isReleased = false;
      return () => {
        if (isReleased) return;
        isReleased = true;
        heldBytes.add(organization, -size);
        startAll();
      };
    },
    load: () => ({
      lanes: queues.map(({ lane, running, size, byOrganization, queueFull, timedOut }) => ({
        lane,
        running,
        limit: Math.min(...lanes[lane].map(({ total }) => total)),
        waiting: size,
        organizations: byOrganization.size,
        limited: [...byOrganization.keys()].filter((organization) => isAtLimit(lane, organization)).length,
        longestQueue: Math.max(0, ...[...byOrganization.values()].map(({ length }) => length)),
        queueFull,
        timedOut,
      })),
      bytes: heldBytes.total(),
      byteLimit: bytes.total,
    }),
  };
}

/**
 * Creates a counter with counts per organization and in total. An organization's entry is deleted when its
 * count returns to zero.
 */
function counter() {
  const counts = new Map<string, number>();
  let total = 0;
  return {
    of: (organization: string): number => counts.get(organization) ?? 0,
    total: (): number => total,
    add: (organization: string, change: number): void => {
      const newCount = (counts.get(organization) ?? 0) + change;
      if (newCount === 0) counts.delete(organization);
      else counts.set(organization, newCount);
      total += change;
    },
  };
}
