import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { HttpError, UserError } from '../../engine/errors.ts';
import { acceptInvite, transaction } from '../../engine/platform/index.ts';
import type { Setup } from './index.ts';
import { administrated, type Form, field, personOf, render, type Shown, safeNext, signedIn } from './page.ts';

/** Login, logout, invitations, and the way in. */
export function entryPages(app: FastifyInstance, { config, database }: Setup): void {
  const showLogin = (request: FastifyRequest, reply: FastifyReply, more: Shown = {}) =>
    render(request, reply, 'login', {
      title: 'Log in',
      next: safeNext((request.query as { next?: unknown }).next),
      ...more,
    });

  app.get('/', { preHandler: signedIn(app) }, async (request, reply) => {
    const [first] = administrated(personOf(request));
    return reply.redirect(first === undefined ? '/setup/me' : `/setup/o/${first.slug}/keys`, 303);
  });

  app.get('/login', async (request, reply) => showLogin(request, reply));

  app.post('/login', { preHandler: app.csrfProtection }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const next = safeNext(field(form, 'next'));
    try {
      await app.logIn(request, reply, field(form, 'email'), field(form, 'password'));
      return await reply.redirect(next, 303);
    } catch (error) {
      if (!(error instanceof HttpError) || (error.status !== 401 && error.status !== 429)) throw error;
      const problem =
        error.status === 401
          ? 'The e-mail address or the password is wrong.'
          : 'Too many attempts. Wait a quarter of an hour and try again.';
      reply.code(error.status);
      if (error.status === 429) reply.headers(error.extra.headers ?? {});
      return showLogin(request, reply, { next, problem, email: field(form, 'email').slice(0, 254) });
    }
  });

  app.post('/logout', { preHandler: [signedIn(app), app.csrfProtection] }, async (request, reply) => {
    await app.logOut(request, reply, personOf(request).session);
    return reply.redirect('/setup/login?done=logged-out', 303);
  });

  const showInvite = (request: FastifyRequest, reply: FastifyReply, more: Shown = {}) =>
    render(request, reply, 'invite', {
      title: 'Accept an invitation',
      id: (request.params as { id: string }).id,
      ...more,
    });

  app.get('/invite/:id', async (request, reply) => showInvite(request, reply));

  app.post('/invite/:id', { preHandler: app.csrfProtection }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const password = field(form, 'password');
    try {
      await transaction(database, (tables) =>
        acceptInvite(
          tables,
          { requestId: request.id, noted: config.audit },
          {
            publicId: (request.params as { id: string }).id,
            code: field(form, 'code'),
            password,
            verify: async (email) => (await app.verify(request, email, password, tables)) !== undefined,
          },
        ),
      );
      return await reply.redirect('/setup/login?done=invite-accepted', 303);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return showInvite(request, reply, { problem: error.message });
    }
  });
}
