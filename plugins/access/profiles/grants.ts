import { type ResourceDefinition, resourceLabel } from '../../../engine/definition/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { humanize } from '../../../engine/fields/index.ts';
import {
  actionNames,
  actionsOf,
  actionsOfAll,
  eventsObject,
  fieldGroups,
  fieldsObject,
  type GrantedResource,
  groupActions,
  groupObject,
  isCoveredByWildcard,
  type ModuleAction,
  membersObject,
  otherObjects,
  ownGrants,
  type StoredGrant,
  scopesOf,
  wildcard,
} from '../../../engine/records/index.ts';
import { suggestion } from '../../../engine/yaml/index.ts';
import { type Language, type TextIn, textIn } from '../../admin-ui/shell/index.ts';
import { profilesTexts } from './texts/index.ts';

/** An action or all actions, on all records or on those of a scope. */
type GrantedAction = string;

/** Actions granted on an object. `*` stands for all objects or actions, including those added later. */
export interface Grant {
  readonly object: string;
  readonly actions: readonly GrantedAction[];
}

/** An object on which actions can be granted. */
export interface GrantableObject {
  readonly name: string;
  /** Name that people see. */
  readonly label: string | TextIn;
  readonly actions: readonly string[];
  /** Names of the scopes to which an action can be limited. */
  readonly scopes: readonly string[];
  /** Actions of modules, which cannot be limited to a scope. */
  readonly unscoped: readonly string[];
}

const namesOf = (values: readonly { readonly name: string }[]): string[] => values.map(({ name }) => name);

const { later } = profilesTexts;

/** Names of objects that are not resources. */
const otherLabels: Readonly<Record<string, TextIn>> = {
  [eventsObject]: later('events'),
  [membersObject]: later('members'),
  [fieldsObject]: later('fields'),
};

type LabelledResource = GrantedResource & Pick<ResourceDefinition, 'label'>;

/** Returns the objects on which actions can be granted: all of them as `*`, then each resource with its field groups. */
export const grantableObjects = (
  resources: readonly { readonly definition: LabelledResource; readonly actions: readonly ModuleAction[] }[],
): readonly GrantableObject[] => {
  const definitions = resources.map(({ definition }) => definition);
  return [
    {
      name: wildcard,
      label: later('everything'),
      actions: actionsOfAll(definitions),
      scopes: namesOf(scopesOf(definitions)),
      unscoped: [],
    },
    ...resources.flatMap(({ definition, actions }) => [
      {
        name: definition.name,
        label: resourceLabel(definition),
        actions: [...actionsOf(definition), ...ownGrants(actions)],
        scopes: namesOf(definition.scopes),
        unscoped: ownGrants(actions),
      },
      ...fieldGroups(definition).map((group) => ({
        name: groupObject(definition.name, group),
        label: `${resourceLabel(definition)} (${humanize(group).toLowerCase()})`,
        actions: groupActions,
        scopes: [],
        unscoped: [],
      })),
    ]),
    ...otherObjects(definitions).map((name) => ({
      name,
      label: otherLabels[name] ?? humanize(name),
      actions: actionNames,
      scopes: [],
      unscoped: [],
    })),
  ];
};

/** Formats a grant as stored: `object:action`, or `object:action:scope`. */
export const grantText = ({ object, action }: StoredGrant): string => `${object}:${action}`;

/** Splits a grant in the format of {@link grantText}. */
export function storedGrant(text: string): StoredGrant {
  const colon = text.indexOf(':');
  return { object: text.slice(0, colon), action: text.slice(colon + 1) };
}

/** Returns the reason a grant allows nothing, as a phrase with suggestions, or undefined if it is valid. */
export function grantIssue(
  { object: name, action: text }: StoredGrant,
  objects: readonly GrantableObject[],
): string | undefined {
  const object = objects.find((candidate) => candidate.name === name);
  if (object === undefined)
    return `object "${name}" does not exist${hint(name, namesOf(objects).toSorted(last))}`;
  const [action = '', scope, ...rest] = text.split(':');
  const names: readonly string[] = [...object.actions, wildcard];
  if (!names.includes(action)) {
    const isKnown = actionNames.some((candidate) => candidate === action);
    const problem = isKnown ? `cannot be granted on ${name}` : 'does not exist';
    return `action "${action}" ${problem}${hint(action, names)}`;
  }
  if (scope === undefined) return undefined;
  if (object.unscoped.includes(action)) return `action "${action}" cannot be limited to a scope`;
  if (object.scopes.length === 0 || rest.length > 0)
    return `${name === wildcard ? 'no resource defines scopes' : `${name} does not define scopes`}, but the grant names "${[scope, ...rest].join(':')}"`;
  if (object.scopes.includes(scope)) return undefined;
  const problem =
    name === wildcard
      ? `no resource defines a scope "${scope}"`
      : `${name} does not define a scope "${scope}"`;
  return `${problem}${hint(scope, object.scopes)}`;
}

/** Sorts {@link wildcard} to the end of a list of names. */
const last = (a: string, b: string): number => Number(a === wildcard) - Number(b === wildcard);

/** Returns a suggestion for a name, and the available names. */
const hint = (name: string, available: readonly string[]): string =>
  `${suggestion(name, available) || '.'} Available: ${available.join(', ')}`;

/** Splits a grant from the command line without checking its names. @throws UserError if its format is invalid */
export function splitGrant(text: string): Grant {
  const [object = '', list = '', ...scopes] = text.split(':');
  const actions = list.split(',');
  if (object === '' || actions.includes('') || scopes.length > 1 || scopes[0] === '') {
    throw new UserError(
      `"${text}" is not a grant. Use object:action,action or object:action,action:scope, for example orders:list,read.`,
    );
  }
  const suffix = scopes.map((scope) => `:${scope}`).join('');
  return { object, actions: actions.map((action) => `${action}${suffix}` as GrantedAction) };
}

/**
 * Parses a grant from the command line: `leads:list,read`, `leads:update,delete:own`, `leads.finance:read` or `*:*`.
 * @throws UserError if the object, an action or the scope does not exist
 */
export function parseGrant(text: string, objects: readonly GrantableObject[]): Grant {
  const { object, actions } = splitGrant(text);
  for (const action of actions) {
    const issue = grantIssue({ object, action }, objects);
    if (issue !== undefined) throw new UserError(`${issue}.`);
  }
  return { object, actions };
}

/** Returns the scopes to which an action on an object can be limited. */
export const scopesFor = ({ scopes, unscoped }: GrantableObject, action: string): readonly string[] =>
  unscoped.includes(action) ? [] : scopes;

/** The records on which an action is granted: all, or those in at least one of these scopes. */
export type Extent = 'all' | readonly string[];

const has = (grants: readonly string[], object: string, action: string, scope?: string): boolean => {
  const suffix = scope === undefined ? '' : `:${scope}`;
  return grants.includes(`${object}:${action}${suffix}`) || grants.includes(`${object}:${wildcard}${suffix}`);
};

/** Returns whether a grant on {@link wildcard} includes this grant. */
export const isImplied = (
  grants: readonly string[],
  { name }: GrantableObject,
  action: string,
  scope?: string,
): boolean => name !== wildcard && isCoveredByWildcard(name) && has(grants, wildcard, action, scope);

/** Returns whether grants in the format of {@link grantText} include this grant. */
export const isGranted = (
  grants: readonly string[],
  object: GrantableObject,
  action: string,
  scope?: string,
): boolean => has(grants, object.name, action, scope) || isImplied(grants, object, action, scope);

/** Returns the records on which an action is granted. */
export const extentOf = (grants: readonly string[], object: GrantableObject, action: string): Extent =>
  isGranted(grants, object, action)
    ? 'all'
    : scopesFor(object, action).filter((scope) => isGranted(grants, object, action, scope));

/**
 * Describes the grants on an object, for example "list, read" or, for a resource with scopes, "read all, update own".
 * Empty if nothing is granted.
 */
export const describeActions = (
  grants: readonly string[],
  object: GrantableObject,
  language: Language,
): string => {
  const t = profilesTexts(language);
  return object.actions
    .flatMap((action) => {
      const extent = extentOf(grants, object, action);
      if (extent === 'all')
        return scopesFor(object, action).length === 0 ? [action] : [t('onAll', { action })];
      return extent.length === 0 ? [] : [t('inScopes', { action, scopes: extent.join(` ${t('or')} `) })];
    })
    .join(', ');
};

/** Describes grants in one line. */
export function describeGrants(
  grants: readonly string[],
  objects: readonly GrantableObject[],
  language: Language,
): string {
  const t = profilesTexts(language);
  const listed = objects.filter(({ name }) => name !== wildcard);
  const entries = listed.flatMap((object) => {
    const actions = describeActions(grants, object, language);
    return actions === '' ? [] : [`${textIn(object.label, language)}: ${actions}`];
  });
  if (entries.length === 0) return t('nothingYet');
  const granted = [...new Set(listed.flatMap(({ actions }) => actions))].filter((action) =>
    listed.some((object) => object.actions.includes(action) && isGranted(grants, object, action)),
  );
  const isSame = listed.every((object) =>
    object.actions.every((action) => {
      const extent = extentOf(grants, object, action);
      return granted.includes(action) ? extent === 'all' : extent.length === 0;
    }),
  );
  return isSame ? t('onEverything', { actions: granted.join(', ') }) : entries.join('; ');
}
