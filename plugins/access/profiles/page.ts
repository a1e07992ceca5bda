import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import {
  type Action,
  actionNames,
  eventsObject,
  isCoveredByWildcard,
  membersObject,
  wildcard,
} from '../../../engine/records/index.ts';
import {
  addObjects,
  defineObject,
  field,
  fields,
  type Input,
  nameInput,
} from '../../admin-ui/shell/index.ts';
import {
  changeProfile,
  createProfile,
  deleteProfile,
  grantableObjects,
  missingProfile,
  type Profile,
  parseGrant,
  profileRows,
} from './profiles.ts';

interface ProfileServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
}

const labels: Readonly<Record<string, string>> = {
  [wildcard]: 'everything, including future resources',
  [eventsObject]: 'events: subscriptions to changes (not included in “everything”)',
  [membersObject]: 'members: names and email addresses (not included in “everything”)',
};

const has = ({ grants }: Pick<Profile, 'grants'>, object: string, action: string) =>
  grants.includes(`${object}:${action}`) || grants.includes(`${object}:${wildcard}`);

/** Returns the actions that a profile allows on an object, including actions that are granted on all objects. */
const actionsOn = (profile: Profile, object: string): Action[] =>
  actionNames.filter(
    (action) =>
      has(profile, object, action) || (isCoveredByWildcard(object) && has(profile, wildcard, action)),
  );

/**
 * Renders the grants matrix. Grants on everything also appear in every resource's row and cannot be removed
 * there. They do not apply to events and members.
 */
function matrix(
  { name: profileName, grants }: Profile,
  submittedGrants: readonly string[],
  objects: readonly string[],
): Input {
  const draft = { grants: submittedGrants.length === 0 ? grants : submittedGrants };
  return {
    kind: 'grants',
    name: 'grant',
    label: `Grants for ${profileName}`,
    actions: actionNames,
    objects: [wildcard, ...objects].map((object) => ({
      label: labels[object] ?? object,
      cells: actionNames.map((action) => {
        const isImplied = labels[object] === undefined && has(draft, wildcard, action);
        return {
          value: `${object}:${action}`,
          name: `${profileName}: ${action} on ${labels[object] ?? object}${isImplied ? ', granted on everything' : ''}`,
          granted: isImplied || has(draft, object, action),
          fixed: isImplied,
        };
      }),
    })),
  };
}

/** Summarizes a profile's grants in one line. */
function summary(profile: Profile, objects: readonly string[]): string {
  const entries = objects.flatMap((object) => {
    const actions = actionsOn(profile, object);
    return actions.length === 0 ? [] : [{ object, actions: actions.join(', ') }];
  });
  const [first] = entries;
  if (first === undefined) return 'nothing yet';
  const isSame =
    entries.length === objects.length && entries.every(({ actions }) => actions === first.actions);
  return isSame
    ? `${first.actions} on everything`
    : entries.map(({ object, actions }) => `${object}: ${actions}`).join('; ');
}

const isCustom = ({ builtIn }: Profile): boolean => !builtIn;

/** Profiles. A profile is edited as a matrix of objects and actions. */
const profiles = defineObject<Profile, ProfileServices>({
  name: 'profiles',
  title: 'Profiles',
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
      cell: (profile, { services }) => ({ text: summary(profile, grantableObjects(services.resources)) }),
    },
    { title: 'Kind', cell: ({ builtIn }) => ({ text: builtIn ? 'built in' : 'custom' }) },
  ],
  empty: 'A profile defines what its members and keys can do.',
  pages: {
    'built-in': async ({ services }, profile) => ({
      kind: 'record',
      title: profile.name,
      intro: 'This profile is built in and cannot be changed.',
      values: grantableObjects(services.resources).map((object) => ({
        label: object,
        text: actionsOn(profile, object).join(', ') || 'nothing',
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
      page: ({ services, urlOf }, form, profile) => ({
        kind: 'form',
        title: profile.name,
        intro:
          'Select the actions that members and keys with this profile can perform. A check mark in the first row applies to every row.',
        inputs: [matrix(profile, fields(form, 'grant'), grantableObjects(services.resources))],
        submit: 'Save profile',
        danger: { label: 'Delete profile', href: `${urlOf('delete')}?id=${profile.id}` },
      }),
      done: { 'profile-changed': '{} updated.' },
      run: async ({ organization, actor, transact, services }, form, { id }) => {
        const texts = fields(form, 'grant');
        if (texts.length > 1000) throw new UserError('too many grants');
        const objects = grantableObjects(services.resources);
        const grants = texts.map((text) => parseGrant(text, objects));
        await transact((tables) => changeProfile(tables, actor, organization, id, grants));
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
