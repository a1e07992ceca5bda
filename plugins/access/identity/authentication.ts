import cookie from '@fastify/cookie';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { integerVariable, type VariableValues } from '../../../engine/config/index.ts';
import { type Database, ttlCache } from '../../../engine/database/index.ts';
import type { Actor, AuditConfig } from '../../../engine/effects/index.ts';
import { errors } from '../../../engine/errors.ts';
import { isLoopback } from '../../../engine/loopback.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { lastUsed } from '../last-used/index.ts';
import type { InstanceSecrets } from '../secrets/index.ts';
import type { SecondFactorPolicy } from './second-factors.ts';
import { findSession, type Membership, type Session, storeSessionsUsed } from './sessions.ts';
import { tokens } from './tokens.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** The origin at which browsers reach this instance. */
    site: Site;
    /**
     * Authenticates a request's user by session cookie or token.
     * @param options `settingUp` also accepts a user who must still set up a second factor
     * @throws HttpError 401 if the credential is missing or not valid, or a second factor must be set up; 403
     * for a cross-site write
     */
    identify: (request: FastifyRequest, options?: { readonly settingUp?: boolean }) => Promise<Person>;
    /**
     * Reports whether a user with these memberships must have a second factor, according to the current
     * `login.second_factor` setting.
     */
    needsSecondFactor: (memberships: Iterable<Pick<Membership, 'profile'>>) => boolean;
    /** Returns the actor to record in the change log for a user's request. */
    actor: (request: FastifyRequest, user: Pick<Session['user'], 'id' | 'email'>) => Actor;
    /** Removes a session from this node's cache after it has ended. */
    forgetSession: (session: { token?: string | undefined; jti?: string | undefined }) => void;
    /** Returns when a session was last used on this node (RFC 3339), or undefined if already stored. */
    sessionLastUsed: (id: string) => string | undefined;
  }
}

/**
 * The origin at which browsers reach this instance. If `public_url` is set, it takes precedence, because a
 * proxy can send any Host header.
 */
export interface Site {
  /** Returns the origin that users see, without a trailing slash. */
  readonly origin: (request: FastifyRequest) => string;
  /**
   * Reports whether cookies require TLS. They do, except on loopback, where browsers accept them without it.
   */
  readonly isSecure: (request: FastifyRequest) => boolean;
  /**
   * Returns options for a cookie that is sent to pages under a path. Scripts cannot read the cookie, and forms on
   * other sites do not send it.
   */
  readonly cookie: (
    request: FastifyRequest,
    path: string,
  ) => { readonly path: string; readonly httpOnly: true; readonly sameSite: 'lax'; readonly secure: boolean };
  /** Reports whether a page from this origin sent a request, based on Fetch Metadata or Origin. */
  readonly isSameOrigin: (request: FastifyRequest) => boolean;
}

/** Creates this instance's site. @param publicUrl returns the URL, or `''` to use the Host header */
function siteOf(publicUrl: () => string): Site {
  let [text, configured] = ['', undefined as URL | undefined];
  /** Returns the configured URL, parsed again only after a change. */
  const configuredUrl = (): URL | undefined => {
    const current = publicUrl();
    if (current !== text) [text, configured] = [current, URL.parse(current) ?? undefined];
    return configured;
  };
  const origin: Site['origin'] = (request) =>
    configuredUrl()?.origin ?? `${request.protocol}://${request.host}`;
  const isSecure: Site['isSecure'] = (request) => {
    const url = configuredUrl();
    const isHttps = url === undefined ? request.protocol === 'https' : url.protocol === 'https:';
    const hostname = url?.hostname ?? request.hostname.toLowerCase();
    return isHttps || !(isLoopback(hostname) || hostname.endsWith('.localhost'));
  };
  return {
    origin,
    isSecure,
    cookie: (request, path) => ({ path, httpOnly: true, sameSite: 'lax', secure: isSecure(request) }),
    isSameOrigin: (request) => {
      const { origin: originHeader, 'sec-fetch-site': fetchSite } = request.headers;
      if (fetchSite !== undefined) return fetchSite === 'same-origin';
      const sender = originHeader === undefined ? null : URL.parse(originHeader);
      return sender !== null && (sender.host === request.host || sender.origin === origin(request));
    },
  };
}

/** Reports whether a method is safe (RFC 9110), which means that it does not change anything. */
const isSafe = (method: string): boolean => method === 'GET' || method === 'HEAD' || method === 'OPTIONS';

/** An authenticated user and the kind of credential in the request. */
export interface Person {
  readonly session: Session;
  readonly credential: 'cookie' | 'token';
}

/** Environment variables that configure session lifetimes. */
export const sessionVariables = {
  /** Idle time after which a browser session expires, in milliseconds. */
  sessionIdleMs: integerVariable('SESSION_IDLE_MINUTES', 30, [1, 525_600], 60_000),
  /** Time after which a login expires even if it is in use, in milliseconds. */
  sessionMs: integerVariable('SESSION_HOURS', 12, [1, 8760], 3_600_000),
};

/** Configured session lifetimes. */
type SessionConfig = VariableValues<typeof sessionVariables>;

/** Services required for authentication. */
export interface IdentityServices {
  readonly config: SessionConfig & AuditConfig;
  readonly database: Database;
  readonly secrets: InstanceSecrets;
  /** Returns the configured origin, or `''` if none is configured. */
  readonly publicUrl: () => string;
  /** Returns the current login settings. */
  readonly login: () => { readonly second_factor: SecondFactorPolicy };
}

const scheme = /^Bearer(?: |$)/i;
const bearer = /^Bearer +([^ ]+) *$/i;

/** Returns the credential in a Bearer Authorization header (RFC 6750), or undefined for any other header. */
export const bearerOf = (authorization: string | undefined): string | undefined =>
  authorization === undefined ? undefined : bearer.exec(authorization)?.[1];

/**
 * Returns the session cookie's name. Browsers accept the `__Host-` prefix only over TLS, which is not
 * required on loopback.
 */
export const cookieName = (site: Site, request: FastifyRequest): string =>
  site.isSecure(request) ? '__Host-crm_session' : 'crm_session';

/** Authenticates users by token or session cookie. The Authorization header takes precedence over the cookie. */
export const sessionAuthentication = fastifyPlugin(
  async (app: FastifyInstance, { config, database, secrets, publicUrl, login }: IdentityServices) => {
    const site = siteOf(publicUrl);
    app.decorate('site', site);
    await app.register(cookie);
    const { verify } = tokens(secrets);
    const byToken = ttlCache('sessions', (token) => findSession(tablesOf(database), { token }));
    const byJti = ttlCache('tokens', (jti) => findSession(tablesOf(database), { jti }));
    const uses = lastUsed<Date>(app, (batch) => storeSessionsUsed(tablesOf(database), batch));

    /**
     * Requests for which session use has already been recorded. A long request is authenticated several times
     * but counts as one use.
     */
    const recordedRequests = new WeakSet<FastifyRequest>();

    const accept = (
      request: FastifyRequest,
      session: Session | undefined,
      credential: Person['credential'],
    ): Person => {
      const now = Date.now();
      if (session === undefined || session.expires <= now) throw errors.unauthenticated();
      const lastSeen = Math.max(session.lastSeen, uses.get(session.id)?.getTime() ?? 0);
      // The idle limit applies only to browsers. A token has its own expiry.
      if (credential === 'cookie' && lastSeen + config.sessionIdleMs <= now) throw errors.unauthenticated();
      if (!recordedRequests.has(request)) uses.record(session.id, new Date(now));
      recordedRequests.add(request);
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
    app.decorate('sessionLastUsed', (id) => uses.get(id)?.toISOString());
    app.decorate('forgetSession', ({ token, jti }) => {
      if (token !== undefined) byToken.forget(token);
      if (jti !== undefined) byJti.forget(jti);
    });
  },
  { name: 'session-authentication', fastify: '5.x', dependencies: ['errors'] },
);
