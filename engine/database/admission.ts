import { errors } from '../errors.ts';
import type { Lane } from '../sql/index.ts';
import { cancellingRequest, runAdmitted, slotOwner } from './requests.ts';

/** Maximum concurrency, per organization and in total. */
export interface LaneLimit {
  readonly each: number;
  readonly total: number;
}

/**
 * Scheduling classes: statements on records by lane, on pooled or pipelined connections; a `stream`, which sends or receives
 * many records and occasionally runs a statement; a statement or transaction of a `module`, for example for a page; and a
 * `lookup`, whose organization is still unknown, for example of a key.
 */
export type AdmissionLane =
  | Lane
  | 'short read'
  | 'short list'
  | 'short write'
  | 'stream'
  | 'module'
  | 'lookup';

/** Lanes whose waiting work is cancelled when the client disconnects. Waiting writes still run. */
const endsWithClient: ReadonlySet<AdmissionLane> = new Set<AdmissionLane>([
  'short read',
  'short list',
  'read',
  'list',
  'deep',
  'scan',
  'export',
]);

/** Limits of an {@link Admission}. */
export interface AdmissionLimits {
  /** Concurrency limits per lane. A statement must fit all limits of its lane; lanes can share a limit. */
  readonly turns: Readonly<Record<AdmissionLane, readonly LaneLimit[]>>;
  /** Limit on the statements waiting in a lane. */
  readonly queue: LaneLimit;
  /** Limit on unread response bytes. */
  readonly bytes: LaneLimit;
  /** Maximum wait, in milliseconds. A wait during which this process was stalled starts over once. */
  readonly waitMs: number;
}

/** Schedules statements so that no organization can exhaust what others need. */
export interface Admission {
  /**
   * Runs work when the organization gets a slot. Waiting organizations take turns.
   * @throws HttpError 503 `overloaded` if too many statements are waiting, or the wait is too long; 400 for a read whose
   *   client has disconnected
   */
  readonly run: <T>(turn: AdmissionLane, organization: string, work: () => Promise<T>) => Promise<T>;
  /**
   * Counts bytes held in memory for an organization. While it, or all organizations together, hold too many, none of its
   * statements starts. An organization that holds nothing never waits for other organizations' readers.
   * @returns a function that ends the count; further calls do nothing
   */
  readonly hold: (organization: string, bytes: number) => () => void;
  /** Returns the current load. */
  readonly load: () => AdmissionLoad;
}

/** Running and waiting statements of a lane. */
export interface LaneLoad {
  readonly turn: AdmissionLane;
  readonly running: number;
  /** Maximum concurrency; lanes can share it. */
  readonly limit: number;
  readonly waiting: number;
  /** Number of organizations with waiting statements, and of those waiting because of their own limit. */
  readonly organizations: number;
  readonly bounded: number;
  /** Waiting statements of the organization with the most. */
  readonly longest: number;
  /** Statements rejected since startup: because the queue was full, and because the wait was too long. */
  readonly full: number;
  readonly late: number;
}

/** Load of an {@link Admission}. */
export interface AdmissionLoad {
  readonly turns: readonly LaneLoad[];
  /** Bytes held in memory for readers, and their limit. */
  readonly bytes: number;
  readonly byteLimit: number;
}

/** Delay of a timer that indicates a stalled process, in milliseconds. */
const stallMs = 100;

interface Waiting {
  readonly start: () => void;
}

/** Creates an admission for this process. Nodes do not share it. */
export function createAdmission({ turns, queue, bytes, waitMs }: AdmissionLimits): Admission {
  const gates = new Map(
    [...new Set(Object.values(turns).flat())].map((bound) => [bound, counter()] as const),
  );
  const held = counter();
  const queues = (Object.keys(turns) as AdmissionLane[]).map((turn) => ({
    turn,
    running: 0,
    size: 0,
    full: 0,
    late: 0,
    // In order of service: an organization that was served moves to the end.
    byOrganization: new Map<string, Waiting[]>(),
  }));
  const queueOf = Object.fromEntries(queues.map((each) => [each.turn, each])) as Record<
    AdmissionLane,
    (typeof queues)[number]
  >;
  let waiting = 0;

  const fits = (turn: AdmissionLane, organization: string): boolean => {
    const heldBytes = held.of(organization);
    if (heldBytes > 0 && (heldBytes >= bytes.each || held.total() >= bytes.total)) return false;
    return turns[turn].every((bound) => {
      const running = gates.get(bound);
      return running !== undefined && running.of(organization) < bound.each && running.total() < bound.total;
    });
  };
  const count = (turn: AdmissionLane, organization: string, change: 1 | -1): void => {
    for (const bound of turns[turn]) gates.get(bound)?.add(organization, change);
    queueOf[turn].running += change;
  };

  /** Whether an organization has reached its own limit in a lane. */
  const isBounded = (turn: AdmissionLane, organization: string): boolean =>
    held.of(organization) >= bytes.each ||
    turns[turn].some((bound) => (gates.get(bound)?.of(organization) ?? 0) >= bound.each);

  /** Starts the first waiting statement whose organization has a free slot. @returns whether one was started */
  const startNext = ({ turn, byOrganization }: (typeof queues)[number]): boolean => {
    for (const [organization, [first]] of byOrganization) {
      if (first === undefined || !fits(turn, organization)) continue;
      const remaining = leaveQueue(turn, organization, first);
      byOrganization.delete(organization);
      if (remaining.length > 0) byOrganization.set(organization, remaining);
      count(turn, organization, 1);
      first.start();
      return true;
    }
    return false;
  };
  const startAll = (): void => {
    while (waiting > 0) {
      // Queues can share a limit, so they take turns too.
      const index = queues.findIndex((each) => each.size > 0 && startNext(each));
      if (index < 0) return;
      queues.push(...queues.splice(index, 1));
    }
  };

  /** Removes an entry from its queue. @returns the remaining entries of its organization */
  const leaveQueue = (turn: AdmissionLane, organization: string, entry: Waiting): Waiting[] => {
    const { byOrganization } = queueOf[turn];
    const queued = byOrganization.get(organization) ?? [];
    queued.splice(queued.indexOf(entry), 1);
    if (queued.length === 0) byOrganization.delete(organization);
    queueOf[turn].size--;
    waiting--;
    return queued;
  };
  const waitInQueue = (turn: AdmissionLane, organization: string): Promise<void> => {
    const queued = queueOf[turn].byOrganization.get(organization) ?? [];
    if (queued.length >= queue.each || queueOf[turn].size >= queue.total) {
      queueOf[turn].full++;
      throw errors.overloaded();
    }
    return new Promise((resolve, reject) => {
      const stay = endsWithClient.has(turn)
        ? cancellingRequest()?.onDisconnect(() => {
            clearTimeout(timer);
            leave();
            reject(errors.incompleteRequest());
          })
        : undefined;
      const entry: Waiting = {
        start: () => {
          stay?.();
          clearTimeout(timer);
          resolve();
        },
      };
      const leave = () => {
        const remaining = leaveQueue(turn, organization, entry);
        if (remaining.length > 0) queueOf[turn].byOrganization.set(organization, remaining);
      };
      const refuse = () => {
        stay?.();
        leave();
        queueOf[turn].late++;
        reject(errors.overloaded());
      };
      const due = performance.now() + waitMs;
      let timer = setTimeout(() => {
        if (performance.now() - due < stallMs) return refuse();
        // While this process was stalled, no slot could become free: wait once more.
        timer = setTimeout(refuse, waitMs).unref();
      }, waitMs).unref();
      queued.push(entry);
      queueOf[turn].byOrganization.set(organization, queued);
      queueOf[turn].size++;
      waiting++;
    });
  };

  return {
    run: async (turn, organization, work) => {
      if (endsWithClient.has(turn) && cancellingRequest()?.isDisconnected) throw errors.incompleteRequest();
      if (fits(turn, organization)) count(turn, organization, 1);
      else await waitInQueue(turn, organization);
      try {
        // A stream holds no connection: each of its statements needs a slot of its own.
        return await (turn === 'stream' ? work() : runAdmitted(work));
      } finally {
        count(turn, organization, -1);
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
    load: () => ({
      turns: queues.map(({ turn, running, size, byOrganization, full, late }) => ({
        turn,
        running,
        limit: Math.min(...turns[turn].map(({ total }) => total)),
        waiting: size,
        organizations: byOrganization.size,
        bounded: [...byOrganization.keys()].filter((organization) => isBounded(turn, organization)).length,
        longest: Math.max(0, ...[...byOrganization.values()].map(({ length }) => length)),
        full,
        late,
      })),
      bytes: held.total(),
      byteLimit: bytes.total,
    }),
  };
}

/** Counts per organization and in total. Drops an organization's entry when its count returns to zero. */
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

/**
 * Runs a statement or transaction of a module in a slot of the current request's organization. Work outside requests, and
 * work that already holds a slot, runs immediately.
 * @throws HttpError 503 `overloaded`, see {@link Admission.run}
 */
export function admitted<T>(admission: Admission, work: () => Promise<T>): Promise<T> {
  const owner = slotOwner();
  if (owner === undefined) return work();
  return admission.run(owner === '' ? 'lookup' : 'module', owner, work);
}
