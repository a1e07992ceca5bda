import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import { actionNames, eventsObject, everything } from '../../engine/records/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { field, fields, idField, section, viewsIn } from '../screens/index.ts';
import {
  changeProfile,
  createProfile,
  deleteProfile,
  grantable,
  listProfiles,
  parseGrant,
} from './profiles.ts';

/** Profiles: a matrix of actions and objects, which are the resources of the definitions. */
export function profilePages(
  app: FastifyInstance,
  { database, resources }: { readonly database: Database; readonly resources: readonly Resource[] },
): void {
  const objects = grantable(resources);
  const rows = [
    { object: everything, label: 'everything, also what comes later' },
    ...resources.map(({ name }) => ({ object: name, label: name })),
    { object: eventsObject, label: 'events: where changes are sent (not part of everything)' },
  ];

  section(app, database, {
    name: 'profiles',
    title: 'Profiles',
    view: viewsIn(import.meta.dirname)('profiles'),
    done: {
      'profile-created': 'The profile is made. Choose what it grants.',
      'profile-changed': 'The profile is changed.',
      'profile-deleted': 'The profile is deleted.',
    },
    load: async ({ membership: { organization } }) => {
      const profiles = await listProfiles(tablesOf(database), organization);
      return {
        actions: actionNames,
        profiles: profiles.map(({ id, name, builtIn, grants }) => ({
          id,
          name,
          builtIn,
          rows: rows.map(({ object, label }) => ({
            label,
            cells: actionNames.map((action) => ({
              action,
              value: `${object}:${action}`,
              granted: grants.has(`${object}:${action}`) || grants.has(`${object}:${everything}`),
            })),
          })),
        })),
      };
    },
    once: ['create'],
    actions: {
      create: async ({ membership: { organization }, actor, transact }, form) => {
        const name = field(form, 'name');
        await transact((tables) => createProfile(tables, actor, organization, name, []));
        return { done: 'profile-created' };
      },
      change: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const given = fields(form, 'grant');
        if (given.length > 1000) throw new UserError('that is no set of grants');
        const grants = given.map((text) => parseGrant(text, objects));
        await transact((tables) => changeProfile(tables, actor, organization, id, grants));
        return { done: 'profile-changed' };
      },
      delete: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => deleteProfile(tables, actor, organization, id));
        return { done: 'profile-deleted' };
      },
    },
  });
}
