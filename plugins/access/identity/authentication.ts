import cookie from '@fastify/cookie';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { integerVariable, type VariableValues } from '../../../engine/config/index.ts';
import { type Database, ttlCache } from '../../../engine/database/index.ts';
import type { Actor, AuditConfig } from '../../../engine/effects/index.ts';
import { errors } from '../../../engine/errors.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { lastUsed } from '../last-used/index.ts';
import type { InstanceSecrets } from '../secrets/index.ts';
import { isSafe, type Site, siteOf } from './origin.ts';
import type { SecondFactorPolicy } from './second-factors.ts';
import { findSession, type Membership, type Session, storeSessionsUsed } from './sessions.ts';
import { tokens } from './tokens.ts';

/** A person and the credential of the request. */
export interface Person {
  readonly session: Session;
  readonly credential: 'cookie' | 'token';
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The address at which browsers reach this instance. */
    site: Site;
    /**
     * The person who sent the request, by cookie or token.
     * @param options `settingUp`: also one who has to set up a second factor first
     * @throws HttpError 401; 403 for a cross-site write
     */
    identify: (request: FastifyRequest, options?: { readonly settingUp?: boolean }) => Promise<Person>;
    /** Whether somebody with these memberships must have a second factor, as config.yaml says at the moment. */
    needsSecondFactor: (memberships: Iterable<Pick<Membership, 'profile'>>) => boolean;
    /** A user as the actor of a request. */
    actor: (request: FastifyRequest, user: Session['user']) => Actor;
    /** Removes ended sessions from this node's cache. */
    forgetSession: (session: { token?: string | undefined; jti?: string | undefined }) => void;
    /** When a session was last used on this node, in RFC 3339, until that is stored. */
    sessionLastUsed: (id: string) => string | undefined;
  }
}

/** The environment variables of sessions. */
export const sessionVariables = {
  /** A browser session ends after this time without use, in milliseconds. */
  sessionIdleMs: integerVariable('SESSION_IDLE_MINUTES', 30, [1, 525_600], 60_000),
  /** A login ends after this time, used or not, in milliseconds. */
  sessionMs: integerVariable('SESSION_HOURS', 12, [1, 8760], 3_600_000),
};

/** How long sessions last. */
export type SessionConfig = VariableValues<typeof sessionVariables>;

/** The services that logins need. */
export interface IdentityServices {
  readonly config: SessionConfig & AuditConfig;
  readonly database: Database;
  readonly secrets: InstanceSecrets;
  /** The currently configured origin; `''` for none. */
  readonly publicUrl: () => string;
  /** The current settings of logins. */
  readonly login: () => { readonly second_factor: SecondFactorPolicy };
}

const scheme = /^Bearer(?: |$)/i;
const bearer = /^Bearer +([^ ]+) *$/i;

/** The credential of an Authorization header of the scheme Bearer (RFC 6750); undefined for any other. */
export const bearerOf = (authorization: string | undefined): string | undefined =>
  authorization === undefined ? undefined : bearer.exec(authorization)?.[1];

/** Name of the session's cookie. Browsers accept `__Host-` only with TLS, which loopback works without. */
export const cookieName = (site: Site, request: FastifyRequest): string =>
  site.isSecure(request) ? '__Host-crm_session' : 'crm_session';

/** Authenticates people by token or session cookie; `Authorization` takes precedence over the cookie. */
export const sessionAuthentication = fastifyPlugin(
  async (app: FastifyInstance, { config, database, secrets, publicUrl, login }: IdentityServices) => {
    const site = siteOf(publicUrl);
    app.decorate('site', site);
    await app.register(cookie);
    const { verify } = tokens(secrets);
    const byToken = ttlCache('sessions', (token) => findSession(tablesOf(database), { token }));
    const byJti = ttlCache('tokens', (jti) => findSession(tablesOf(database), { jti }));
    const used = lastUsed<Date>(app, (batch) => storeSessionsUsed(tablesOf(database), batch));

    /** A request that lasts, and is asked again who sent it, is one use. */
    const counted = new WeakSet<FastifyRequest>();

    const accept = (
      request: FastifyRequest,
      session: Session | undefined,
      credential: Person['credential'],
    ): Person => {
      const now = Date.now();
      if (session === undefined || session.expires <= now) throw errors.unauthenticated();
      const lastSeen = Math.max(session.lastSeen, used.get(session.id)?.getTime() ?? 0);
      // A token has its own expiry; the idle limit is for browsers.
      if (credential === 'cookie' && lastSeen + config.sessionIdleMs <= now) throw errors.unauthenticated();
      if (!counted.has(request)) used.record(session.id, new Date(now));
      counted.add(request);
      return { session, credential };
    };

    const byBearer = async (request: FastifyRequest, token: string): Promise<Person> => {
      const claims = await verify(token);
      if (claims === undefined) throw errors.unauthenticated();
      const session = await byJti.get(claims.jti);
      if (session?.user.id !== claims.user || session.tokenVersion !== claims.version) {
        throw errors.unauthenticated();
      }
      return accept(request, session, 'token');
    };

    const byCookie = async (request: FastifyRequest): Promise<Person> => {
      const token = request.cookies[cookieName(site, request)];
      if (token === undefined || token.length > 100) throw errors.unauthenticated();
      const person = accept(request, await byToken.get(token), 'cookie');
      if (!isSafe(request.method) && !site.isSameOrigin(request)) throw errors.crossSite();
      return person;
    };

    const byCredential = async (request: FastifyRequest): Promise<Person> => {
      const { authorization } = request.headers;
      if (authorization === undefined) return byCookie(request);
      if (!scheme.test(authorization)) throw errors.bearerNeeded();
      const token = bearerOf(authorization);
      if (token === undefined) throw errors.unauthenticated();
      return byBearer(request, token);
    };

    app.decorate('needsSecondFactor', (memberships) => {
      const policy = login().second_factor;
      return (
        policy === 'everyone' ||
        (policy === 'administrators' &&
          [...memberships].some(({ profile }) => profile === administratorProfile))
      );
    });
    app.decorate('identify', async (request, { settingUp = false } = {}) => {
      const person = await byCredential(request);
      const { secondFactor, memberships } = person.session;
      if (!secondFactor && !settingUp && app.needsSecondFactor(memberships.values()))
        throw errors.secondFactorMissing();
      return person;
    });
    app.decorate('actor', (request, user) => ({
      kind: 'user',
      id: user.id,
      name: user.email,
      requestId: request.id,
      audited: config.audit,
    }));
    app.decorate('sessionLastUsed', (id) => used.get(id)?.toISOString());
    app.decorate('forgetSession', ({ token, jti }) => {
      if (token !== undefined) byToken.forget(token);
      if (jti !== undefined) byJti.forget(jti);
    });
  },
  { name: 'session-authentication', fastify: '5.x', dependencies: ['errors'] },
);
