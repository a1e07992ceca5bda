import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Variable, VariableValues } from '../../../engine/config/index.ts';
import { type Database, ttlCache } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import type { Query } from '../../../engine/query/index.ts';
import { grantedActions, grantMasks, type Principal } from '../../../engine/records/index.ts';
import { prepare } from '../../../engine/sql/index.ts';
import { type Tables, tablesOf } from '../../../engine/tables/index.ts';
import { bearerOf, membershipBySlug, type Session } from '../identity/index.ts';
import { lastUsed } from '../last-used/index.ts';
import { createKeyMatcher, publicIdOf } from './key-format.ts';
import { storeKeysUsed } from './keys.ts';

/** API key description returned to the key's holder. IDs are decimal strings. */
interface KeyHolder {
  readonly key: {
    readonly id: string;
    readonly name: string;
    readonly last_four: string;
    readonly profile: string;
    /** Time in RFC 3339 format, or null if the key does not expire. */
    readonly expires_at: string | null;
  };
  readonly organization: { readonly id: string; readonly slug: string; readonly name: string };
  /** Actions by resource. `*` means every resource, including future ones. */
  readonly grants: Readonly<Record<string, readonly string[]>>;
}

/** Describes the API key used for a request: its organization, profile and grants. */
async function describeHolder(
  tables: Tables,
  { organization, actor, grants }: Principal,
): Promise<KeyHolder> {
  const row = await tables
    .selectFrom('crm_api_keys as k')
    .innerJoin('crm_organizations as o', 'o.id', 'k.organization_id')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'k.organization_id').onRef('p.id', '=', 'k.profile_id'),
    )
    .select(['k.id', 'k.name', 'k.last_four', 'k.expires_at', 'p.name as profile'])
    .select(['o.slug', 'o.name as organization_name'])
    .where('k.organization_id', '=', organization)
    .where('k.id', '=', actor ?? '')
    .executeTakeFirstOrThrow();
  return {
    key: {
      id: row.id,
      name: row.name,
      last_four: row.last_four,
      profile: row.profile,
      expires_at: row.expires_at === null ? null : row.expires_at.toISOString(),
    },
    organization: { id: organization, slug: row.slug, name: row.organization_name },
    grants: grantedActions(grants),
  };
}

/** A live API key with the data required for authentication. */
interface StoredKey {
  readonly id: string;
  readonly organization: string;
  /** Reports whether a token matches this key, comparing in constant time. */
  readonly matches: (token: string) => boolean;
  /** Expiry time in Unix milliseconds, or infinity if the key does not expire. */
  readonly expiresAt: number;
  /** The caller that the key authenticates. */
  readonly principal: Principal;
}

/** Query for a key by its public ID. Prepared because it runs about once a second for every key in use. */
const byPublicId = prepare<string>(
  'api_key',
  'read',
  ($) => `select k."organization_id"::text, k."id"::text, k."secret_hash", k."created_by_id"::text,
      floor(extract(epoch from k."expires_at") * 1000)::text, g."object", g."action", k."name"
    from "crm_api_keys" k
    left join "crm_grants" g on g."organization_id" = k."organization_id" and g."profile_id" = k."profile_id"
    where k."public_id" = ${$((publicId) => publicId)}::text and k."revoked_at" is null`,
);

/** Finds a key by its public ID, with its profile's grants. Returns undefined if it is missing or revoked. */
async function findKey(database: Database, publicId: string): Promise<StoredKey | undefined> {
  const rows = (await database.run(byPublicId.bind(publicId))) as readonly (readonly (string | null)[])[];
  const [organization, id, hash, user = null, expires, , , name = null] = rows[0] ?? [];
  if (organization == null || id == null || hash == null) return undefined;
  const grants = rows.flatMap(([, , , , , object, action]) =>
    object == null || action == null ? [] : [{ object, action }],
  );
  return {
    id,
    organization,
    matches: createKeyMatcher(Buffer.from(hash, 'hex')),
    expiresAt: expires == null ? Number.POSITIVE_INFINITY : Number(expires),
    principal: Object.freeze({
      kind: 'key',
      actor: id,
      name,
      organization,
      user,
      grants: grantMasks(grants),
    }),
  };
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns when a key was last used on this node (RFC 3339), or undefined if already stored. */
    keyLastUsed: (id: string) => string | undefined;
    /**
     * Returns a description of the API key used for a request, or undefined if the request has no API key.
     * @throws HttpError 401 if the key is not valid
     */
    identifyHolder: (request: FastifyRequest) => Promise<KeyHolder | undefined>;
  }
}

/** Environment variables that configure API keys. */
export const keyVariables = {
  /** API key prefix. */
  keyPrefix: {
    name: 'KEY_PREFIX',
    rejectsBlank: true,
    fallback: 'crm_',
    expected: 'lower-case letters and digits, then "_", such as crm_',
    read: (text) => (/^[a-z][a-z0-9]{0,15}_$/.test(text) ? text : undefined),
  } satisfies Variable<string> as Variable<string>,
};

/** API key configuration. */
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
 * Returns the caller for a user's request, in the organization selected with `?org=` or, without it, in the
 * user's only organization.
 * @throws HttpError if `org` is missing for a user with several memberships, or does not select one of the
 * user's organizations
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
