import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { UserError } from '../../engine/errors.ts';
import {
  changePassword,
  endAllSessions,
  endSession,
  listSessions,
  platform,
  transaction,
} from '../../engine/platform/index.ts';
import type { Setup } from './index.ts';
import { type Form, field, idField, personOf, render, type Shown, signedIn } from './page.ts';

/** A person's own page: sessions and password. */
export function accountPages(app: FastifyInstance, { database }: Setup): void {
  const show = async (request: FastifyRequest, reply: FastifyReply, more: Shown = {}) => {
    const { session } = personOf(request);
    const all = await listSessions(platform(database), session.user.id);
    return render(request, reply, 'account', {
      title: 'Your account',
      sessions: all.map((each) => ({ ...each, current: each.id === session.id })),
      memberships: [...session.memberships.values()],
      ...more,
    });
  };
  const organizationsOf = (request: FastifyRequest) =>
    [...personOf(request).session.memberships.values()].map((membership) => membership.organization);
  const preHandler = [signedIn(app), app.csrfProtection];

  app.get('/account', { preHandler: signedIn(app) }, async (request, reply) => show(request, reply));

  app.post('/account/end-session', { preHandler }, async (request, reply) => {
    const { session } = personOf(request);
    const id = idField((request.body ?? {}) as Form, 'id');
    const by = app.actor(request, session.user.id);
    await transaction(database, (tables) =>
      endSession(tables, by, session.user.id, id, organizationsOf(request)),
    );
    return reply.redirect('/setup/account?done=session-ended', 303);
  });

  app.post('/account/logout-everywhere', { preHandler }, async (request, reply) => {
    await app.logOutEverywhere(request, reply, personOf(request).session);
    return reply.redirect('/setup/login?done=logged-out', 303);
  });

  app.post('/account/password', { preHandler }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const { session } = personOf(request);
    try {
      if (field(form, 'new') !== field(form, 'again')) throw new UserError('the new passwords differ');
      await transaction(database, async (tables) => {
        await changePassword(tables, session.user, field(form, 'current'), field(form, 'new'));
        const by = app.actor(request, session.user.id);
        await endAllSessions(tables, by, session.user.id, organizationsOf(request));
      });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return show(request, reply, { problem: error.message });
    }
    // The sessions that somebody else may have are gone; this one begins anew.
    await app.logIn(request, reply, session.user.email, field(form, 'new'));
    return reply.redirect('/setup/account?done=password-changed', 303);
  });
}
