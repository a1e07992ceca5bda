import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { UserError } from '../../../engine/errors.ts';
import { tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  type Form,
  field,
  idField,
  type Language,
  type ListContext,
  type ListDefinition,
  languageOf,
  languages,
  listData,
  membershipsOf,
  messageIn,
  personOf,
  redirectGetToForm,
  render,
  signedIn,
  TranslatedError,
  userList,
  type ViewData,
  viewsIn,
} from '../../admin-ui/shell/index.ts';
import {
  changeLanguage,
  changeName,
  changePassword,
  cookieName,
  endAllSessions,
  endSession,
  hasSecondFactor,
  maxPersonName,
  minPasswordLength,
  recordEverywhere,
  type SessionInfo,
  sessionRows,
} from '../identity/index.ts';
import { type LoginServices, organizationsOf, providerOf, sessionRoute } from './login.ts';
import { loginTexts } from './texts/index.ts';

/**
 * User agent patterns with the name of the program that each identifies. The order matters, because some user
 * agents also contain the names of other programs.
 */
const programs: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:HeadlessChrome|Chrome|CriOS)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/^curl\//, 'curl'],
  [/^(?:node|undici)\b/, 'Node.js'],
];
const systems: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/iPhone/, 'iPhone'],
  [/iPad/, 'iPad'],
  [/Android/, 'Android'],
  [/Windows/, 'Windows'],
  [/Mac OS X|Macintosh/, 'macOS'],
  [/CrOS/, 'ChromeOS'],
  [/Linux/, 'Linux'],
];

/** Returns a recognizable name for a browser or client, for example "Firefox on Windows". */
function deviceName(userAgent: string, t: ReturnType<typeof loginTexts>): string {
  const find = (patterns: typeof programs) => patterns.find(([pattern]) => pattern.test(userAgent))?.[1];
  const [program, system] = [find(programs), find(systems)];
  if (program === undefined)
    return userAgent === '' ? t('unknownDevice') : (userAgent.split(/[\s/]/, 1)[0] ?? '').slice(0, 40);
  return system === undefined ? program : t('programOn', { program, system });
}

const view = viewsIn(import.meta.dirname);

/** Returns a language's name in this language. */
const nameOf = (language: Language): string =>
  new Intl.DisplayNames(language, { type: 'language' }).of(language) ?? language;
const path = '/setup/me';

/** Maximum number of organizations listed on the page. The organizations page lists all of them. */
const maxListed = 10;

const { later } = loginTexts;

/** The user's sessions. */
const sessions: ListDefinition<SessionInfo, ListContext<LoginServices>> = {
  source: sessionRows,
  plural: later('sessionWords'),
  columns: [
    {
      title: later('device'),
      cell: ({ id, user_agent }, { request, language }) => {
        const t = loginTexts(language);
        const device = deviceName(user_agent, t);
        const isCurrent = id === personOf(request).session.id;
        return { text: isCurrent ? t('thisSession', { device }) : device, below: user_agent };
      },
    },
    { title: later('method'), cell: ({ method }) => ({ text: method }), by: 's.method' },
    { title: later('since'), cell: ({ created_at }) => ({ time: created_at }), by: 's.created_at' },
    {
      title: later('lastUsed'),
      cell: ({ id, last_seen_at }, { app }) => ({ time: app.sessionLastUsed(id) ?? last_seen_at }),
      by: 's.last_seen_at',
    },
    { title: later('ends'), cell: ({ expires_at }) => ({ time: expires_at }), by: 's.expires_at' },
  ],
  empty: later('noSessions'),
  menu: ({ id }, { request, language, urlOf }) => {
    const t = loginTexts(language);
    const fields = [{ name: 'id', value: id }];
    const end = { label: t('end'), name: t('endSession', { id }), action: urlOf('end-session'), fields };
    return { buttons: id === personOf(request).session.id ? [] : [end] };
  },
};

/** Registers the user's own page for managing sessions and the password. */
export function personalPages(app: FastifyInstance, services: LoginServices): void {
  const { database } = services;
  const listSessions = userList(app, services, path, sessions);
  const show = async (request: FastifyRequest, reply: FastifyReply, more: ViewData = {}) => {
    const { session } = personOf(request);
    const language = languageOf(request);
    const t = loginTexts(language);
    const list = await listSessions(request);
    const memberships = membershipsOf(personOf(request));
    return render(request, reply, view('me'), {
      language,
      title: t('you'),
      sessionList: { ...list, ...listData(list, request, language), title: t('sessions'), path },
      isMe: true,
      name: session.user.name,
      maxName: maxPersonName,
      minPassword: minPasswordLength,
      hasSecondFactor: await hasSecondFactor(tablesOf(database), session.user.id),
      provider: providerOf(session.method),
      personalSections: app.personalSections.flatMap((section) => section(language) ?? []),
      memberships: memberships.slice(0, maxListed),
      hasMore: memberships.length > maxListed,
      organizations: memberships.length,
      languages: [
        { value: '', label: t('asInBrowser') },
        ...languages.map((value) => ({ value, label: nameOf(value) })),
      ].map((option) => ({ ...option, selected: option.value === (session.user.language ?? '') })),
      ...more,
    });
  };
  const preHandler = [signedIn(app), app.csrfProtection];

  app.get('/me', { preHandler: signedIn(app) }, async (request, reply) => show(request, reply));

  app.post('/me/end-session', { preHandler, config: sessionRoute }, async (request, reply) => {
    const { session } = personOf(request);
    const id = idField((request.body ?? {}) as Form, 'id');
    const actor = app.actor(request, session.user);
    await transaction(database, (tables) =>
      endSession(tables, actor, session.user.id, id, organizationsOf(session)),
    );
    return reply.redirect('/setup/me?done=session-ended', 303);
  });

  app.post('/me/logout-everywhere', { preHandler, config: sessionRoute }, async (request, reply) => {
    await app.logOutEverywhere(request, reply, personOf(request).session);
    return reply.redirect('/setup/login?done=logged-out', 303);
  });

  app.post('/me/name', { preHandler }, async (request, reply) => {
    const { session } = personOf(request);
    const name = field((request.body ?? {}) as Form, 'name');
    try {
      await transaction(database, async (tables) => {
        await changeName(tables, session.user.id, name);
        const actor = app.actor(request, session.user);
        await recordEverywhere(tables, actor, organizationsOf(session), 'change name', null);
      });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      const problem = messageIn(error, languageOf(request));
      return show(request, reply, { problem, name: name.slice(0, maxPersonName) });
    }
    app.forgetSession({ token: request.cookies[cookieName(app.site, request)], jti: session.jti });
    return reply.redirect('/setup/me?done=name-changed', 303);
  });

  app.post('/me/language', { preHandler }, async (request, reply) => {
    const { session } = personOf(request);
    const chosen = field((request.body ?? {}) as Form, 'language');
    const language = languages.find((candidate) => candidate === chosen) ?? null;
    await transaction(database, (tables) => changeLanguage(tables, session.user.id, language));
    app.forgetSession({ token: request.cookies[cookieName(app.site, request)], jti: session.jti });
    return reply.redirect('/setup/me?done=language-changed', 303);
  });

  app.post('/me/password', { preHandler }, async (request, reply) => {
    const form = (request.body ?? {}) as Form;
    const { session } = personOf(request);
    try {
      if (field(form, 'new') !== field(form, 'again'))
        throw new TranslatedError(loginTexts.later('passwordsDiffer'));
      if (!(await app.verify(request, session.user, field(form, 'current')))) {
        throw new TranslatedError(loginTexts.later('wrongCurrentPassword'));
      }
      await transaction(database, async (tables) => {
        await changePassword(tables, session.user, field(form, 'new'));
        const actor = app.actor(request, session.user);
        const organizations = organizationsOf(session);
        await recordEverywhere(tables, actor, organizations, 'change password', null);
        await endAllSessions(tables, actor, session.user.id, organizations);
      });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return show(request, reply, { problem: messageIn(error, languageOf(request)) });
    }
    // All sessions were ended, because an attacker may have had one. This browser starts a new session.
    const credentials = { email: session.user.email, password: field(form, 'new') };
    const candidate = await app.provePassword(request, credentials, (users) =>
      users.find(({ user }) => user.id === session.user.id),
    );
    await app.logInAs(request, reply, candidate, session);
    return reply.redirect('/setup/me?done=password-changed', 303);
  });

  for (const action of ['end-session', 'logout-everywhere', 'name', 'language', 'password']) {
    redirectGetToForm(app, `/me/${action}`, () => '/setup/me');
  }
}
