import type { FastifyInstance, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { sql } from 'kysely';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Variable, VariableValues } from '../../../engine/config/index.ts';
import { type Database, ttlCache } from '../../../engine/database/index.ts';
import { errors } from '../../../engine/errors.ts';
import type { Query } from '../../../engine/query/index.ts';
import {
  type CallerIdentity,
  compileGrants,
  type Grants,
  grantedActions,
  grantsWithin,
  type Principal,
  type ProtectedResource,
  readsOf,
} from '../../../engine/records/index.ts';
import { prepare, type Statement } from '../../../engine/sql/index.ts';
import { type Tables, tablesOf } from '../../../engine/tables/index.ts';
import {
  bearerOf,
  memberPrincipal,
  membershipBySlug,
  type Session,
  userPrincipal,
} from '../identity/index.ts';
import { lastUsed } from '../last-used/index.ts';
import { accessSql, type KeyAccess } from './key-access.ts';
import { createKeyMatcher, publicIdOf } from './key-format.ts';
import { storeKeysUsed } from './keys.ts';

/** API key description returned to the key's holder. IDs are decimal strings. */
interface KeyHolder {
  readonly key: {
    readonly id: string;
    readonly name: string;
    readonly last_four: string;
    readonly profile: string;
    /** Absent if the key can do everything that the grants of its profile allow. */
    readonly access?: Exclude<KeyAccess, 'write'>;
    /** Time in RFC 3339 format, or null if the key does not expire. */
    readonly expires_at: string | null;
    /** The member on whose behalf the key acts; absent for an ordinary key. */
    readonly on_behalf_of?: {
      readonly id: string;
      readonly email: string;
      /** The member's name; absent until it is entered. */
      readonly name?: string;
      readonly profile: string;
      /** The member's grants. The key can do only what these grants and its own grants allow. */
      readonly grants: KeyHolder['grants'];
    };
  };
  readonly organization: { readonly id: string; readonly slug: string; readonly name: string };
  /** Actions by resource. `*` means every resource, including future ones. */
  readonly grants: Readonly<Record<string, readonly string[]>>;
}

/** Describes the API key used for a request: its organization, profile and grants. */
async function describeHolder(
  tables: Tables,
  { organization, actor, grants }: Principal,
  definitions: readonly ProtectedResource[],
): Promise<KeyHolder> {
  const row = await tables
    .selectFrom('crm_api_keys as k')
    .innerJoin('crm_organizations as o', 'o.id', 'k.organization_id')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'k.organization_id').onRef('p.id', '=', 'k.profile_id'),
    )
    .select(['k.id', 'k.name', 'k.last_four', 'k.expires_at', 'p.name as profile'])
    .select(sql<KeyAccess>`${sql.raw(accessSql)}`.as('access'))
    .select(['o.slug', 'o.name as organization_name'])
    .leftJoin('crm_memberships as m', (join) =>
      join.onRef('m.organization_id', '=', 'k.organization_id').onRef('m.user_id', '=', 'k.on_behalf_of_id'),
    )
    .leftJoin('crm_users as u', 'u.id', 'm.user_id')
    .leftJoin('crm_profiles as mp', (join) =>
      join.onRef('mp.organization_id', '=', 'm.organization_id').onRef('mp.id', '=', 'm.profile_id'),
    )
    .select(['u.id as member_id', 'u.email', 'u.name as member_name', 'mp.name as member_profile'])
    .where('k.organization_id', '=', organization)
    .where('k.id', '=', actor ?? '')
    .executeTakeFirstOrThrow();
  const { access, member_id, email, member_name, member_profile } = row;
  return {
    key: {
      id: row.id,
      name: row.name,
      last_four: row.last_four,
      profile: row.profile,
      ...(access !== 'write' && { access }),
      expires_at: row.expires_at === null ? null : row.expires_at.toISOString(),
      ...(member_id !== null &&
        grants.within !== undefined && {
          on_behalf_of: {
            id: member_id,
            email: email ?? '',
            ...(member_name !== null && { name: member_name }),
            profile: member_profile ?? '',
            grants: grantedActions(grants.within, definitions),
          },
        }),
    },
    organization: { id: organization, slug: row.slug, name: row.organization_name },
    grants: grantedActions(grants, definitions),
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

/**
 * Returns the query for a key. For a key on behalf of a member, it also returns the member's email address and grants, and
 * nothing if the member cannot log in.
 * @param condition SQL condition that selects the key
 */
const keyQuery = (condition: string): string =>
  `select k."organization_id"::text, k."id"::text, k."secret_hash",
      coalesce(k."on_behalf_of_id", k."created_by_id")::text,
      floor(extract(epoch from k."expires_at") * 1000)::text, g."object", g."action", k."name",
      (g."profile_id" = k."profile_id")::text, (g."profile_id" = m."profile_id")::text, u."email", o."phone_region",
      k."client_id", k."read_only"::text, k."proposes"::text
    from "crm_api_keys" k
    join "crm_organizations" o on o."id" = k."organization_id"
    left join "crm_memberships" m on m."organization_id" = k."organization_id" and m."user_id" = k."on_behalf_of_id"
    left join "crm_users" u on u."id" = m."user_id" and u."disabled_at" is null
      and (u."verified_at" is not null or u."organization_id" = m."organization_id")
    left join "crm_grants" g on g."organization_id" = k."organization_id"
      and g."profile_id" in (k."profile_id", m."profile_id")
    where ${condition} and k."revoked_at" is null
      and (k."on_behalf_of_id" is null or u."id" is not null)`;

/** Query for a key by its public ID. Prepared because it runs about once a second for every key in use. */
const byPublicId = prepare<string>('api_key', 'read', ($) =>
  keyQuery(`k."public_id" = ${$((publicId) => publicId)}::text`),
);

/** A key's organization and ID. */
type KeyIdentity = Pick<Principal, 'organization' | 'actor'>;

const byId = prepare<KeyIdentity>('', 'read', ($) =>
  keyQuery(
    `k."organization_id" = ${$(({ organization }) => organization)}::bigint and k."id" = ${$(({ actor }) => actor)}::bigint`,
  ),
);

/**
 * Finds a key with its grants. Returns undefined if it is missing or revoked, or acts on behalf of a member who cannot log
 * in.
 */
async function findKey(database: Database, query: Statement): Promise<StoredKey | undefined> {
  const rows = (await database.run(query)) as readonly (readonly (string | null)[])[];
  const [organization, id, hash, user = null, expires, , , name = null, , , email, phoneRegion, ...rest] =
    rows[0] ?? [];
  const [client, readOnly, proposes] = rest;
  if (organization == null || id == null || hash == null) return undefined;
  const grants = rows.flatMap(([, , , , , object, action, , isOwn, isMembers]) =>
    object == null || action == null ? [] : [{ object, action, isOwn, isMembers }],
  );
  const ownGrants = grants.filter(({ isOwn }) => isOwn === 'true');
  const keyGrants = readOnly === 'true' ? readsOf(compileGrants(ownGrants)) : compileGrants(ownGrants);
  const memberGrants = compileGrants(grants.filter(({ isMembers }) => isMembers === 'true'));
  const limited = (own: Grants) => (email == null ? own : grantsWithin(own, memberGrants));
  return {
    id,
    organization,
    matches: createKeyMatcher(Buffer.from(hash, 'hex')),
    expiresAt: expires == null ? Number.POSITIVE_INFINITY : Number(expires),
    principal: Object.freeze({
      kind: 'key',
      actor: id,
      name: email == null ? name : `${name} on behalf of ${email}`,
      organization,
      user,
      grants: limited(keyGrants),
      proposes: proposes === 'true' ? limited(compileGrants(ownGrants)) : undefined,
      phoneRegion: phoneRegion ?? undefined,
      client: client ?? undefined,
    }),
  };
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Functions that verify other bearer tokens that stand for a key. Each returns undefined for tokens that it did not issue. */
    keyTokens: ((request: FastifyRequest, token: string) => Promise<KeyToken | undefined>)[];
    /** Returns when a key was last used on this node (RFC 3339), or undefined if already stored. */
    keyLastUsed: (id: string) => string | undefined;
    /**
     * Returns a description of the API key used for a request, or undefined if the request has no API key.
     * @throws HttpError 401 if the key is not valid
     */
    identifyHolder: (request: FastifyRequest) => Promise<KeyHolder | undefined>;
  }
}

/** The claims of a verified token that stands for a key. */
export interface KeyToken {
  readonly organization: string;
  /** ID of the key. */
  readonly key: string;
  /** ID of the member on whose behalf the key acts. */
  readonly user: string;
  readonly client: string;
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

/** Services used by {@link keyAuthentication}. */
interface KeyServices {
  readonly config: KeyConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
}

/** Authenticates requests by API key, or by a user's session through {@link FastifyInstance.identify}. */
export const keyAuthentication = fastifyPlugin(
  async (app: FastifyInstance, { config, database, resources }: KeyServices) => {
    const definitions = resources.map(({ definition }) => definition);
    const keys = ttlCache('keys', (publicId) => findKey(database, byPublicId.bind(publicId)));
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
        ? describeHolder(tablesOf(database), await app.authenticate(request), definitions)
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
      return withoutKey(request, token);
    });
    app.decorate('keyTokens', []);
    /** Authenticates a request by a token that stands for a key or, if it has none, by the user's session. */
    const withoutKey = async (request: FastifyRequest, token: string | undefined): Promise<Principal> => {
      for (const verify of token === undefined ? [] : app.keyTokens) {
        const claims = await verify(request, token ?? '');
        if (claims !== undefined) return acceptToken(claims);
      }
      const { session } = await app.identify(request);
      return principalOf(session, request.query as Query);
    };
    const acceptToken = async ({ organization, key, user, client }: KeyToken): Promise<Principal> => {
      const principal = await app.principalAgain({ kind: 'key', actor: key, organization });
      if (principal === undefined || principal.client !== client || principal.user !== user)
        throw errors.unauthenticated();
      uses.record(key, { organization, at: new Date() });
      return principal;
    };
    const findPrincipal = async (caller: CallerIdentity): Promise<Principal | undefined> => {
      if (caller.kind === 'user') return memberPrincipal(tablesOf(database), caller);
      const key = await findKey(database, byId.bind(caller));
      return key === undefined || key.expiresAt <= Date.now() ? undefined : key.principal;
    };
    const callers = ttlCache('callers of jobs', findPrincipal, {
      textOf: ({ kind, actor, organization }) => `${kind} ${actor} ${organization}`,
    });
    app.decorate('principalAgain', async (caller) => callers.get(caller));
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
  return userPrincipal(user, membership);
}
