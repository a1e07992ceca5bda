import type { Module } from '../../../engine/modules/index.ts';
import { type IdentityServices, sessionAuthentication, sessionVariables } from './authentication.ts';
import { identityTables } from './tables.ts';

/** Users, their sessions, and the authentication of requests. */
export const identityModule: Module<IdentityServices> = {
  name: 'identity',
  tables: identityTables,
  variables: sessionVariables,
  register: async (app, services) => {
    await app.register(sessionAuthentication, services);
  },
};
