/** Whose work a slot holds. */
export interface SlotHolder {
  readonly organization: string;
  /** Id of what the work belongs to within the organization. */
  readonly owner: string;
}

/** Slots for work in progress, shared so that another organization, and another owner, always finds a free one. */
export interface Slots {
  readonly free: () => number;
  /** How many slots to fill at a time: a part of the free ones, so that later organizations find some. */
  readonly share: () => number;
  /** Organizations that hold at least as many slots as are free, and get no more. */
  readonly full: () => readonly string[];
  /** Owners that hold at least half as many, and get no more: before their organization does. */
  readonly fullOwners: () => readonly string[];
  /** Holds a slot until the work is over; work never rejects. */
  readonly hold: (holder: SlotHolder, work: Promise<void>, over: () => void) => void;
  /** Resolves when all work in progress is over. */
  readonly done: () => Promise<void>;
}

/**
 * Creates slots. One organization alone gets half of them, two get a third each, and so on: however long their work
 * takes, another organization finds a free slot. So do owners within an organization.
 * @param most slots to fill at a time
 */
export function slots(concurrency: number, most: number): Slots {
  const organizations = new Map<string, number>();
  const owners = new Map<string, number>();
  const busy = new Set<Promise<void>>();
  const free = () => concurrency - busy.size;
  const change = (held: Map<string, number>, key: string, delta: number) => {
    const count = (held.get(key) ?? 0) + delta;
    if (count === 0) held.delete(key);
    else held.set(key, count);
  };
  const atLeast = (held: ReadonlyMap<string, number>, least: number) =>
    [...held].filter(([, count]) => count >= least).map(([key]) => key);
  return {
    free,
    share: () => Math.min(most, Math.ceil(free() / 4)),
    full: () => atLeast(organizations, free()),
    fullOwners: () => atLeast(owners, free() / 2),
    hold: ({ organization, owner }, work, over) => {
      const count = (delta: number) => {
        change(organizations, organization, delta);
        change(owners, owner, delta);
      };
      count(1);
      const slot = work.finally(() => {
        busy.delete(slot);
        count(-1);
        over();
      });
      busy.add(slot);
    },
    done: async () => {
      await Promise.all(busy);
    },
  };
}
