import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Config } from '../engine/config.ts';
import type { Database } from '../engine/database/index.ts';
import { errors } from '../engine/errors.ts';
import { isRowId, isStorable } from '../engine/fields/index.ts';
import {
  type Actor,
  beginSession,
  endAllSessions,
  endSession,
  findMemberships,
  listSessions,
  type Membership,
  noteEverywhere,
  type Platform,
  platform,
  type Session,
  tokens,
  transaction,
  verifyUser,
} from '../engine/platform/index.ts';
import { json, readBody } from '../engine/request/index.ts';
import { refuseOtherMethods } from '../engine/routes/methods.ts';
import { cookieName, type Person } from './authentication.ts';
import { isLoopback } from './origin.ts';
import { throttle } from './throttle.ts';

/** What a login gives. */
export interface Login {
  readonly user: { readonly id: string; readonly email: string };
  readonly jti: string;
  readonly tokenVersion: number;
  readonly expires: Date;
  readonly memberships: ReadonlyMap<string, Membership>;
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Begins a session for an e-mail address and a password, and sets its cookie.
     * @throws HttpError 401 when they do not fit, 429 after too many attempts
     */
    logIn: (request: FastifyRequest, reply: FastifyReply, email: string, password: string) => Promise<Login>;
    /**
     * Judges a password; wrong ones count for the user and the address.
     * @param tables where to look, for callers within a transaction
     * @returns undefined where it is wrong or there is no such user
     * @throws HttpError 429 with Retry-After after too many wrong ones
     */
    verify: (
      request: FastifyRequest,
      email: string,
      password: string,
      tables?: Platform,
    ) => ReturnType<typeof verifyUser>;
    /** Ends a session and clears its cookie. */
    logOut: (request: FastifyRequest, reply: FastifyReply, session: Session) => Promise<void>;
    /** Ends every session of a person and voids their tokens. */
    logOutEverywhere: (request: FastifyRequest, reply: FastifyReply, session: Session) => Promise<void>;
    /** A person as the activity names them. */
    actor: (request: FastifyRequest, user: string) => Actor;
  }
}

/** Login, logout and a person's own sessions, as API; the screens use the same functions. */
export const login = fastifyPlugin(
  async (app: FastifyInstance, { config, database }: { config: Config; database: Database }) => {
    const { judge } = throttle();
    const { sign } = tokens(config);

    app.decorate('actor', (request, user) => ({
      kind: 'user',
      id: user,
      requestId: request.id,
      noted: config.audit,
    }));

    app.decorate('verify', (request, email, password, tables = platform(database)) =>
      judge(request, email, () => verifyUser(tables, email, password)),
    );

    app.decorate('logIn', async (request, reply, email, password) => {
      const user = await app.verify(request, email, password);
      if (user === undefined) throw errors.unauthenticated();
      const begun = await transaction(database, async (tables) => {
        const session = await beginSession(tables, user.id, {
          durationMs: config.sessionMs,
          userAgent: String(request.headers['user-agent'] ?? ''),
          tokenVersion: user.tokenVersion,
        });
        if (session === undefined) throw errors.unauthenticated();
        const memberships = await findMemberships(tables, user.id);
        const organizations = [...memberships.values()].map((membership) => membership.organization);
        const by = app.actor(request, user.id);
        await noteEverywhere(tables, by, organizations, 'login', session.id);
        return { session, memberships };
      });
      const { token, jti, expires } = begun.session;
      reply.setCookie(cookieName(request), token, cookieOptions(request));
      return {
        user: { id: user.id, email: email.trim().toLowerCase() },
        jti,
        tokenVersion: user.tokenVersion,
        expires,
        memberships: begun.memberships,
      };
    });

    const forget = (request: FastifyRequest, reply: FastifyReply, session: Session) => {
      app.forgetSession({ token: request.cookies[cookieName(request)], jti: session.jti });
      reply.clearCookie(cookieName(request), cookieOptions(request));
    };
    app.decorate('logOut', async (request, reply, session) => {
      const by = app.actor(request, session.user.id);
      await transaction(database, (tables) =>
        endSession(tables, by, session.user.id, session.id, organizationsOf(session)),
      );
      forget(request, reply, session);
    });
    app.decorate('logOutEverywhere', async (request, reply, session) => {
      const by = app.actor(request, session.user.id);
      await transaction(database, (tables) =>
        endAllSessions(tables, by, session.user.id, organizationsOf(session)),
      );
      forget(request, reply, session);
    });

    app.post('/auth/login', async (request, reply) => {
      const { email, password } = readBody(request.headers['content-type'], request.body);
      const wrong = Object.entries({ email, password })
        .filter(([, value]) => typeof value !== 'string' || !isStorable(value))
        .map(([field]) => ({ field, message: `${field} must be a string` }));
      if (wrong.length > 0) throw errors.invalidFields(wrong);
      const result = await app.logIn(request, reply, String(email), String(password));
      const token = await sign(
        { user: result.user.id, jti: result.jti, version: result.tokenVersion },
        result.expires,
      );
      return answer(reply, {
        access_token: token,
        token_type: 'Bearer',
        expires_in: Math.floor((result.expires.getTime() - Date.now()) / 1000),
        user: { id: Number(result.user.id), email: result.user.email },
        organizations: organizations(result.memberships),
      });
    });

    app.post('/auth/logout', async (request, reply) => {
      const { session } = await app.identify(request);
      await app.logOut(request, reply, session);
      return answer(reply, { ok: true });
    });

    app.post('/auth/logout-everywhere', async (request, reply) => {
      const { session } = await app.identify(request);
      await app.logOutEverywhere(request, reply, session);
      return answer(reply, { ok: true });
    });

    app.get('/auth/me', async (request, reply) => {
      const { session } = await app.identify(request);
      return answer(reply, {
        user: { id: Number(session.user.id), email: session.user.email },
        organizations: organizations(session.memberships),
      });
    });

    app.get('/auth/sessions', async (request, reply) => {
      const person = await app.identify(request);
      const all = await listSessions(platform(database), person.session.user.id);
      return answer(reply, { data: all.map((each) => describe(each, person)) });
    });

    app.delete<{ Params: { id: string } }>('/auth/sessions/:id', async (request, reply) => {
      const { session } = await app.identify(request);
      const { id } = request.params;
      if (!isRowId(id)) throw errors.notFound();
      const by = app.actor(request, session.user.id);
      const ended = await transaction(database, (tables) =>
        endSession(tables, by, session.user.id, id, organizationsOf(session)),
      );
      if (!ended) throw errors.notFound();
      if (id === session.id) forget(request, reply, session);
      return answer(reply, { ok: true });
    });

    for (const url of ['/auth/login', '/auth/logout', '/auth/logout-everywhere']) {
      refuseOtherMethods(app, url, ['POST']);
    }
    for (const url of ['/auth/me', '/auth/sessions']) refuseOtherMethods(app, url, ['GET', 'HEAD']);
    refuseOtherMethods(app, '/auth/sessions/:id', ['DELETE']);
  },
  { name: 'login', fastify: '5.x', dependencies: ['errors', 'authentication'] },
);

/** HttpOnly, this site only, TLS except on loopback; ends with the browser, and on the server when it expires. */
const cookieOptions = (request: FastifyRequest) =>
  ({ path: '/', httpOnly: true, sameSite: 'lax', secure: !isLoopback(request) }) as const;

/** Ids of the organizations of a person. */
export const organizationsOf = (session: Session): string[] =>
  [...session.memberships.values()].map((membership) => membership.organization);

const organizations = (memberships: ReadonlyMap<string, Membership>) =>
  [...memberships.values()].map(({ organization, slug, name }) => ({ id: Number(organization), slug, name }));

const describe = (
  { id, ...rest }: Awaited<ReturnType<typeof listSessions>>[number],
  { session }: Person,
) => ({
  id: Number(id),
  ...rest,
  current: id === session.id,
});

function answer(reply: FastifyReply, body: object): string {
  reply.header('content-type', json).header('cache-control', 'no-store');
  return JSON.stringify(body);
}
