import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { errors } from '../../../engine/errors.ts';
import { isRowId, isStorable } from '../../../engine/fields/index.ts';
import { json, jsonId, rejectOtherMethods } from '../../../engine/http/index.ts';
import { pageSize } from '../../../engine/query/index.ts';
import { grantedActions, readBody } from '../../../engine/records/index.ts';
import { tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  cookieName,
  endAllSessions,
  endReplacedSession,
  endSession,
  findMemberships,
  hasSecondFactor,
  listSessions,
  type Membership,
  type Person,
  type Proof,
  recordEverywhere,
  type Session,
  startSession,
  tokens,
} from '../identity/index.ts';
import type { RateLimitingConfig } from '../rate-limiting/index.ts';
import { type Candidate, type Credentials, type PickUser, pickBy } from './candidates.ts';
import { type Attempt, credentialCheck } from './credentials.ts';
import { type LoginServices, sessionRoute } from './services.ts';

/** Of these paths: the limit of bodies, in bytes: an address and a password, in any escaping. Sessions begin and end at any time. */
const small = { bodyLimit: 16 * 1024, config: sessionRoute };

/** How somebody logs in with a password, for the list of sessions. */
export const byPassword = 'Password';

/** Login, logout and a person's own sessions, as API; the screens use the same functions. */
export const login = fastifyPlugin(
  async (app: FastifyInstance, { config, database, secrets }: LoginServices) => {
    const { site } = app;
    const { fitting, remember } = credentialCheck({ database, secrets }, site);
    /** A session cookie, because the server decides when it expires. */
    const cookieOptions = (request: FastifyRequest) => site.cookie(request, '/');
    const { sign } = tokens(secrets);

    app.decorate('loginLinks', []);

    app.decorate('verify', async (request, { id, email }, password) => {
      for await (const users of fitting(request, { email, password, id })) return users.length > 0;
      return false;
    });

    /** Picks the user to log in to from those that the password matches. */
    const choose = async (
      request: FastifyRequest,
      attempt: Credentials & Pick<Attempt, 'found'>,
      pick: PickUser,
    ) => {
      for await (const users of fitting(request, attempt)) {
        const candidates: Candidate[] = [];
        for (const user of users) {
          candidates.push({ user, memberships: await findMemberships(tablesOf(database), user.id) });
        }
        const picked = pick(candidates);
        if (picked !== undefined) return picked;
      }
      throw errors.wrongPassword();
    };

    /**
     * Logs why somebody was not let in.
     * @param users whose e-mail address was typed, by ids, and not the text: it may be a password
     */
    const refused = (request: FastifyRequest, users: () => readonly string[]) => (cause: unknown) => {
      const { code } = cause as { code?: string };
      request.log.warn({ address: request.ip, users: users(), code }, 'login rejected');
      throw cause;
    };

    app.decorate('provePassword', (request, credentials, pick = pickBy(undefined)) => {
      let users: readonly string[] = [];
      const found = (ids: readonly string[]) => {
        users = ids;
      };
      return choose(request, { ...credentials, found }, pick).catch(refused(request, () => users));
    });

    /**
     * How a program proves to be a user whose password it knows.
     * @throws HttpError 401 if a second factor is needed and was not sent, is wrong or not set up; 429
     */
    const proofOf = async ({ user, memberships }: Candidate, otp: string | undefined): Promise<Proof> => {
      if (!(await hasSecondFactor(tablesOf(database), user.id))) {
        if (app.needsSecondFactor(memberships.values())) throw errors.secondFactorMissing();
        return { method: byPassword, secondFactor: false };
      }
      if (otp === undefined) throw errors.secondFactorRequired();
      const kind = await app.checkCode(user.id, otp);
      if (kind === undefined) throw errors.secondFactorRequired('otp is wrong or was used already');
      return { method: `${byPassword} and ${kind}`, secondFactor: true };
    };

    app.decorate('logInAs', async (request, reply, { user, memberships }, proof) => {
      const replaced = request.cookies[cookieName(site, request)];
      const { session, ended } = await transaction(database, async (tables) => {
        const ended =
          replaced === undefined
            ? undefined
            : await endReplacedSession(tables, (previous) => app.actor(request, previous), replaced);
        const session = await startSession(tables, user.id, {
          durationMs: config.sessionMs,
          userAgent: String(request.headers['user-agent'] ?? ''),
          tokenVersion: user.tokenVersion,
          proof,
        });
        if (session === undefined) throw errors.wrongPassword();
        const organizations = [...memberships.values()].map((membership) => membership.organization);
        await recordEverywhere(tables, app.actor(request, user), organizations, 'login', session.id);
        return { session, ended };
      });
      if (ended !== undefined) app.forgetSession({ token: replaced, jti: ended.jti });
      reply.setCookie(cookieName(site, request), session.token, cookieOptions(request));
      remember(request, reply, user.id);
      return {
        user: { id: user.id, email: user.email },
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

    app.post('/auth/login', small, async (request, reply) => {
      const { email, password, organization, otp } = readBody(request.headers['content-type'], request.body);
      const given = {
        email,
        password,
        ...(organization === undefined ? {} : { organization }),
        ...(otp === undefined ? {} : { otp }),
      };
      const wrong = Object.entries(given)
        .filter(([, value]) => typeof value !== 'string' || !isStorable(value))
        .map(([field]) => ({ field, message: `${field} must be a string` }));
      if (wrong.length > 0) throw errors.invalidFields(wrong);
      const credentials = { email: String(email), password: String(password) };
      const slug = organization === undefined ? undefined : String(organization);
      const proven = await app.provePassword(request, credentials, pickBy(slug));
      const proof = await proofOf(proven, otp === undefined ? undefined : String(otp)).catch(
        refused(request, () => [proven.user.id]),
      );
      const result = await app.logInAs(request, reply, proven, proof);
      const token = await sign(
        { user: result.user.id, jti: result.jti, version: result.tokenVersion },
        result.expires,
      );
      return respond(reply, {
        access_token: token,
        token_type: 'Bearer',
        expires_in: Math.floor((result.expires.getTime() - Date.now()) / 1000),
        user: { id: jsonId(result.user.id), email: result.user.email },
        organizations: [...result.memberships.values()].map(organizationOf),
      });
    });

    app.post('/auth/logout', small, async (request, reply) => {
      const { session } = await app.identify(request, { settingUp: true });
      await app.logOut(request, reply, session);
      return respond(reply, { ok: true });
    });

    app.post('/auth/logout-everywhere', small, async (request, reply) => {
      const { session } = await app.identify(request);
      await app.logOutEverywhere(request, reply, session);
      return respond(reply, { ok: true });
    });

    app.get('/auth/me', async (request, reply) => {
      const holder = await app.identifyHolder(request);
      if (holder !== undefined) {
        const { key, organization, grants } = holder;
        const { profile } = key;
        return respond(reply, {
          user: null,
          organizations: [{ ...organization, id: jsonId(organization.id), profile, grants }],
          key: { ...key, id: jsonId(key.id) },
          grants,
          limits: limitsOf(request, config),
        });
      }
      const { session } = await app.identify(request);
      return respond(reply, {
        user: { id: jsonId(session.user.id), email: session.user.email },
        organizations: [...session.memberships.values()].map((membership) => ({
          ...organizationOf(membership),
          profile: membership.profile,
          grants: grantedActions(membership.grants),
        })),
        limits: limitsOf(request, config),
      });
    });

    app.get('/auth/sessions', async (request, reply) => {
      const person = await app.identify(request);
      const all = await listSessions(tablesOf(database), person.session.user.id);
      return respond(reply, { data: all.map((each) => describe(each, person)) });
    });

    app.delete<{ Params: { id: string } }>('/auth/sessions/:id', small, async (request, reply) => {
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

/** Ids of the organizations of a person. */
export const organizationsOf = (session: Session): string[] =>
  [...session.memberships.values()].map((membership) => membership.organization);

const organizationOf = ({ organization, slug, name }: Membership) => ({
  id: jsonId(organization),
  slug,
  name,
});

/** What bounds the requests of a caller. */
const limitsOf = ({ routeOptions }: FastifyRequest, { rateLimit }: RateLimitingConfig) => ({
  per_page: pageSize,
  body_bytes: routeOptions.bodyLimit,
  rate:
    rateLimit === undefined
      ? null
      : { requests: rateLimit.requests, window_seconds: rateLimit.windowMs / 1000 },
});

const describe = (
  { id, ...rest }: Awaited<ReturnType<typeof listSessions>>[number],
  { session }: Person,
) => ({
  id: jsonId(id),
  ...rest,
  current: id === session.id,
});

function respond(reply: FastifyReply, body: object): string {
  reply.header('content-type', json).header('cache-control', 'no-store');
  return JSON.stringify(body);
}
