import cookie from '@fastify/cookie';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Config } from '../engine/config.ts';
import type { Database } from '../engine/database/index.ts';
import { errors } from '../engine/errors.ts';
import {
  findKey,
  findSession,
  matches,
  noteKeysUsed,
  noteSessionsUsed,
  platform,
  publicIdOf,
  type Session,
  type StoredKey,
  tokens,
} from '../engine/platform/index.ts';
import type { Query } from '../engine/query/index.ts';
import type { Principal } from '../engine/records/index.ts';
import { noted } from './noted.ts';
import { isSafe, type Site, siteOf } from './origin.ts';
import { recent } from './recent.ts';

/** A person, and how they came. */
export interface Person {
  readonly session: Session;
  readonly by: 'cookie' | 'token';
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Who sent the request, and for which organization. At once where a key was looked up within the last moment.
     * @throws HttpError 401, the same for every reason; 400 or 403 where `?org=` does not decide; 500 when the
     *   database does not answer
     */
    authenticate: (request: FastifyRequest) => Principal | Promise<Principal>;
    /** The person who sent the request, by cookie or token. @throws HttpError 401; 403 for a cross-site write */
    identify: (request: FastifyRequest) => Promise<Person>;
    /** Forgets what this node knows of sessions, after it has ended some. */
    forgetSession: (session: { token?: string | undefined; jti?: string | undefined }) => void;
    /** When keys and sessions were last used on this node where that is not stored yet, in RFC 3339. */
    lastUsed: {
      readonly key: (id: string) => string | undefined;
      readonly session: (id: string) => string | undefined;
    };
  }
}

const bearer = /^Bearer +([^ ]+) *$/i;

/** The credential of an Authorization header of the scheme Bearer (RFC 6750); undefined for any other. */
export const bearerOf = (authorization: string | undefined): string | undefined =>
  authorization === undefined ? undefined : bearer.exec(authorization)?.[1];

/** Name of the session's cookie. Browsers take `__Host-` only with TLS, which loopback does without. */
export const cookieName = (site: Site, request: FastifyRequest): string =>
  site.isSecure(request) ? '__Host-crm_session' : 'crm_session';

/** Keys, session cookies and tokens (contract section 5): one method per request, `Authorization` before the cookie. */
export const authentication = fastifyPlugin(
  async (
    app: FastifyInstance,
    { config, database, publicUrl }: { config: Config; database: Database; publicUrl: () => string },
  ) => {
    const site = siteOf(publicUrl);
    app.decorate('site', site);
    await app.register(cookie);
    const { verify } = tokens(config);
    const keys = recent((publicId) => findKey(platform(database), publicId));
    const byToken = recent((token) => findSession(platform(database), { token }));
    const byJti = recent((jti) => findSession(platform(database), { jti }));
    const usedKeys = noted<{ organization: string; at: Date }>(app, (used) =>
      noteKeysUsed(platform(database), used),
    );
    const usedSessions = noted<Date>(app, (used) => noteSessionsUsed(platform(database), used));

    const acceptKey = (token: string, key: StoredKey | undefined): Principal => {
      const now = new Date();
      if (key === undefined || !matches(token, key.hash) || key.expiresAt <= now.getTime()) {
        throw errors.unauthenticated();
      }
      usedKeys.note(key.id, { organization: key.organization, at: now });
      return key.principal;
    };

    const acceptSession = (session: Session | undefined, by: Person['by']): Person => {
      const now = Date.now();
      if (session === undefined || session.expires <= now) throw errors.unauthenticated();
      const lastSeen = Math.max(session.lastSeen, usedSessions.get(session.id)?.getTime() ?? 0);
      // A token tells its holder when it ends; only browsers are forgotten when nobody sits before them.
      if (by === 'cookie' && lastSeen + config.sessionIdleMs <= now) throw errors.unauthenticated();
      usedSessions.note(session.id, new Date(now));
      return { session, by };
    };

    const byBearer = async (token: string): Promise<Person> => {
      const claims = await verify(token);
      if (claims === undefined) throw errors.unauthenticated();
      const session = await byJti.get(claims.jti);
      if (session?.user.id !== claims.user || session.tokenVersion !== claims.version) {
        throw errors.unauthenticated();
      }
      return acceptSession(session, 'token');
    };

    const byCookie = async (request: FastifyRequest): Promise<Person> => {
      const token = request.cookies[cookieName(site, request)];
      if (token === undefined || token.length > 100) throw errors.unauthenticated();
      const person = acceptSession(await byToken.get(token), 'cookie');
      if (!isSafe(request.method) && !site.isSameOrigin(request)) throw errors.crossSite();
      return person;
    };

    app.decorate('identify', async (request) => {
      const { authorization } = request.headers;
      if (authorization === undefined) return byCookie(request);
      const token = bearerOf(authorization);
      if (token === undefined || token.startsWith(config.keyPrefix)) throw errors.unauthenticated();
      return byBearer(token);
    });

    app.decorate('authenticate', (request) => {
      const { authorization } = request.headers;
      const token = bearerOf(authorization);
      if (token?.startsWith(config.keyPrefix)) {
        const publicId = publicIdOf(config.keyPrefix, token);
        if (publicId === undefined) throw errors.unauthenticated();
        const key = keys.get(publicId);
        return key instanceof Promise ? key.then((found) => acceptKey(token, found)) : acceptKey(token, key);
      }
      return app.identify(request).then(({ session }) => principalOf(session, request.query as Query));
    });

    app.decorate('lastUsed', {
      key: (id) => usedKeys.get(id)?.at.toISOString(),
      session: (id) => usedSessions.get(id)?.toISOString(),
    });

    app.decorate('forgetSession', ({ token, jti }) => {
      if (token !== undefined) byToken.forget(token);
      if (jti !== undefined) byJti.forget(jti);
    });
  },
  { name: 'authentication', fastify: '5.x', dependencies: ['errors'] },
);

/** A person's part in the organization that `?org=` names; with one membership it need not. */
function principalOf(session: Session, { org }: Query): Principal {
  const { memberships, user } = session;
  if (Array.isArray(org)) throw errors.invalidParameter('org', 'must be given once');
  const only = memberships.size === 1 ? [...memberships.values()][0] : undefined;
  const named = typeof org === 'string' && org !== '' ? org : undefined;
  if (named === undefined && memberships.size > 1) throw errors.organizationNeeded();
  const membership = named === undefined ? only : memberships.get(named);
  if (membership === undefined) throw errors.noSuchMembership();
  const { organization, grants } = membership;
  return { kind: 'user', actor: user.id, organization, user: user.id, grants };
}
