/** Actions that a profile can grant on an object. Each is one bit of a grant mask. */
export const actions = { list: 1, read: 2, create: 4, update: 8, delete: 16 } as const;

export type Action = keyof typeof actions;

export const actionNames = Object.keys(actions) as Action[];

/** Stands for every object or every action in a grant, including future ones. */
export const wildcard = '*';

/** The object that controls where events are sent. {@link wildcard} does not grant it, because subscriptions can send records anywhere. */
export const eventsObject = 'events';

/** The caller's grants: a mask of {@link actions} per object, `*` for all objects. */
export type Grants = Readonly<Record<string, number>>;

/** Returns the grant masks of rows with an object and an action. Unknown actions grant nothing. */
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
  const ofEverything = object === eventsObject ? 0 : (grants[wildcard] ?? 0);
  return (((grants[object] ?? 0) | ofEverything) & actions[action]) !== 0;
}

const writing = actions.create | actions.update | actions.delete;
const writers = new WeakMap<Grants, boolean>();

/** Returns whether the grants allow any write of records. */
export function canWrite(grants: Grants): boolean {
  let known = writers.get(grants);
  if (known === undefined) {
    known = Object.values(grants).some((mask) => (mask & writing) !== 0);
    writers.set(grants, known);
  }
  return known;
}

/** Returns the granted actions by object; `*` stands for every object. */
export const grantedActions = (grants: Grants): Readonly<Record<string, readonly Action[]>> =>
  Object.fromEntries(
    Object.entries(grants).map(([object, mask]) => [
      object,
      actionNames.filter((action) => (mask & actions[action]) !== 0),
    ]),
  );

/** Name of the profile whose members administer their organization. */
export const administratorProfile = 'administrator';
