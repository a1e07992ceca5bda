import type { FastifyInstance } from 'fastify';
import { HttpError } from '../../../engine/errors.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { type Form, field, languageOf, redirectGetToForm, safeNext } from '../../admin-ui/shell/index.ts';
import { findMemberships } from '../identity/index.ts';
import { attempts, networkOf } from '../rate-limiting/index.ts';
import { byPasskey, type LoginServices, sessionRoute } from './login.ts';
import { loginTexts } from './texts/index.ts';

/** Registers the routes for logging in with a passkey, which requires neither a password nor a code. */
export function passkeyLogin(app: FastifyInstance, { database }: LoginServices): void {
  const perNetwork = attempts('passkeys', { failures: 100, waiting: 100 });

  app.post(
    '/login/passkey',
    { preHandler: app.csrfProtection, config: sessionRoute },
    async (request, reply) => {
      const form = (request.body ?? {}) as Form;
      const next = safeNext(field(form, 'next'));
      try {
        const user = await perNetwork.run(networkOf(request), () => app.passkeys.use(request, form));
        if (user !== undefined) {
          const candidate = { user, memberships: await findMemberships(tablesOf(database), user.id) };
          const proof = { method: byPasskey, secondFactor: true };
          return await app.continueLogin(request, reply, candidate, { proof, next });
        }
        reply.code(401);
      } catch (error) {
        if (!(error instanceof HttpError) || (error.status !== 401 && error.status !== 429)) throw error;
        reply.code(error.status).headers(error.extra.headers ?? {});
      }
      request.log.warn({ address: request.ip, code: 'passkey' }, 'login rejected');
      const problem = loginTexts(languageOf(request))('passkeyUnknown');
      return app.showLogin(request, reply, { next, problem });
    },
  );

  redirectGetToForm(app, '/login/passkey', () => '/setup/login');
}
