/** What a profile may grant on an object: read, create, update, delete. Each is one bit of a grant mask. */
export const actions = { list: 1, read: 2, create: 4, update: 8, delete: 16 } as const;

export type Action = keyof typeof actions;

export const actionNames = Object.keys(actions) as Action[];

/** In a grant: every object or every action, including those added later. */
export const wildcard = '*';

/** Where events are sent. Whoever may change that may have records sent anywhere, so that {@link wildcard} does not grant it. */
export const eventsObject = 'events';

/** What a caller may do: a mask of {@link actions} for each object, `*` for all objects. */
export type Grants = Readonly<Record<string, number>>;

/** Grant masks from rows of object and action. Unknown actions grant nothing. */
export function grantMasks(rows: Iterable<{ readonly object: string; readonly action: string }>): Grants {
  const masks: Record<string, number> = Object.create(null);
  for (const { object, action } of rows) {
    const bits = action === wildcard ? ~0 : Object.hasOwn(actions, action) ? actions[action as Action] : 0;
    masks[object] = (masks[object] ?? 0) | bits;
  }
  return Object.freeze(masks);
}

/** Whether the grants allow an action on an object. */
export function allows(grants: Grants, object: string, action: Action): boolean {
  const ofEverything = object === eventsObject ? 0 : (grants[wildcard] ?? 0);
  return (((grants[object] ?? 0) | ofEverything) & actions[action]) !== 0;
}

const writing = actions.create | actions.update | actions.delete;
const writers = new WeakMap<Grants, boolean>();

/** Whether grants allow any write of records. */
export function canWrite(grants: Grants): boolean {
  let known = writers.get(grants);
  if (known === undefined) {
    known = Object.values(grants).some((mask) => (mask & writing) !== 0);
    writers.set(grants, known);
  }
  return known;
}

/** The actions that grants permit, by object; `*` stands for every object. */
export const grantedActions = (grants: Grants): Readonly<Record<string, readonly Action[]>> =>
  Object.fromEntries(
    Object.entries(grants).map(([object, mask]) => [
      object,
      actionNames.filter((action) => (mask & actions[action]) !== 0),
    ]),
  );

/** Name of the profile whose members administer their organization. */
export const administratorProfile = 'administrator';
