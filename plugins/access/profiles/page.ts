import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { allows, eventsObject, membersObject, wildcard } from '../../../engine/records/index.ts';
import { viewAsCookie } from '../../admin-ui/records/index.ts';
import {
  addObjects,
  defineObject,
  field,
  fields,
  type Input,
  nameInput,
  type ObjectContext,
} from '../../admin-ui/shell/index.ts';
import { profileGrants } from '../identity/index.ts';
import {
  describeActions,
  describeGrants,
  extentOf,
  type Grant,
  type GrantableObject,
  grantableObjects,
  grantIssue,
  isGranted,
  isImplied,
  parseGrant,
  scopesFor,
  storedGrant,
} from './grants.ts';
import {
  assertGrantable,
  changeProfile,
  createProfile,
  deleteProfile,
  missingProfile,
  type Profile,
  profileRows,
} from './profiles.ts';
import { profilesTexts } from './texts/index.ts';

interface ProfileServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
}

const labels: Readonly<Record<string, string>> = {
  [wildcard]: 'everything, including future resources',
  [eventsObject]: 'events: subscriptions to changes (not included in “everything”)',
  [membersObject]: 'members: names and email addresses (not included in “everything”)',
};

/** Returns the label of a row of the grants matrix. */
const labelOf = ({ name }: GrantableObject, scope?: string): string =>
  scope === undefined ? (labels[name] ?? name) : `${name === wildcard ? 'everything' : name}, only ${scope}`;

/**
 * Renders the grants matrix. Each scope has its own row, in which actions are granted on the scope's records. Grants on
 * everything also appear in the rows of resources and cannot be removed there. They do not apply to events and members.
 */
function matrix(
  { name: profileName, grants }: Profile,
  submittedGrants: readonly string[],
  objects: readonly GrantableObject[],
): Input {
  const draft = submittedGrants.length === 0 ? grants : submittedGrants;
  const actions = [...new Set(objects.flatMap((object) => object.actions))];
  const row = (object: GrantableObject, scope?: string) => ({
    label: labelOf(object, scope),
    cells: actions.map((action) => {
      if (!object.actions.includes(action)) return {};
      if (scope !== undefined && !scopesFor(object, action).includes(scope)) return {};
      const fixed = isImplied(draft, object, action, scope);
      const suffix = scope === undefined ? '' : `:${scope}`;
      return {
        value: `${object.name}:${action}${suffix}`,
        name: `${profileName}: ${action} on ${labelOf(object, scope)}${fixed ? ', granted on everything' : ''}`,
        granted: isGranted(draft, object, action, scope),
        fixed,
      };
    }),
  });
  return {
    kind: 'grants',
    name: 'grant',
    label: `Grants for ${profileName}`,
    actions,
    objects: objects.flatMap((object) => [row(object), ...object.scopes.map((scope) => row(object, scope))]),
  };
}

/** Removes scopes from actions that are also granted on all records. */
const withoutRedundantScopes = (
  texts: readonly string[],
  objects: readonly GrantableObject[],
): readonly string[] =>
  texts.filter((text) => {
    const { object: name, action } = storedGrant(text);
    const [unscoped, scope] = action.split(':');
    const object = objects.find((candidate) => candidate.name === name);
    const known = object?.actions.find((candidate) => candidate === unscoped);
    return (
      scope === undefined ||
      object === undefined ||
      known === undefined ||
      extentOf(texts, object, known) !== 'all'
    );
  });

/** Returns the text that lists grants naming objects, actions or scopes that do not exist. */
function issuesText({ grants }: Profile, objects: readonly GrantableObject[]): string {
  const invalid = grants.filter((text) => grantIssue(storedGrant(text), objects) !== undefined);
  return invalid.length === 0
    ? ''
    : ` These grants name something that does not exist, so they allow nothing, and saving removes them: ${invalid.join(', ')}.`;
}

const introOf = (profile: Profile, objects: readonly GrantableObject[]): string => {
  const scopes = objects.some((object) => object.scopes.length > 0)
    ? ' A row with “only” limits actions to the records of a scope. Scopes of the same action add up.'
    : '';
  return `Select the actions that members and keys with this profile can perform. A check mark in the first row applies to every row.${scopes}${issuesText(profile, objects)}`;
};

/** Returns the link to the page on which an administrator starts to view records as a profile. */
const viewLink = ({ urlOf }: ObjectContext<ProfileServices>, { id }: Profile) => ({
  label: 'View records as this profile',
  href: `${urlOf('view-as')}?id=${id}`,
});

const isCustom = ({ builtIn }: Profile): boolean => !builtIn;

/** Profiles. A profile is edited as a matrix of objects and actions. */
const profiles = defineObject<Profile, ProfileServices>({
  name: 'profiles',
  title: profilesTexts.later('profiles'),
  group: 'Access',
  icon: 'shield-check',
  plural: 'profiles',
  source: profileRows,
  missing: () => missingProfile,
  nameOf: ({ name }) => name,
  columns: [
    {
      title: 'Name',
      cell: ({ id, name, builtIn }, { urlOf }) => ({
        text: name,
        href: `${urlOf(builtIn ? 'built-in' : 'change')}?id=${id}`,
      }),
      by: 'lower(p.name)',
    },
    {
      title: 'Grants',
      cell: (profile, { services }) => ({
        text: describeGrants(profile.grants, grantableObjects(services.resources)),
      }),
    },
    { title: 'Kind', cell: ({ builtIn }) => ({ text: builtIn ? 'built in' : 'custom' }) },
  ],
  empty: 'A profile defines what its members and keys can do.',
  pages: {
    'built-in': async (context, profile) => ({
      kind: 'record',
      title: profile.name,
      primary: viewLink(context, profile),
      intro: 'This profile is built in and cannot be changed.',
      values: grantableObjects(context.services.resources)
        .filter(({ name }) => name !== wildcard)
        .map((object) => ({
          label: object.label,
          text: describeActions(profile.grants, object) || 'nothing',
        })),
    }),
  },
  actions: {
    create: {
      label: 'Create profile',
      isOnce: true,
      page: (_context, form) => ({
        kind: 'form',
        title: 'Create a profile',
        inputs: [
          nameInput(field(form, 'name'), 'A new profile has no grants. You add them in the next step.'),
        ],
        submit: 'Create profile',
      }),
      done: { 'profile-created': '{} created. Choose its grants.' },
      run: async ({ organization, actor, transact }, form) => {
        const name = field(form, 'name');
        const id = await transact((tables) => createProfile(tables, actor, organization, name, []));
        return { done: 'profile-created', name: name.trim(), id };
      },
    },
  },
  rowActions: {
    change: {
      label: 'Change',
      isOffered: isCustom,
      page: (context, form, profile) => ({
        kind: 'form',
        title: profile.name,
        primary: viewLink(context, profile),
        intro: introOf(profile, grantableObjects(context.services.resources)),
        inputs: [matrix(profile, fields(form, 'grant'), grantableObjects(context.services.resources))],
        submit: 'Save profile',
        danger: { label: 'Delete profile', href: `${context.urlOf('delete')}?id=${profile.id}` },
      }),
      done: { 'profile-changed': '{} updated.' },
      run: async (context, form, { id }) => {
        const { organization, actor, transact, services } = context;
        const texts = fields(form, 'grant');
        if (texts.length > 1000) throw new UserError('too many grants');
        const objects = grantableObjects(services.resources);
        const grants = withoutRedundantScopes(texts, objects).map((text): Grant => parseGrant(text, objects));
        assertGrantable(
          context,
          grants.flatMap(({ object, actions }) => actions.map((action) => ({ object, action }))),
        );
        await transact((tables) => changeProfile(tables, actor, organization, id, grants));
      },
    },
    'view-as': {
      label: 'View records as this profile',
      accessibleName: (name) => `View records as ${name}`,
      page: (_context, _form, { name }) => ({
        kind: 'confirm',
        title: `View records as ${name}?`,
        consequence:
          'The pages of records show only what this profile can list and read, until you select “Stop” or log out. Nothing can be changed there. In scopes, “me” stands for you and “my_team” for your teams. The activity page shows that you viewed records as this profile.',
        submit: 'View records',
        isSafe: true,
      }),
      run: async (context, _form, { id }) => {
        const { organization, slug, actor, transact, services, tables } = context;
        const grants = await profileGrants(tables, organization, id);
        const first = services.resources.find(({ definition }) => allows(grants, definition, 'list'));
        if (first === undefined) throw new UserError('this profile cannot list any records');
        await transact((transaction) =>
          recordChanges(transaction, actor, {
            organization,
            action: 'view as',
            object: 'profile',
            objectId: id,
          }),
        );
        return { to: `/setup/o/${slug}/data/${first.name}`, cookie: viewAsCookie(context, id) };
      },
    },
    delete: {
      label: 'Delete',
      isOffered: isCustom,
      page: (_context, _form, { name }) => ({
        kind: 'confirm',
        title: `Delete ${name}?`,
        consequence:
          'A profile can be deleted only if no member, active key or pending invitation uses it. Revoked and expired keys with this profile are deleted too.',
        submit: 'Delete profile',
      }),
      done: { 'profile-deleted': '{} deleted.' },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => deleteProfile(tables, actor, organization, id)),
    },
  },
});

/** Registers the pages for profiles. */
export const profilePages = (app: FastifyInstance, services: ProfileServices): void =>
  addObjects(app, services, [profiles]);
