/** Places for work in progress, shared between organizations so that there is always room for one more. */
export interface Slots {
  readonly free: () => number;
  /** How many to take at a time: a part of what is free, so that a late organization finds room. */
  readonly share: () => number;
  /** Organizations that hold as many as are free, and get no more. */
  readonly full: () => readonly string[];
  /** Holds a slot until the work is over; work never rejects. */
  readonly hold: (organization: string, work: Promise<void>, over: () => void) => void;
  /** When everything in progress is over. */
  readonly done: () => Promise<void>;
}

/**
 * Makes slots. An organization alone gets half of them, two get a third each, and so on: whatever some of them do, and
 * however long it takes, another finds a free one.
 */
export function slots(most: number): Slots {
  const held = new Map<string, number>();
  const busy = new Set<Promise<void>>();
  const free = () => most - busy.size;
  const change = (organization: string, by: number) => {
    const count = (held.get(organization) ?? 0) + by;
    if (count === 0) held.delete(organization);
    else held.set(organization, count);
  };
  return {
    free,
    share: () => Math.min(5, Math.ceil(free() / 4)),
    full: () => [...held].filter(([, count]) => count >= free()).map(([organization]) => organization),
    hold: (organization, work, over) => {
      change(organization, 1);
      const one = work.finally(() => {
        busy.delete(one);
        change(organization, -1);
        over();
      });
      busy.add(one);
    },
    done: async () => {
      await Promise.all(busy);
    },
  };
}
