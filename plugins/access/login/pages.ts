import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { HttpError, UserError } from '../../../engine/errors.ts';
import { tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  type Form,
  field,
  languageOf,
  membershipsOf,
  messageIn,
  personOf,
  recentMemberships,
  render,
  safeNext,
  signedIn,
  type ViewData,
  viewsIn,
} from '../../admin-ui/shell/index.ts';
import { maxPersonName, minPasswordLength } from '../identity/index.ts';
import { acceptInvite, type OpenInvite, openInvite } from '../members/index.ts';
import { type Candidate, pickBy } from './candidates.ts';
import { byPassword, type LoginServices, sessionRoute, tooManyAttempts } from './login.ts';
import { loginTexts } from './texts/index.ts';

const view = viewsIn(import.meta.dirname);

declare module 'fastify' {
  interface FastifyInstance {
    /** Shows the login page. @param more additional view data, for example the error message `problem` */
    showLogin: (request: FastifyRequest, reply: FastifyReply, more?: ViewData) => Promise<string>;
  }
}

/** Registers the pages for login, logout and invitations, and the redirect from /setup. */
export function loginPages(app: FastifyInstance, { config, database }: LoginServices): void {
  const showLogin = async (request: FastifyRequest, reply: FastifyReply, more: ViewData = {}) => {
    const next = more.next ?? safeNext((request.query as { next?: unknown }).next);
    const language = languageOf(request);
    const links = app.loginLinks.flatMap((getLinks) => getLinks(language));
    return render(request, reply, view('login'), {
      language,
      title: loginTexts(language)('logInTitle'),
      waysIn: links
        .filter(({ isLoginMethod }) => isLoginMethod)
        .map((link) => ({ ...link, path: `${link.path}?next=${encodeURIComponent(String(next))}` })),
      passkey: await app.passkeys.offer(request),
      links: links.filter(({ isLoginMethod }) => !isLoginMethod),
      organization: (request.query as { organization?: unknown }).organization,
      ...more,
      next,
    });
  };
  app.decorate('showLogin', showLogin);

  app.get('/', { preHandler: signedIn(app) }, async (request, reply) => {
    const person = personOf(request);
    const [first] = [...recentMemberships(request, person), ...membershipsOf(person)];
    return reply.redirect(first === undefined ? '/setup/me' : `/setup/o/${first.slug}`, 303);
  });

  app.get('/login', async (request, reply) => showLogin(request, reply));

  app.post('/login', { preHandler: app.csrfProtection, config: sessionRoute }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const next = safeNext(field(form, 'next'));
    const email = field(form, 'email');
    const organization = field(form, 'organization') || undefined;
    let candidates: readonly Candidate[] = [];
    try {
      const credentials = { email, password: field(form, 'password') };
      const candidate = await app.provePassword(request, credentials, (users) => {
        if (users.length < 2 || organization !== undefined) return pickBy(organization)(users);
        candidates = users;
        return undefined;
      });
      const proof = { method: byPassword, secondFactor: false };
      return await app.continueLogin(request, reply, candidate, { proof, next });
    } catch (error) {
      if (!(error instanceof HttpError) || (error.status !== 401 && error.status !== 429)) throw error;
      const organizations = candidates.flatMap(({ memberships }) => [...memberships.values()]);
      const t = loginTexts(languageOf(request));
      const problem =
        error.status === 429
          ? tooManyAttempts(languageOf(request))
          : candidates.length > 0
            ? t('severalUsers')
            : t('wrongPassword');
      reply.code(error.status);
      if (error.status === 429) reply.headers(error.extra.headers ?? {});
      return showLogin(request, reply, {
        next,
        problem,
        organization,
        organizations,
        email: email.slice(0, 254),
      });
    }
  });

  app.post(
    '/logout',
    { preHandler: [signedIn(app, { settingUp: true }), app.csrfProtection], config: sessionRoute },
    async (request, reply) => {
      await app.logOut(request, reply, personOf(request).session);
      return reply.redirect('/setup/login?done=logged-out', 303);
    },
  );

  const showInvite = (request: FastifyRequest, reply: FastifyReply, more: ViewData = {}) =>
    render(request, reply, view('invite'), {
      language: languageOf(request),
      title: loginTexts(languageOf(request))('acceptTitle'),
      minPassword: minPasswordLength,
      id: (request.params as { id: string }).id,
      ...more,
    });

  app.get('/invite/:id', async (request, reply) => showInvite(request, reply));

  // The first form asks only for the code, so that only the code's holder learns whether the user exists.
  app.post('/invite/:id', { preHandler: app.csrfProtection }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const { id: publicId } = request.params as { id: string };
    const code = field(form, 'code');
    let invite: OpenInvite | undefined;
    const show = (more: ViewData = {}) => {
      const name = form.name === undefined ? invite?.personName : field(form, 'name').slice(0, maxPersonName);
      return showInvite(request, reply, { code, invite, name, maxName: maxPersonName, ...more });
    };
    try {
      invite = await openInvite(tablesOf(database), { publicId, code });
      if (form.password === undefined) return await show();
      const { user } = invite;
      const password = field(form, 'password');
      const verifiedUserId =
        user?.verified === true && (await app.verify(request, user, password)) ? user.id : undefined;
      await transaction(database, (tables) =>
        acceptInvite(
          tables,
          { requestId: request.id, audited: config.audit },
          {
            ...{ publicId, code, password, verifiedUserId },
            name: form.name === undefined ? undefined : field(form, 'name'),
          },
        ),
      );
      return await reply.redirect(`/setup/login?done=invite-accepted&organization=${invite.slug}`, 303);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return show({ problem: messageIn(error, languageOf(request)) });
    }
  });
}
