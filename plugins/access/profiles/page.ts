import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { actionNames, eventsObject, wildcard } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import {
  type Form,
  field,
  fields,
  type Input,
  idField,
  listing,
  nameInput,
  section,
} from '../../admin-ui/shell/index.ts';
import {
  changeProfile,
  createProfile,
  deleteProfile,
  grantableObjects,
  listProfiles,
  type Profile,
  parseGrant,
} from './profiles.ts';

/** Registers the pages for profiles. A profile is edited as a matrix of objects and actions. */
export function profilePages(
  app: FastifyInstance,
  { database, resources }: { readonly database: Database; readonly resources: readonly Resource[] },
): void {
  const objects = grantableObjects(resources);
  /** Objects to which a grant on everything applies, which excludes events. */
  const resourceNames = resources.map(({ name }) => name);
  const labels: Readonly<Record<string, string>> = {
    [wildcard]: 'everything, including future resources',
    [eventsObject]: 'events: subscriptions to changes (not included in everything)',
  };
  const has = ({ grants }: Profile, object: string, action: string) =>
    grants.has(`${object}:${action}`) || grants.has(`${object}:${wildcard}`);
  /** Returns the actions that a profile allows on an object, including actions that are granted on all objects. */
  const actionsOn = (profile: Profile, object: string) =>
    actionNames.filter(
      (action) => has(profile, object, action) || (object !== eventsObject && has(profile, wildcard, action)),
    );
  const profileOf = async (organization: string, form: Form): Promise<Profile> => {
    const id = idField(form, 'id');
    const profile = (await listProfiles(tablesOf(database), organization)).find((row) => row.id === id);
    if (profile === undefined) throw new UserError('this profile does not exist');
    return profile;
  };
  /**
   * Renders the matrix of grants. Grants on everything are shown in every row and cannot be removed in individual
   * rows.
   */
  const matrix = (profile: Profile, submittedGrants: readonly string[]): Input => {
    const draft = submittedGrants.length === 0 ? profile : { ...profile, grants: new Set(submittedGrants) };
    return {
      kind: 'grants',
      name: 'grant',
      label: `Grants for ${profile.name}`,
      actions: actionNames,
      objects: [wildcard, ...objects].map((object) => ({
        label: labels[object] ?? object,
        cells: actionNames.map((action) => {
          const isImplied = resourceNames.includes(object) && has(draft, wildcard, action);
          return {
            value: `${object}:${action}`,
            name: `${profile.name}: ${action} on ${labels[object] ?? object}${isImplied ? ', granted on everything' : ''}`,
            granted: isImplied || has(draft, object, action),
            fixed: isImplied,
          };
        }),
      })),
    };
  };
  const summary = (profile: Profile): string => {
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
  };

  section(app, database, {
    name: 'profiles',
    title: 'Profiles',
    done: {
      'profile-created': '{} created. Choose its grants.',
      'profile-changed': '{} updated.',
      'profile-deleted': '{} deleted.',
    },
    load: async ({ membership: { organization, slug } }, request) => {
      const create = { label: 'Create profile', href: `/setup/o/${slug}/profiles/create` };
      return {
        primary: create,
        ...listing(request, await listProfiles(tablesOf(database), organization), {
          searchLabel: 'Search profiles',
          text: ({ name }) => name,
          columns: [
            {
              title: 'Name',
              cell: ({ id, name, builtIn }) => ({
                text: name,
                href: `/setup/o/${slug}/profiles/${builtIn ? 'built-in' : 'change'}?id=${id}`,
              }),
              by: ({ name }) => name,
            },
            { title: 'Grants', cell: (profile) => ({ text: summary(profile) }) },
            { title: 'Kind', cell: ({ builtIn }) => ({ text: builtIn ? 'built in' : 'custom' }) },
          ],
          row: ({ id, name, builtIn }) => ({
            id,
            links: builtIn
              ? []
              : [
                  {
                    label: 'Change',
                    name: `Change ${name}`,
                    href: `/setup/o/${slug}/profiles/change?id=${id}`,
                  },
                  {
                    label: 'Delete',
                    name: `Delete ${name}`,
                    href: `/setup/o/${slug}/profiles/delete?id=${id}`,
                  },
                ],
          }),
          empty: { text: 'A profile defines what its members and keys can do.', link: create },
        }),
      };
    },
    pages: {
      create: async ({ membership: { slug } }, { form, back }) => ({
        kind: 'form',
        title: 'Create a profile',
        action: `/setup/o/${slug}/profiles/create`,
        inputs: [
          nameInput(field(form, 'name'), 'A new profile has no grants. You add them in the next step.'),
        ],
        submit: 'Create profile',
        cancel: back,
      }),
      'built-in': async ({ membership: { organization } }, { form }) => {
        const profile = await profileOf(organization, form);
        return {
          kind: 'record',
          title: profile.name,
          intro: 'This profile is built in and cannot be changed.',
          values: objects.map((object) => ({
            label: object,
            text: actionsOn(profile, object).join(', ') || 'nothing',
          })),
        };
      },
      change: async ({ membership: { organization, slug } }, { form, back }) => {
        const profile = await profileOf(organization, form);
        assertCustom(profile);
        return {
          kind: 'form',
          title: profile.name,
          intro:
            'Actions that members and keys with this profile can perform. A check in the first row applies to every row.',
          action: `/setup/o/${slug}/profiles/change`,
          hidden: [{ name: 'id', value: profile.id }],
          inputs: [matrix(profile, fields(form, 'grant'))],
          submit: 'Save profile',
          cancel: back,
          danger: { label: 'Delete profile', href: `/setup/o/${slug}/profiles/delete?id=${profile.id}` },
        };
      },
      delete: async ({ membership: { organization, slug } }, { form, back }) => {
        const profile = await profileOf(organization, form);
        assertCustom(profile);
        const { id, name } = profile;
        return {
          kind: 'confirm',
          title: `Delete ${name}?`,
          consequence:
            'A profile can only be deleted if it is not used by a member, live key or open invitation. Revoked and expired keys with this profile are deleted too.',
          action: `/setup/o/${slug}/profiles/delete`,
          hidden: [{ name: 'id', value: id }],
          submit: 'Delete profile',
          cancel: back,
        };
      },
    },
    once: ['create'],
    actions: {
      create: async ({ membership: { organization }, actor, transact }, form) => {
        const name = field(form, 'name');
        const id = await transact((tables) => createProfile(tables, actor, organization, name, []));
        return { done: 'profile-created', name: name.trim(), id };
      },
      change: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const texts = fields(form, 'grant');
        if (texts.length > 1000) throw new UserError('too many grants');
        const grants = texts.map((text) => parseGrant(text, objects));
        await transact((tables) => changeProfile(tables, actor, organization, id, grants));
        return { done: 'profile-changed', name: (await profileOf(organization, form)).name, id };
      },
      delete: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const { name } = await profileOf(organization, form);
        await transact((tables) => deleteProfile(tables, actor, organization, id));
        return { done: 'profile-deleted', name };
      },
    },
  });
}

/** Checks that a profile can be changed. @throws UserError if the profile is built in */
function assertCustom({ name, builtIn }: Profile): void {
  if (builtIn) throw new UserError(`the profile "${name}" cannot be changed`);
}
