import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Variable, VariableValues } from '../../../engine/config/index.ts';
import { type Database, ttlCache } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import type { Query } from '../../../engine/query/index.ts';
import type { Principal } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { bearerOf, membershipNamed, type Session } from '../identity/index.ts';
import { lastUsed } from '../last-used/index.ts';
import { describeHolder, type KeyHolder } from './holder.ts';
import { publicIdOf } from './key-format.ts';
import { storeKeysUsed } from './keys.ts';
import { findKey, type StoredKey } from './stored-key.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** When a key was last used on this node, in RFC 3339, until that is stored. */
    keyLastUsed: (id: string) => string | undefined;
    /**
     * What the API key of a request is; undefined if it has none.
     * @throws HttpError 401 if the key is not valid
     */
    identifyHolder: (request: FastifyRequest) => Promise<KeyHolder | undefined>;
  }
}

/** The environment variables of API keys. */
export const keyVariables = {
  /** The prefix of API keys. */
  keyPrefix: {
    name: 'KEY_PREFIX',
    rejectsBlank: true,
    fallback: 'crm_',
    expected: 'lower-case letters and digits, then "_", such as crm_',
    read: (given) => (/^[a-z][a-z0-9]{0,15}_$/.test(given) ? given : undefined),
  } satisfies Variable<string> as Variable<string>,
};

/** The format of API keys. */
export type KeyConfig = VariableValues<typeof keyVariables>;

/** Authenticates API keys, and people by {@link FastifyInstance.identify}. */
export const keyAuthentication = fastifyPlugin(
  async (app: FastifyInstance, { config, database }: { config: KeyConfig; database: Database }) => {
    const keys = ttlCache('keys', (publicId) => findKey(database, publicId));
    const used = lastUsed<{ organization: string; at: Date }>(app, (batch) =>
      storeKeysUsed(tablesOf(database), batch),
    );
    const accept = (token: string, key: StoredKey | undefined): Principal => {
      const now = new Date();
      if (key === undefined || !key.matches(token) || key.expiresAt <= now.getTime()) {
        throw errors.unauthenticated();
      }
      used.record(key.id, { organization: key.organization, at: now });
      return key.principal;
    };
    app.decorate('keyLastUsed', (id) => used.get(id)?.at.toISOString());
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
        return key instanceof Promise ? key.then((found) => accept(token, found)) : accept(token, key);
      }
      return app.identify(request).then(({ session }) => principalOf(session, request.query as Query));
    });
  },
  { name: 'key-authentication', fastify: '5.x', dependencies: ['session-authentication'] },
);

/** A person in the organization that `?org=` names; with a single membership it may be absent. */
function principalOf(session: Session, { org }: Query): Principal {
  const { memberships, user } = session;
  if (Array.isArray(org)) throw errors.invalidParameter('org', 'must not be repeated');
  const only = memberships.size === 1 ? [...memberships.values()][0] : undefined;
  const named = typeof org === 'string' && org !== '' ? org : undefined;
  if (named === undefined && memberships.size > 1) throw errors.organizationRequired();
  const membership = named === undefined ? only : membershipNamed(memberships, named);
  if (membership === undefined) throw errors.notAMember();
  const { organization, grants } = membership;
  return { kind: 'user', actor: user.id, name: user.email, organization, user: user.id, grants };
}
