/** The organization and owner whose work occupies a slot. */
interface SlotHolder {
  readonly organization: string;
  /** ID of the integration or subscription. */
  readonly owner: string;
}

/** Slots for work in progress, distributed so that other organizations and owners always find a free slot. */
export interface Slots {
  readonly free: () => number;
  /**
   * Returns the number of slots to fill at a time: a fraction of the free ones, so that some remain for other
   * organizations.
   */
  readonly share: () => number;
  /** Returns organizations that occupy at least as many slots as are free, and so must not receive more. */
  readonly fullOrganizations: () => readonly string[];
  /** Returns owners that occupy at least half as many slots as are free, and so must not receive more. */
  readonly fullOwners: () => readonly string[];
  /** Occupies a slot until the work is finished. The promise must not reject. */
  readonly hold: (holder: SlotHolder, work: Promise<void>, onRelease: () => void) => void;
  /** Resolves when all work in progress is finished. */
  readonly done: () => Promise<void>;
}

/**
 * Creates slots. A single organization can occupy half of them, two organizations a third each, and so on. Another
 * organization therefore always finds a free slot, no matter how long the work takes. The same applies to owners
 * within an organization.
 * @param maxShare maximum number of slots to fill at a time
 */
export function slots(concurrency: number, maxShare: number): Slots {
  const organizations = new Map<string, number>();
  const owners = new Map<string, number>();
  const occupied = new Set<Promise<void>>();
  const free = () => concurrency - occupied.size;
  const change = (counts: Map<string, number>, key: string, delta: number) => {
    const count = (counts.get(key) ?? 0) + delta;
    if (count === 0) counts.delete(key);
    else counts.set(key, count);
  };
  const atLeast = (counts: ReadonlyMap<string, number>, minimum: number) =>
    [...counts].filter(([, count]) => count >= minimum).map(([key]) => key);
  return {
    free,
    share: () => Math.min(maxShare, Math.ceil(free() / 4)),
    fullOrganizations: () => atLeast(organizations, free()),
    fullOwners: () => atLeast(owners, free() / 2),
    hold: ({ organization, owner }, work, onRelease) => {
      const count = (delta: number) => {
        change(organizations, organization, delta);
        change(owners, owner, delta);
      };
      count(1);
      const slot = work.finally(() => {
        occupied.delete(slot);
        count(-1);
        onRelease();
      });
      occupied.add(slot);
    },
    done: async () => {
      await Promise.all(occupied);
    },
  };
}
