import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Resource } from '../../../engine/compile/index.ts';
import { errors, HttpError } from '../../../engine/errors.ts';
import { isRowId, isStorable } from '../../../engine/fields/index.ts';
import { json, jsonId, rejectOtherMethods } from '../../../engine/http/index.ts';
import { pageSize } from '../../../engine/query/index.ts';
import { grantedActions, readBody } from '../../../engine/records/index.ts';
import { listRows, tablesOf, transaction } from '../../../engine/tables/index.ts';
import type { Language, Link, Text } from '../../admin-ui/shell/index.ts';
import type { Mailer } from '../../operations/mail/index.ts';
import {
  cookieName,
  endAllSessions,
  endReplacedSession,
  endSession,
  findMemberships,
  hasSecondFactor,
  type IdentityServices,
  type Membership,
  type Person,
  type Proof,
  recordEverywhere,
  type Session,
  type SessionInfo,
  sessionRows,
  startSession,
  tokens,
} from '../identity/index.ts';
import { failureWindowMinutes, type RateLimitingConfig } from '../rate-limiting/index.ts';
import { type Candidate, type Credentials, type PickUser, pickBy } from './candidates.ts';
import { credentialCheck, type LoginAttempt } from './credentials.ts';
import { loginTexts } from './texts/index.ts';

/**
 * Options of routes that start or end sessions. Unlike other writes, these are also allowed on a read-only instance.
 */
export const sessionRoute = { isServedReadOnly: true } as const;

/** Services required for logging in and for the login pages. */
export interface LoginServices extends IdentityServices {
  readonly resources: readonly Resource[];
  readonly config: IdentityServices['config'] & RateLimitingConfig;
  readonly mailer: Mailer;
}

/** Returns the text that explains how long to wait after too many failures. */
export const tooManyAttempts = (language: Language): Text =>
  loginTexts(language)('tooManyAttempts', { minutes: String(failureWindowMinutes) });

/** A link on the login page. */
interface LoginLink {
  readonly path: string;
  readonly label: string;
  /**
   * Whether the link is for a login method, which then redirects to the requested page, and not for a help
   * page.
   */
  readonly isLoginMethod?: boolean;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Functions that return the links on the login page according to the current configuration. */
    loginLinks: ((language: Language) => readonly LoginLink[])[];
    /** Functions that return sections of the personal page, or undefined if they are disabled. */
    personalSections: ((language: Language) => PersonalSection | undefined)[];
  }
}

/** A section of the personal page that links to another page. */
interface PersonalSection {
  readonly title: string;
  readonly text: string;
  readonly link: Link;
}

/** Adds a section to the personal page. */
export function addPersonalSection(
  app: FastifyInstance,
  section: (language: Language) => PersonalSection | undefined,
): void {
  app.personalSections.push(section);
}

/** Adds links to the login page. */
export function addLoginLinks(
  app: FastifyInstance,
  links: (language: Language) => readonly LoginLink[],
): void {
  app.loginLinks.push(links);
}

/**
 * Options for the routes below. The body limit, in bytes, leaves room for an email address and a password
 * however they are escaped.
 */
const routeOptions = { bodyLimit: 16 * 1024, config: sessionRoute };

/** Login method shown in the session list for a session started with a password. */
export const byPassword = 'Password';
/** Login method shown in the session list for a session started with a passkey. */
export const byPasskey = 'Passkey';
/** Returns the login method of a session that also required a code. `kind` is `code` or `recovery code`. */
export const withCode = (method: string, kind: string): string => `${method} and ${kind}`;
/** Returns the provider in a login method, or undefined for a password or a passkey. */
export function providerOf(method: string): string | undefined {
  const first = method.replace(/ and (?:recovery )?code$/, '');
  return first === byPassword || first === byPasskey ? undefined : first;
}

/** Routes for login, logout and the user's own sessions. The admin UI uses the same functions. */
export const login = fastifyPlugin(
  async (app: FastifyInstance, { config, database, secrets, resources }: LoginServices) => {
    const definitions = resources.map(({ definition }) => definition);
    const { site } = app;
    const { matchingUsers, remember } = credentialCheck({ database, secrets }, site);
    /**
     * Returns the session cookie's options. The cookie does not have a lifetime, because the server decides
     * when the session expires.
     */
    const cookieOptions = (request: FastifyRequest) => site.cookie(request, '/');
    const { sign } = tokens(secrets);

    app.decorate('loginLinks', []);
    app.decorate('personalSections', []);

    app.decorate('verify', async (request, { id, email }, password) => {
      for await (const users of matchingUsers(request, { email, password, id })) return users.length > 0;
      return false;
    });

    /** Selects the user to log in from the users whose password matches. */
    const findCandidate = async (
      request: FastifyRequest,
      attempt: Credentials & Pick<LoginAttempt, 'onUsers'>,
      pick: PickUser,
    ) => {
      for await (const users of matchingUsers(request, attempt)) {
        const candidates: Candidate[] = [];
        for (const user of users) {
          candidates.push({ user, memberships: await findMemberships(tablesOf(database), user.id) });
        }
        const candidate = pick(candidates);
        if (candidate !== undefined) return candidate;
      }
      throw errors.wrongPassword();
    };

    /**
     * Logs a rejected login and rethrows its error. A login that failed because of the service is not a rejected login.
     * @param users returns the IDs of users with the entered email address; the entered text is not logged, because it
     * may be a password
     */
    const logRejection = (request: FastifyRequest, users: () => readonly string[]) => (cause: unknown) => {
      if (cause instanceof HttpError && cause.status < 500)
        request.log.warn({ address: request.ip, users: users(), code: cause.code }, 'login rejected');
      throw cause;
    };

    app.decorate('provePassword', (request, credentials, pick = pickBy(undefined)) => {
      let users: readonly string[] = [];
      const onUsers = (ids: readonly string[]) => {
        users = ids;
      };
      return findCandidate(request, { ...credentials, onUsers }, pick).catch(
        logRejection(request, () => users),
      );
    });

    /**
     * Returns the proof for a user who has sent the correct password and possibly a code.
     * @throws HttpError 401 if a second factor is missing, wrong or not set up; 429 after too many wrong codes
     */
    const proofOf = async ({ user, memberships }: Candidate, otp: string | undefined): Promise<Proof> => {
      if (!(await hasSecondFactor(tablesOf(database), user.id))) {
        if (app.needsSecondFactor(memberships.values())) throw errors.secondFactorMissing();
        return { method: byPassword, secondFactor: false };
      }
      if (otp === undefined) throw errors.secondFactorRequired();
      const kind = await app.checkCode(user.id, otp);
      if (kind === undefined) throw errors.wrongSecondFactor();
      return { method: withCode(byPassword, kind), secondFactor: true };
    };

    app.decorate('logInAs', async (request, reply, { user, memberships }, proof) => {
      const previousToken = request.cookies[cookieName(site, request)];
      const { session, endedSession } = await transaction(database, async (tables) => {
        const endedSession =
          previousToken === undefined
            ? undefined
            : await endReplacedSession(tables, (previous) => app.actor(request, previous), previousToken);
        const session = await startSession(tables, user.id, {
          durationMs: config.sessionMs,
          userAgent: String(request.headers['user-agent'] ?? ''),
          tokenVersion: user.tokenVersion,
          proof,
        });
        if (session === undefined) throw errors.wrongPassword();
        const organizations = [...memberships.values()].map((membership) => membership.organization);
        await recordEverywhere(tables, app.actor(request, user), organizations, 'login', session.id);
        return { session, endedSession };
      });
      if (endedSession !== undefined) app.forgetSession({ token: previousToken, jti: endedSession.jti });
      reply.setCookie(cookieName(site, request), session.token, cookieOptions(request));
      remember(request, reply, user.id);
      return {
        user: { id: user.id, email: user.email, name: user.name },
        jti: session.jti,
        tokenVersion: user.tokenVersion,
        expires: session.expires,
        memberships,
      };
    });

    const forget = (request: FastifyRequest, reply: FastifyReply, session: Session) => {
      app.forgetSession({ token: request.cookies[cookieName(site, request)], jti: session.jti });
      reply.clearCookie(cookieName(site, request), cookieOptions(request));
    };
    app.decorate('logOut', async (request, reply, session) => {
      const actor = app.actor(request, session.user);
      await transaction(database, (tables) =>
        endSession(tables, actor, session.user.id, session.id, organizationsOf(session)),
      );
      forget(request, reply, session);
    });
    app.decorate('logOutEverywhere', async (request, reply, session) => {
      const actor = app.actor(request, session.user);
      await transaction(database, (tables) =>
        endAllSessions(tables, actor, session.user.id, organizationsOf(session)),
      );
      forget(request, reply, session);
    });

    app.post('/auth/login', routeOptions, async (request, reply) => {
      const { email, password, organization, otp } = readBody(request.headers['content-type'], request.body);
      const input = {
        email,
        password,
        ...(organization === undefined ? {} : { organization }),
        ...(otp === undefined ? {} : { otp }),
      };
      const issues = Object.entries(input)
        .filter(([, value]) => typeof value !== 'string' || !isStorable(value))
        .map(([field]) => ({ field, message: `${field} must be a string` }));
      if (issues.length > 0) throw errors.invalidFields(issues);
      const credentials = { email: String(email), password: String(password) };
      const slug = organization === undefined ? undefined : String(organization);
      const candidate = await app.provePassword(request, credentials, pickBy(slug));
      const proof = await proofOf(candidate, otp === undefined ? undefined : String(otp)).catch(
        logRejection(request, () => [candidate.user.id]),
      );
      const result = await app.logInAs(request, reply, candidate, proof);
      const token = await sign(
        { user: result.user.id, jti: result.jti, version: result.tokenVersion },
        result.expires,
      );
      return respond(reply, {
        access_token: token,
        token_type: 'Bearer',
        expires_in: Math.floor((result.expires.getTime() - Date.now()) / 1000),
        user: describeUser(result.user),
        organizations: [...result.memberships.values()].map(organizationOf),
      });
    });

    app.post('/auth/logout', routeOptions, async (request, reply) => {
      const { session } = await app.identify(request, { settingUp: true });
      await app.logOut(request, reply, session);
      return respond(reply, { ok: true });
    });

    app.post('/auth/logout-everywhere', routeOptions, async (request, reply) => {
      const { session } = await app.identify(request);
      await app.logOutEverywhere(request, reply, session);
      return respond(reply, { ok: true });
    });

    app.get('/auth/me', async (request, reply) => {
      const holder = await app.identifyHolder(request);
      if (holder !== undefined) {
        const { key, organization, grants } = holder;
        const { profile, on_behalf_of: member } = key;
        return respond(reply, {
          user: null,
          organizations: [{ ...organization, id: jsonId(organization.id), profile, grants }],
          key: {
            ...key,
            id: jsonId(key.id),
            ...(member !== undefined && { on_behalf_of: { ...member, id: jsonId(member.id) } }),
          },
          grants,
          limits: limitsOf(request, config),
        });
      }
      const { session } = await app.identify(request);
      return respond(reply, {
        user: describeUser(session.user),
        organizations: [...session.memberships.values()].map((membership) => ({
          ...organizationOf(membership),
          profile: membership.profile,
          grants: grantedActions(membership.grants, definitions),
        })),
        limits: limitsOf(request, config),
      });
    });

    app.get('/auth/sessions', async (request, reply) => {
      const person = await app.identify(request);
      const sessions = await listRows(tablesOf(database), sessionRows, person.session.user.id);
      return respond(reply, { data: sessions.map((session) => describe(session, person)) });
    });

    app.delete<{ Params: { id: string } }>('/auth/sessions/:id', routeOptions, async (request, reply) => {
      const { session } = await app.identify(request);
      const { id } = request.params;
      if (!isRowId(id)) throw errors.notFound();
      const actor = app.actor(request, session.user);
      const ended = await transaction(database, (tables) =>
        endSession(tables, actor, session.user.id, id, organizationsOf(session)),
      );
      if (!ended) throw errors.notFound();
      if (id === session.id) forget(request, reply, session);
      return respond(reply, { ok: true });
    });

    for (const url of ['/auth/login', '/auth/logout', '/auth/logout-everywhere']) {
      rejectOtherMethods(app, url, ['POST']);
    }
    for (const url of ['/auth/me', '/auth/sessions']) rejectOtherMethods(app, url, ['GET', 'HEAD']);
    rejectOtherMethods(app, '/auth/sessions/:id', ['DELETE']);
  },
  {
    name: 'login',
    fastify: '5.x',
    dependencies: ['errors', 'session-authentication', 'key-authentication', 'second-factor'],
  },
);

/** Returns the IDs of a user's organizations. */
export const organizationsOf = (session: Session): string[] =>
  [...session.memberships.values()].map((membership) => membership.organization);

const describeUser = ({ id, email, name }: Omit<Session['user'], 'language'>) => ({
  id: jsonId(id),
  email,
  ...(name !== null && { name }),
});

const organizationOf = ({ organization, slug, name }: Membership) => ({
  id: jsonId(organization),
  slug,
  name,
});

/** Returns the limits that apply to a caller's requests. */
const limitsOf = ({ routeOptions }: FastifyRequest, { rateLimit }: RateLimitingConfig) => ({
  per_page: pageSize,
  body_bytes: routeOptions.bodyLimit,
  rate:
    rateLimit === undefined
      ? null
      : { requests: rateLimit.requests, window_seconds: rateLimit.windowMs / 1000 },
});

const describe = ({ id, ...rest }: SessionInfo, { session }: Person) => ({
  id: jsonId(id),
  ...rest,
  current: id === session.id,
});

function respond(reply: FastifyReply, body: object): string {
  reply.header('content-type', json).header('cache-control', 'no-store');
  return JSON.stringify(body);
}
