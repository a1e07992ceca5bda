import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { UserError } from '../../engine/errors.ts';
import {
  changePassword,
  endAllSessions,
  endSession,
  listSessions,
  noteEverywhere,
  platform,
  transaction,
} from '../../engine/platform/index.ts';
import { organizationsOf } from '../login.ts';
import type { Setup } from './index.ts';
import { type Form, field, getBack, idField, personOf, render, type Shown, signedIn } from './page.ts';

/** A person's own page: sessions and password. */
export function myPages(app: FastifyInstance, { database }: Setup): void {
  const show = async (request: FastifyRequest, reply: FastifyReply, more: Shown = {}) => {
    const { session } = personOf(request);
    const all = await listSessions(platform(database), session.user.id);
    return render(request, reply, 'me', {
      title: 'You',
      sessions: all.map((each) => ({
        ...each,
        current: each.id === session.id,
        last_seen_at: app.lastUsed.session(each.id) ?? each.last_seen_at,
      })),
      memberships: [...session.memberships.values()],
      ...more,
    });
  };
  const preHandler = [signedIn(app), app.csrfProtection];

  app.get('/me', { preHandler: signedIn(app) }, async (request, reply) => show(request, reply));

  app.post('/me/end-session', { preHandler }, async (request, reply) => {
    const { session } = personOf(request);
    const id = idField((request.body ?? {}) as Form, 'id');
    const by = app.actor(request, session.user.id);
    await transaction(database, (tables) =>
      endSession(tables, by, session.user.id, id, organizationsOf(session)),
    );
    return reply.redirect('/setup/me?done=session-ended', 303);
  });

  app.post('/me/logout-everywhere', { preHandler }, async (request, reply) => {
    await app.logOutEverywhere(request, reply, personOf(request).session);
    return reply.redirect('/setup/login?done=logged-out', 303);
  });

  app.post('/me/password', { preHandler }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const { session } = personOf(request);
    try {
      if (field(form, 'new') !== field(form, 'again')) throw new UserError('the new passwords differ');
      if (!(await app.verify(request, session.user, field(form, 'current')))) {
        throw new UserError('the current password is wrong');
      }
      await transaction(database, async (tables) => {
        await changePassword(tables, session.user, field(form, 'new'));
        const by = app.actor(request, session.user.id);
        const organizations = organizationsOf(session);
        await noteEverywhere(tables, by, organizations, 'change password', null);
        await endAllSessions(tables, by, session.user.id, organizations);
      });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return show(request, reply, { problem: error.message });
    }
    // The sessions that somebody else may have are gone; this one begins anew.
    await app.logIn(request, reply, { email: session.user.email, password: field(form, 'new') }, (users) =>
      users.find(({ user }) => user.id === session.user.id),
    );
    return reply.redirect('/setup/me?done=password-changed', 303);
  });

  for (const action of ['end-session', 'logout-everywhere', 'password']) {
    getBack(app, `/me/${action}`, () => '/setup/me');
  }
}
