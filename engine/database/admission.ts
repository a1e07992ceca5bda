import { errors } from '../errors.ts';
import type { Lane } from '../sql/index.ts';
import { cancellingRequest, runAdmitted } from './requests.ts';

/** How many at the same time: of each organization, and in total. */
export interface LaneLimit {
  readonly each: number;
  readonly total: number;
}

/**
 * Kinds of work that wait for a slot: a statement for records, which needs one of its lane's connections or one of those
 * that short statements share; a `stream`, which sends or receives many records and runs a statement now and then; a
 * statement or transaction of a `module`, for example for a page; and a `lookup`, which does not know its organization
 * yet, for example that of a key.
 */
export type AdmissionLane =
  | Lane
  | 'short read'
  | 'short list'
  | 'short write'
  | 'stream'
  | 'module'
  | 'lookup';

/** Kinds of work that a client which disconnects no longer waits for. Writes that wait are still carried out. */
const endsWithClient: ReadonlySet<AdmissionLane> = new Set<AdmissionLane>([
  'short read',
  'short list',
  'read',
  'list',
  'deep',
  'scan',
  'export',
]);

/** The bounds of an {@link Admission}. */
export interface AdmissionLimits {
  /** Statements that run at the same time; one must fit all bounds of its turn. Several turns may share a bound. */
  readonly turns: Readonly<Record<AdmissionLane, readonly LaneLimit[]>>;
  /** Statements that wait for one kind of turn. */
  readonly queue: LaneLimit;
  /** Bytes of responses that their readers have not taken yet. */
  readonly bytes: LaneLimit;
  /** The longest wait for a turn, in milliseconds; one during which this process stood still is begun once more. */
  readonly waitMs: number;
}

/** Decides when statements run, so that no organization uses up what others need. */
export interface Admission {
  /**
   * Runs work when it is the organization's turn. Waiting organizations take turns.
   * @throws HttpError 503 `overloaded` when too many wait already, or the turn does not come in time; 400 for a read whose
   *   client has disconnected
   */
  readonly run: <T>(turn: AdmissionLane, organization: string, work: () => Promise<T>) => Promise<T>;
  /**
   * Counts bytes held in memory for an organization; while it, or all together, hold too many, none of its
   * statements starts. An organization that holds nothing is never kept waiting for others' readers.
   * @returns ends the count; calling it again does nothing
   */
  readonly hold: (organization: string, bytes: number) => () => void;
  /** What runs and waits at this moment. */
  readonly load: () => AdmissionLoad;
}

/** What runs and waits, for each turn. */
export interface LaneLoad {
  readonly turn: AdmissionLane;
  readonly running: number;
  /** How many may run at the same time; turns may share it. */
  readonly limit: number;
  readonly waiting: number;
  /** Organizations whose statements wait, and those among them that wait because of a bound of their own. */
  readonly organizations: number;
  readonly bounded: number;
  /** Statements of the organization that has the most waiting. */
  readonly longest: number;
  /** Refused since the process began: where too many waited already, and after the longest wait. */
  readonly full: number;
  readonly late: number;
}

/** How busy an {@link Admission} is. */
export interface AdmissionLoad {
  readonly turns: readonly LaneLoad[];
  /** Bytes that are held in memory for readers, and how many may be. */
  readonly bytes: number;
  readonly byteLimit: number;
}

/** A timer that is later than this shows that the process stood still, in milliseconds. */
const stallMs = 100;

interface Waiting {
  readonly start: () => void;
}

/** Makes an admission. It belongs to one process; nodes count for themselves. */
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
    // In the order of their turns: an organization that was served goes to the end.
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

  /** Whether an organization has as many of a turn as one may have. */
  const isBounded = (turn: AdmissionLane, organization: string): boolean =>
    held.of(organization) >= bytes.each ||
    turns[turn].some((bound) => (gates.get(bound)?.of(organization) ?? 0) >= bound.each);

  /** Starts the first of a queue whose organization has room. @returns whether there was one */
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
      // Queues may share a bound, so they take turns too.
      const index = queues.findIndex((each) => each.size > 0 && startNext(each));
      if (index < 0) return;
      queues.push(...queues.splice(index, 1));
    }
  };

  /** Removes an entry from its queue. @returns the entries of its organization that still wait */
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
            reject(errors.cutOff());
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
        // While this process stood still, nothing could come to its turn: it waits once more.
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
      if (endsWithClient.has(turn) && cancellingRequest()?.isDisconnected) throw errors.cutOff();
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
