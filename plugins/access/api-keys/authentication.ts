import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Variable, VariableValues } from '../../../engine/config/index.ts';
import { type Database, ttlCache } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import type { Query } from '../../../engine/query/index.ts';
import type { Principal } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { bearerOf, membershipBySlug, type Session } from '../identity/index.ts';
import { lastUsed } from '../last-used/index.ts';
import { describeHolder, type KeyHolder } from './holder.ts';
import { publicIdOf } from './key-format.ts';
import { storeKeysUsed } from './keys.ts';
import { findKey, type StoredKey } from './stored-key.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns the time of a key's last use on this node (RFC 3339), or undefined if it is already stored. */
    keyLastUsed: (id: string) => string | undefined;
    /**
     * Returns a description of the API key that sent a request, or undefined if the request was sent without an API
     * key.
     * @throws HttpError 401 if the key is not valid
     */
    identifyHolder: (request: FastifyRequest) => Promise<KeyHolder | undefined>;
  }
}

/** Environment variables that configure API keys. */
export const keyVariables = {
  /** Prefix of API keys. */
  keyPrefix: {
    name: 'KEY_PREFIX',
    rejectsBlank: true,
    fallback: 'crm_',
    expected: 'lower-case letters and digits, then "_", such as crm_',
    read: (text) => (/^[a-z][a-z0-9]{0,15}_$/.test(text) ? text : undefined),
  } satisfies Variable<string> as Variable<string>,
};

/** Configuration of API keys. */
export type KeyConfig = VariableValues<typeof keyVariables>;

/** Authenticates requests by API key, or by a user's session through {@link FastifyInstance.identify}. */
export const keyAuthentication = fastifyPlugin(
  async (app: FastifyInstance, { config, database }: { config: KeyConfig; database: Database }) => {
    const keys = ttlCache('keys', (publicId) => findKey(database, publicId));
    const uses = lastUsed<{ organization: string; at: Date }>(app, (batch) =>
      storeKeysUsed(tablesOf(database), batch),
    );
    const accept = (token: string, key: StoredKey | undefined): Principal => {
      const now = new Date();
      if (key === undefined || !key.matches(token) || key.expiresAt <= now.getTime()) {
        throw errors.unauthenticated();
      }
      uses.record(key.id, { organization: key.organization, at: now });
      return key.principal;
    };
    app.decorate('keyLastUsed', (id) => uses.get(id)?.at.toISOString());
    const hasKey = (token: string | undefined): token is string =>
      token?.startsWith(config.keyPrefix) === true;
    app.decorate('identifyHolder', async (request) =>
      hasKey(bearerOf(request.headers.authorization))
        ? describeHolder(tablesOf(database), await app.authenticate(request))
        : undefined,
    );
    app.decorate('authenticate', (request) => {
      const token = bearerOf(request.headers.authorization);
      if (hasKey(token)) {
        const publicId = publicIdOf(config.keyPrefix, token);
        if (publicId === undefined) throw errors.unauthenticated();
        const key = keys.get(publicId);
        return key instanceof Promise
          ? key.then((storedKey) => accept(token, storedKey))
          : accept(token, key);
      }
      return app.identify(request).then(({ session }) => principalOf(session, request.query as Query));
    });
  },
  { name: 'key-authentication', fastify: '5.x', dependencies: ['session-authentication'] },
);

/**
 * Returns the caller of a user's request, in the organization that `?org=` selects or, without it, in the user's only
 * organization.
 * @throws HttpError if `org` is missing for a user with several memberships, or does not select one of the user's
 * organizations
 */
function principalOf(session: Session, { org }: Query): Principal {
  const { memberships, user } = session;
  if (Array.isArray(org)) throw errors.invalidParameter('org', 'must not be repeated');
  const soleMembership = memberships.size === 1 ? [...memberships.values()][0] : undefined;
  const slug = typeof org === 'string' && org !== '' ? org : undefined;
  if (slug === undefined && memberships.size > 1) throw errors.organizationRequired();
  const membership = slug === undefined ? soleMembership : membershipBySlug(memberships, slug);
  if (membership === undefined) throw errors.notAMember();
  const { organization, grants } = membership;
  return { kind: 'user', actor: user.id, name: user.email, organization, user: user.id, grants };
}
