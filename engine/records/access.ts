/** Actions that a profile can grant on an object. Each action is one bit of a grant mask. */
const actions = { list: 1, read: 2, create: 4, update: 8, delete: 16 } as const;

export type Action = keyof typeof actions;

export const actionNames = Object.keys(actions) as Action[];

/** Name that stands for all objects or all actions in a grant, including future ones. */
export const wildcard = '*';

/**
 * The object whose grants control subscriptions. {@link wildcard} does not include it, because a subscription
 * can send records to any URL.
 */
export const eventsObject = 'events';

/**
 * The object whose grants control access to the organization's members. {@link wildcard} does not include it, because
 * members have email addresses.
 */
export const membersObject = 'members';

/** Returns whether grants on {@link wildcard} apply to an object. */
export const isCoveredByWildcard = (object: string): boolean =>
  object !== eventsObject && object !== membersObject;

/** The caller's grants, as a mask of {@link actions} per object. The key `*` applies to all objects. */
export type Grants = Readonly<Record<string, number>>;

/** Returns the grant mask of each object. Unknown actions grant nothing. */
export function grantMasks(rows: Iterable<{ readonly object: string; readonly action: string }>): Grants {
  const masks: Record<string, number> = Object.create(null);
  for (const { object, action } of rows) {
    const bits = action === wildcard ? ~0 : Object.hasOwn(actions, action) ? actions[action as Action] : 0;
    masks[object] = (masks[object] ?? 0) | bits;
  }
  return Object.freeze(masks);
}

/** Returns whether the grants allow an action on an object. */
export function allows(grants: Grants, object: string, action: Action): boolean {
  const wildcardMask = isCoveredByWildcard(object) ? (grants[wildcard] ?? 0) : 0;
  return (((grants[object] ?? 0) | wildcardMask) & actions[action]) !== 0;
}

const writeMask = actions.create | actions.update | actions.delete;
const writers = new WeakMap<Grants, boolean>();

/** Returns whether the grants allow any write to records. */
export function canWrite(grants: Grants): boolean {
  let result = writers.get(grants);
  if (result === undefined) {
    result = Object.values(grants).some((mask) => (mask & writeMask) !== 0);
    writers.set(grants, result);
  }
  return result;
}

/** Returns the granted actions for each object. The key `*` stands for every object. */
export const grantedActions = (grants: Grants): Readonly<Record<string, readonly Action[]>> =>
  Object.fromEntries(
    Object.entries(grants).map(([object, mask]) => [
      object,
      actionNames.filter((action) => (mask & actions[action]) !== 0),
    ]),
  );

/** Name of the profile whose members administer their organization. */
export const administratorProfile = 'administrator';
