import type { FastifyInstance } from 'fastify';
import { UserError } from '../../engine/errors.ts';
import {
  changeProfile,
  createProfile,
  deleteProfile,
  listProfiles,
  parseGrant,
  platform,
} from '../../engine/platform/index.ts';
import { actionNames, everything } from '../../engine/records/index.ts';
import type { Setup } from './index.ts';
import { field, fields, idField, section } from './page.ts';

/** Profiles: a matrix of objects and actions. The objects are whatever the definitions say. */
export function profilePages(app: FastifyInstance, { database, resources }: Setup): void {
  const objects = resources.map((resource) => resource.name);
  const rows = [{ object: everything, label: 'everything, also what comes later' }].concat(
    objects.map((object) => ({ object, label: object })),
  );

  section(app, database, {
    name: 'profiles',
    title: 'Profiles',
    load: async ({ membership: { organization } }) => {
      const profiles = await listProfiles(platform(database), organization);
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
      create: async ({ membership: { organization }, by, transact }, form) => {
        const name = field(form, 'name');
        await transact((tables) => createProfile(tables, by, organization, name, []));
        return { done: 'profile-created' };
      },
      change: async ({ membership: { organization }, by, transact }, form) => {
        const id = idField(form, 'id');
        const given = fields(form, 'grant');
        if (given.length > 1000) throw new UserError('that is no set of grants');
        const grants = given.map((text) => parseGrant(text, objects));
        await transact((tables) => changeProfile(tables, by, organization, id, grants));
        return { done: 'profile-changed' };
      },
      delete: async ({ membership: { organization }, by, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => deleteProfile(tables, by, organization, id));
        return { done: 'profile-deleted' };
      },
    },
  });
}
