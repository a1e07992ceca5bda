// Second factors: authenticator apps, recovery codes and passkeys, and the pages for setting them up.
// May import engine, secrets, identity, rate-limiting, admin-ui/shell.

import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Module } from '../../../engine/modules/index.ts';
import type { IdentityServices } from '../identity/index.ts';
import { renewSealed, sealing } from '../secrets/index.ts';
import { type CheckCode, codeCheck } from './codes.ts';
import { secondFactorPages } from './pages.ts';
import { type Passkeys, passkeys } from './passkeys.ts';

declare module 'fastify' {
  interface FastifyInstance {
    checkCode: CheckCode;
    passkeys: Passkeys;
  }
}

const register = fastifyPlugin(
  async (app: FastifyInstance, { database, secrets }: IdentityServices) => {
    const sealer = sealing(secrets);
    app.decorate('checkCode', codeCheck(database, sealer));
    app.decorate('passkeys', passkeys(app, database, secrets));
    renewSealed(app, database, sealer, 'crm_totps', ['secret'], ['user_id']);
  },
  { name: 'second-factor', fastify: '5.x', dependencies: ['session-authentication'] },
);

/** Users' second factors, and the pages for setting them up. */
export const secondFactorModule: Module<IdentityServices> = {
  name: 'second-factor',
  register: async (app, services) => {
    await app.register(register, services);
  },
  pages: secondFactorPages,
};
