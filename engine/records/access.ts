import type { ResourceDefinition } from '../definition/index.ts';
import { hasCustomFields } from '../fields/index.ts';

/** Actions that a profile can grant on an object. Each action is one bit of a grant mask. */
const actions = { list: 1, read: 2, create: 4, update: 8, delete: 16, restore: 32 } as const;

export type Action = keyof typeof actions;

/** The name of an action of a module that has a grant of its own, see {@link ResourceAction}. */
type OwnAction = string & {};

/** The bit of a mask that stands for all actions of modules. */
const ownActions = 1 << 30;

/** Returns whether a name is an {@link Action}. */
export const isAction = (name: string): name is Action => Object.hasOwn(actions, name);

const ownKey = (object: string, action: OwnAction): string => `${object}:${action}`;

const allActions = Object.keys(actions) as Action[];

/** Actions that can be granted on every object. */
export const actionNames: readonly Action[] = allActions.filter((action) => action !== 'restore');

/** Returns the actions that can be granted on a resource. Only resources with a trash have `restore`. */
export const actionsOf = ({ trash }: Pick<ResourceDefinition, 'trash'>): readonly Action[] =>
  trash === undefined ? actionNames : allActions;

/** Returns the actions that can be granted on all resources together. */
export const actionsOfAll = (resources: readonly Pick<ResourceDefinition, 'trash'>[]): readonly Action[] =>
  actionsOf(resources.find(({ trash }) => trash !== undefined) ?? {});

/** Actions that a profile can grant on a field group. */
export const groupActions = ['read', 'update'] as const satisfies readonly Action[];

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

/**
 * The object whose grants control the custom fields of the organization. {@link wildcard} does not include it, because custom
 * fields change the records of everyone.
 */
export const fieldsObject = 'fields';

/** Returns whether grants on {@link wildcard} apply to an object. */
export const isCoveredByWildcard = (object: string): boolean =>
  object !== eventsObject && object !== membersObject && object !== fieldsObject;

/** A grant as stored. */
export interface StoredGrant {
  /** A resource, a field group as `resource.group`, another object, or `*`. */
  readonly object: string;
  /** An action or `*`, followed by a colon and a scope if the grant is limited to the scope's records. */
  readonly action: string;
}

/** Masks of {@link actions} by object. The key `*` applies to all objects. */
type Masks = Readonly<Record<string, number>>;

/** The caller's grants. */
export interface Grants {
  /** Actions granted on all records. */
  readonly unlimited: Masks;
  /** Actions granted on the records of a scope, by scope. */
  readonly scoped: Readonly<Record<string, Masks>>;
  /** Granted actions of modules, each as `object:action`. */
  readonly own: ReadonlySet<string>;
  /** Grants that must also allow an action, for a key that acts on behalf of a member. */
  readonly within?: Grants;
}

/** Combines stored grants. Actions of modules are granted on all records; grants that limit them to a scope allow nothing. */
export function compileGrants(rows: Iterable<StoredGrant>): Grants {
  const unlimited: Record<string, number> = Object.create(null);
  const scoped: Record<string, Record<string, number>> = Object.create(null);
  const own = new Set<string>();
  for (const { object, action: text } of rows) {
    const [action = '', scope] = text.split(':');
    const bits = action === wildcard ? ~0 : isAction(action) ? actions[action] : 0;
    if (scope === undefined) {
      if (bits === 0) own.add(ownKey(object, action));
      else unlimited[object] = (unlimited[object] ?? 0) | bits;
      continue;
    }
    scoped[scope] ??= Object.create(null) as Record<string, number>;
    scoped[scope][object] = (scoped[scope][object] ?? 0) | bits;
  }
  for (const masks of Object.values(scoped)) Object.freeze(masks);
  return Object.freeze({ unlimited: Object.freeze(unlimited), scoped: Object.freeze(scoped), own });
}

/** Returns grants that allow the same reads, and nothing else. */
export function readsOf({ unlimited, scoped }: Grants): Grants {
  const readBits = actions.list | actions.read;
  const readMasks = (masks: Masks): Masks => {
    const read: Record<string, number> = Object.create(null);
    for (const [object, mask] of Object.entries(masks)) read[object] = mask & readBits;
    return Object.freeze(read);
  };
  const scopes: Record<string, Masks> = Object.create(null);
  for (const [scope, masks] of Object.entries(scoped)) scopes[scope] = readMasks(masks);
  return Object.freeze({
    unlimited: readMasks(unlimited),
    scoped: Object.freeze(scopes),
    own: new Set<string>(),
  });
}

/** Returns grants that allow only what both allow. */
export const grantsWithin = (grants: Grants, within: Grants): Grants => Object.freeze({ ...grants, within });

/** Grants that allow nothing. */
export const noGrants: Grants = compileGrants([]);

/** Every action on every object that {@link wildcard} covers. */
export const everyGrant: Grants = compileGrants([{ object: wildcard, action: wildcard }]);

/** Returns the mask that applies to an object, including grants on {@link wildcard}. */
const maskOf = (masks: Masks, object: string): number =>
  (masks[object] ?? 0) | (isCoveredByWildcard(object) ? (masks[wildcard] ?? 0) : 0);

/** The parts of a definition that determine access to its records. */
export type ProtectedResource = Pick<ResourceDefinition, 'name' | 'scopes' | 'trash'>;

/**
 * Returns whether the grants allow an action on an object, or on some records of a resource. Grants for a scope that
 * the resource does not define allow nothing.
 */
export function allows(
  grants: Grants,
  object: string | ProtectedResource,
  action: Action | OwnAction,
): boolean {
  const { unlimited, scoped, own, within } = grants;
  const name = typeof object === 'string' ? object : object.name;
  if (!isAction(action)) {
    const isGranted = own.has(ownKey(name, action)) || (maskOf(unlimited, name) & ownActions) !== 0;
    return isGranted && (within === undefined || allows(within, object, action));
  }
  // This runs for every request, so it does not collect the limits.
  const isGranted =
    isIn(unlimited, name, action) ||
    (typeof object !== 'string' && object.scopes.some((scope) => isIn(scoped[scope.name], name, action)));
  return isGranted && (within === undefined || allows(within, object, action));
}

/** Returns whether masks grant an action on an object. */
const isIn = (masks: Masks | undefined, object: string, action: Action): boolean =>
  masks !== undefined && (maskOf(masks, object) & actions[action]) !== 0;

/** Scopes of which a record must be in at least one. */
export type RecordLimit = ResourceDefinition['scopes'];

/**
 * Returns the limits that records must meet for an action; none if the action is granted on all records. An empty
 * limit means that the action is not granted.
 */
export function recordLimits(
  grants: Grants,
  resource: ProtectedResource,
  action: Action,
): readonly RecordLimit[] {
  const { unlimited, scoped, within } = grants;
  const outer = within === undefined ? [] : recordLimits(within, resource, action);
  if (isIn(unlimited, resource.name, action)) return outer;
  return [resource.scopes.filter(({ name }) => isIn(scoped[name], resource.name, action)), ...outer];
}

/**
 * Returns whether every record that meets the stricter limits is known to meet the limits. If the stricter limits contain
 * an empty one, no record meets them.
 */
export const areLimitsImplied = (limits: readonly RecordLimit[], stricter: readonly RecordLimit[]): boolean =>
  limits.every((limit) =>
    stricter.some((scopes) => scopes.every(({ name }) => limit.some((scope) => scope.name === name))),
  );

/** Returns the object whose grants control a field group. */
export const groupObject = (resource: string, group: string): string => `${resource}.${group}`;

/** Returns the names of a resource's field groups. */
export const fieldGroups = ({ fields }: Pick<ResourceDefinition, 'fields'>): string[] => [
  ...new Set(fields.flatMap(({ group }) => group ?? [])),
];

/** Returns the objects other than resources and field groups on which actions can be granted. */
export const otherObjects = (resources: readonly Pick<ResourceDefinition, 'fields'>[]): readonly string[] => [
  eventsObject,
  membersObject,
  ...(resources.some(hasCustomFields) ? [fieldsObject] : []),
];

/** The parts of a definition to which grants can refer. */
export type GrantedResource = ProtectedResource & Pick<ResourceDefinition, 'fields'>;

/** Returns all scopes of all resources, one for each name. Grants on {@link wildcard} can refer to them. */
export const scopesOf = (resources: readonly ProtectedResource[]): RecordLimit => [
  ...new Map(resources.flatMap(({ scopes }) => scopes.map((scope) => [scope.name, scope]))).values(),
];

/**
 * Returns the grants, each as `object:action`, that `other` allows on records on which `grants` does not allow them. A
 * grant limited to scopes is covered if the same scopes, or more, are granted.
 */
export function uncoveredGrants(
  grants: Grants,
  other: Grants,
  resources: readonly GrantedResource[],
): readonly string[] {
  const isCovered = (object: ProtectedResource, action: Action): boolean =>
    areLimitsImplied(recordLimits(grants, object, action), recordLimits(other, object, action));
  const objects: readonly (readonly [ProtectedResource, readonly Action[]])[] = [
    [{ name: wildcard, scopes: scopesOf(resources) }, actionsOfAll(resources)],
    ...resources.flatMap((resource) => [
      [resource, actionsOf(resource)] as const,
      ...fieldGroups(resource).map(
        (group) => [{ name: groupObject(resource.name, group), scopes: [] }, groupActions] as const,
      ),
    ]),
    ...otherObjects(resources).map((name) => [{ name, scopes: [] }, actionNames] as const),
  ];
  return [
    ...objects.flatMap(([object, names]) =>
      names.filter((action) => !isCovered(object, action)).map((action) => `${object.name}:${action}`),
    ),
    ...[...other.own].filter((grant) => {
      const [object = '', action = ''] = grant.split(':');
      return allows(other, object, action) && !allows(grants, object, action);
    }),
  ];
}

/** Returns whether `grants` allow everything that `other` allows, on the same records and on future resources. */
export const covers = (grants: Grants, other: Grants, resources: readonly GrantedResource[]): boolean =>
  uncoveredGrants(grants, other, resources).length === 0;

const writeMask = actions.create | actions.update | actions.delete | actions.restore;
const writers = new WeakMap<Grants, boolean>();

/** Returns whether the grants allow any write to records. */
export function canWrite(grants: Grants): boolean {
  let result = writers.get(grants);
  if (result === undefined) {
    const { unlimited, scoped, own } = grants;
    result =
      own.size > 0 ||
      [unlimited, ...Object.values(scoped)].some((masks) =>
        Object.values(masks).some((mask) => (mask & writeMask) !== 0),
      );
    writers.set(grants, result);
  }
  return result;
}

/**
 * Returns the granted actions for each object, each followed by a colon and the scope if it is limited to one. The key
 * `*` stands for every object.
 * @param resources all resources
 */
export function grantedActions(
  { unlimited, scoped, own }: Grants,
  resources: readonly ProtectedResource[],
): Readonly<Record<string, readonly string[]>> {
  const result: Record<string, string[]> = {};
  const add = (masks: Masks, suffix: string) => {
    for (const [object, mask] of Object.entries(masks)) {
      const resource = resources.find(({ name }) => name === object);
      const available =
        object === wildcard
          ? actionsOfAll(resources)
          : resource === undefined
            ? actionNames
            : actionsOf(resource);
      const granted = available.filter((action) => (mask & actions[action]) !== 0);
      result[object] = [...(result[object] ?? []), ...granted.map((action) => `${action}${suffix}`)];
    }
  };
  add(unlimited, '');
  for (const [scope, masks] of Object.entries(scoped)) add(masks, `:${scope}`);
  for (const grant of own) {
    const [object = '', action = ''] = grant.split(':');
    result[object] = [...(result[object] ?? []), action];
  }
  // Grants are stored in no particular order.
  return Object.fromEntries(Object.entries(result).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The authenticated caller and its organization. IDs are decimal strings. */
export interface Principal {
  /** `command` is the command line, `partner` a partner endpoint. */
  readonly kind: 'key' | 'user' | 'command' | 'partner';
  /** ID of the key or user; null for the command line and partners. */
  readonly actor: string | null;
  /** The key's name or the user's email address; null for the command line and partners. */
  readonly name: string | null;
  readonly organization: string;
  /** The acting user; null for a key without a creator or whose creator was removed. */
  readonly user: string | null;
  readonly grants: Grants;
  /** Grants with which a key proposes writes, which it cannot perform itself. Absent for other callers. */
  readonly proposes?: Grants | undefined;
  /** ISO 3166 code of the country of phone numbers without a country code. Absent if the organization has not set it. */
  readonly phoneRegion?: string | undefined;
  /** ID of the OAuth client that acts for the user. Absent for other callers. */
  readonly client?: string | undefined;
}

/** Identifies a key, or a user in an organization. */
export type CallerIdentity = Pick<Principal, 'kind' | 'actor' | 'organization'>;

/** Name of the profile whose members administer their organization. */
export const administratorProfile = 'administrator';
