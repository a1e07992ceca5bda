/** Table lock modes, weakest first. */
export const lockModes = [
  'none',
  'ACCESS SHARE',
  'ROW SHARE',
  'ROW EXCLUSIVE',
  'SHARE UPDATE EXCLUSIVE',
  'SHARE',
  'SHARE ROW EXCLUSIVE',
  'EXCLUSIVE',
  'ACCESS EXCLUSIVE',
] as const;

/** A table lock mode. */
export type LockMode = (typeof lockModes)[number];

/** A risk that a change poses to concurrent requests, or a reason it can fail. */
export type Risk = (typeof riskNames)[number];
export const riskNames = ['destructive', 'data-dependent', 'blocking', 'needs a restart'] as const;

export const accesses = ['rewrites', 'reads', 'writes', 'nothing'] as const;

/** What a change does to its table. */
export interface Effects {
  /** Lock mode held until the migration's transaction ends; `unknown` for hand-written SQL. */
  readonly lock: LockMode | 'unknown';
  /** How the change accesses the table's rows. */
  readonly touches: (typeof accesses)[number];
  readonly risks: readonly Risk[];
}

/** Returns the effects of a change. */
export const changeEffects = (
  lock: Effects['lock'],
  touches: Effects['touches'] = 'nothing',
  ...risks: readonly Risk[]
): Effects => ({ lock, touches, risks });

/** Effects of a change that writes only to the catalog. */
export const catalogOnly = changeEffects('ACCESS EXCLUSIVE');

/** Returns the stronger of two lock modes. */
export const strongerLock = (one: Effects['lock'], other: Effects['lock']): Effects['lock'] => {
  const modes: readonly Effects['lock'][] = lockModes;
  return modes.indexOf(one) >= modes.indexOf(other) ? one : other;
};
