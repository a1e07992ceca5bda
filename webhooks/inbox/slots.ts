/** Slots for work in progress, shared so that another organization always finds a free one. */
export interface Slots {
  readonly free: () => number;
  /** How many slots to fill at a time: a part of the free ones, so that later organizations find some. */
  readonly share: () => number;
  /** Organizations that hold at least as many slots as are free, and get no more. */
  readonly full: () => readonly string[];
  /** Holds a slot until the work is over; work never rejects. */
  readonly hold: (organization: string, work: Promise<void>, over: () => void) => void;
  /** Resolves when all work in progress is over. */
  readonly done: () => Promise<void>;
}

/**
 * Creates slots. One organization alone gets half of them, two get a third each, and so on: however long their work
 * takes, another organization finds a free slot.
 */
export function slots(concurrency: number): Slots {
  const held = new Map<string, number>();
  const busy = new Set<Promise<void>>();
  const free = () => concurrency - busy.size;
  const change = (organization: string, delta: number) => {
    const count = (held.get(organization) ?? 0) + delta;
    if (count === 0) held.delete(organization);
    else held.set(organization, count);
  };
  return {
    free,
    share: () => Math.min(5, Math.ceil(free() / 4)),
    full: () => [...held].filter(([, count]) => count >= free()).map(([organization]) => organization),
    hold: (organization, work, over) => {
      change(organization, 1);
      const slot = work.finally(() => {
        busy.delete(slot);
        change(organization, -1);
        over();
      });
      busy.add(slot);
    },
    done: async () => {
      await Promise.all(busy);
    },
  };
}
