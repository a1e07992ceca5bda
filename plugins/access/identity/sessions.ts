import { sql } from 'kysely';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import {
  type CallerIdentity,
  compileGrants,
  type Grants,
  type Principal,
} from '../../../engine/records/index.ts';
import type { RowSource, Tables } from '../../../engine/tables/index.ts';
import { generatePublicId, generateSecret, hashSecret } from '../secrets/index.ts';
import { hasSecondFactor, removeSecondFactors } from './second-factors.ts';

/** A user's membership in one organization, with its grants. */
export interface Membership {
  readonly organization: string;
  readonly slug: string;
  /** The organization's former slugs. */
  readonly formerSlugs: readonly string[];
  readonly name: string;
  readonly profile: string;
  readonly grants: Grants;
  /** See {@link Principal}. */
  readonly phoneRegion: string | undefined;
}

/** A user's session, found by its cookie value or a token's `jti`. */
export interface Session {
  readonly id: string;
  readonly jti: string;
  readonly user: {
    readonly id: string;
    readonly email: string;
    readonly name: string | null;
    /** The language of pages and emails; null if the browser decides. */
    readonly language: string | null;
  };
  readonly tokenVersion: number;
  /** How the user logged in, as text. */
  readonly method: string;
  /** Whether the user proved a second factor at login. */
  readonly secondFactor: boolean;
  /** Login time, in Unix milliseconds. */
  readonly startedAt: number;
  /** Time of last use, in Unix milliseconds. */
  readonly lastSeen: number;
  /** Time at which the session expires even if it is in use, in Unix milliseconds. */
  readonly expires: number;
  /** The user's memberships, keyed by the organization's slug. */
  readonly memberships: ReadonlyMap<string, Membership>;
}

/** Describes how a user was authenticated. */
export interface Proof {
  /** How the user logged in, as text for the list of sessions. */
  readonly method: string;
  /** Whether a second factor was proven. */
  readonly secondFactor: boolean;
}

/** A newly started session. */
interface NewSession {
  readonly id: string;
  /** The cookie value. Only its hash is stored. */
  readonly token: string;
  readonly jti: string;
  readonly expires: Date;
}

/**
 * Starts a session in a transaction, and deletes the user's expired sessions.
 * @param options `tokenVersion` is the user's token version when the password was verified
 * @returns undefined if all of the user's sessions have been ended since then (for example by a password change), or
 * if the user is disabled or has not proven their second factor
 */
export async function startSession(
  tables: Tables,
  user: string,
  options: {
    readonly durationMs: number;
    readonly userAgent: string;
    readonly tokenVersion: number;
    readonly proof: Proof;
  },
): Promise<NewSession | undefined> {
  // Ending all sessions and setting up a second factor also lock this row. They either wait for this function and see
  // the new session, or this function waits for them.
  const lockedUser = await tables
    .selectFrom('crm_users')
    .select('token_version')
    .where('id', '=', user)
    .where('disabled_at', 'is', null)
    .forUpdate()
    .executeTakeFirst();
  if (lockedUser?.token_version !== options.tokenVersion) return undefined;
  const { method, secondFactor } = options.proof;
  if (!secondFactor && (await hasSecondFactor(tables, user))) return undefined;
  await tables
    .deleteFrom('crm_sessions')
    .where('user_id', '=', user)
    .where('expires_at', '<', new Date())
    .execute();
  const token = generateSecret();
  const jti = generatePublicId();
  const expires = new Date(Date.now() + options.durationMs);
  const row = await tables
    .insertInto('crm_sessions')
    .values({
      user_id: user,
      token_hash: hashSecret(token),
      jti,
      user_agent: options.userAgent.slice(0, 200),
      method,
      second_factor: secondFactor,
      expires_at: expires,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return { id: row.id, token, jti, expires };
}

/** Finds a live session and its user's memberships by the session's cookie value or token ID. */
export async function findSession(
  tables: Tables,
  credential: { readonly token: string } | { readonly jti: string },
): Promise<Session | undefined> {
  const base = tables
    .selectFrom('crm_sessions as s')
    .innerJoin('crm_users as u', 'u.id', 's.user_id')
    .select(['s.id', 's.jti', 's.user_id', 's.method', 's.second_factor', 's.created_at', 's.last_seen_at'])
    .select(['s.expires_at', 'u.email', 'u.name', 'u.language', 'u.token_version'])
    .where('s.expires_at', '>', new Date());
  const session = await ('token' in credential
    ? base.where('s.token_hash', '=', hashSecret(credential.token))
    : base.where('s.jti', '=', credential.jti)
  ).executeTakeFirst();
  if (session === undefined) return undefined;
  return {
    id: session.id,
    jti: session.jti,
    user: {
      id: session.user_id,
      email: session.email,
      name: session.name,
      language: session.language,
    },
    tokenVersion: session.token_version,
    method: session.method,
    secondFactor: session.second_factor,
    startedAt: session.created_at.getTime(),
    lastSeen: session.last_seen_at.getTime(),
    expires: session.expires_at.getTime(),
    memberships: await findMemberships(tables, session.user_id),
  };
}

/** Returns a user as a caller in an organization, or undefined if the user is disabled or not a member. */
export async function memberPrincipal(
  tables: Tables,
  { actor, organization }: CallerIdentity,
): Promise<Principal | undefined> {
  const user = await tables
    .selectFrom('crm_users')
    .select(['id', 'email'])
    .where('id', '=', actor ?? '')
    .where('disabled_at', 'is', null)
    .executeTakeFirst();
  if (user === undefined) return undefined;
  const memberships = await findMemberships(tables, user.id);
  const membership = [...memberships.values()].find((candidate) => candidate.organization === organization);
  return membership && userPrincipal(user, membership);
}

/** Returns a user as the caller in one of the user's organizations. */
export const userPrincipal = (
  { id, email }: Pick<Session['user'], 'id' | 'email'>,
  { organization, grants, phoneRegion }: Membership,
): Principal => ({ kind: 'user', actor: id, name: email, organization, user: id, grants, phoneRegion });

/** SQL expression for the former slugs of organization `o`. */
const formerSlugsOf = sql<string[]>`array(
  select f.slug from crm_former_slugs f where f.holder_id = o.id and f.slug <> o.slug)`.as('former');

/** Returns the membership in the organization with this current or former slug. */
export const membershipBySlug = (
  memberships: ReadonlyMap<string, Membership>,
  slug: string,
): Membership | undefined =>
  memberships.get(slug) ?? [...memberships.values()].find(({ formerSlugs }) => formerSlugs.includes(slug));

/** Returns a user's memberships with their grants, keyed by organization slug. */
export async function findMemberships(
  tables: Tables,
  user: string,
): Promise<ReadonlyMap<string, Membership>> {
  const rows = await tables
    .selectFrom('crm_memberships as m')
    .innerJoin('crm_organizations as o', 'o.id', 'm.organization_id')
    // An unverified user can act only in their own organization, even if they have other memberships.
    .innerJoin('crm_users as u', (join) =>
      join
        .onRef('u.id', '=', 'm.user_id')
        .on((on) =>
          on.or([
            on('u.verified_at', 'is not', null),
            on('u.organization_id', '=', on.ref('m.organization_id')),
          ]),
        ),
    )
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'm.organization_id').onRef('p.id', '=', 'm.profile_id'),
    )
    .leftJoin('crm_grants as g', (join) =>
      join.onRef('g.organization_id', '=', 'm.organization_id').onRef('g.profile_id', '=', 'm.profile_id'),
    )
    .select(['o.id', 'o.slug', 'o.name', 'o.phone_region', 'p.name as profile', 'g.object', 'g.action'])
    .select(formerSlugsOf)
    .where('m.user_id', '=', user)
    .orderBy('o.slug')
    .execute();
  const bySlug = Map.groupBy(rows, (row) => row.slug);
  return new Map(
    [...bySlug].map(([slug, membershipRows]) => {
      const first = membershipRows[0];
      const grants = membershipRows.flatMap(({ object, action }) =>
        object === null || action === null ? [] : [{ object, action }],
      );
      return [
        slug,
        {
          organization: first?.id ?? '',
          slug,
          formerSlugs: first?.former ?? [],
          name: first?.name ?? slug,
          profile: first?.profile ?? '',
          grants: compileGrants(grants),
          phoneRegion: first?.phone_region ?? undefined,
        },
      ];
    }),
  );
}

/** A user's membership, as listed for the user. */
export interface MembershipRow {
  /** The organization's ID. */
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly profile: string;
}

/** A user's memberships, sorted by organization name. */
export const membershipRows: RowSource<MembershipRow> = {
  from: `crm_memberships m
    join crm_organizations o on o.id = m.organization_id
    join crm_users u on u.id = m.user_id
    join crm_profiles p on p.organization_id = m.organization_id and p.id = m.profile_id`,
  owner: 'm.user_id',
  // An unverified user can act only in their own organization, even if they have other memberships.
  where: 'u.verified_at is not null or u.organization_id = m.organization_id',
  columns: { id: 'o.id', slug: 'o.slug', name: 'o.name', profile: 'p.name' },
  search: ['o.name', 'o.slug'],
  order: 'lower(o.name), o.id',
};

/** Stores when sessions were last used. */
export async function storeSessionsUsed(tables: Tables, uses: ReadonlyMap<string, Date>): Promise<void> {
  for (const [id, at] of uses) {
    await tables.updateTable('crm_sessions').set({ last_seen_at: at }).where('id', '=', id).execute();
  }
}

/** A session as listed for its user. */
export interface SessionInfo {
  readonly id: string;
  readonly user_agent: string;
  /** How the user logged in, as text. */
  readonly method: string;
  readonly created_at: Date;
  readonly last_seen_at: Date;
  readonly expires_at: Date;
}

/** A user's live sessions, newest first. */
export const sessionRows: RowSource<SessionInfo> = {
  from: 'crm_sessions s',
  owner: 's.user_id',
  where: 's.expires_at > now()',
  columns: {
    id: 's.id',
    user_agent: 's.user_agent',
    method: 's.method',
    created_at: 's.created_at',
    last_seen_at: 's.last_seen_at',
    expires_at: 's.expires_at',
  },
  search: ['s.user_agent', 's.method'],
  order: 's.id desc',
};

/** Ends one of a user's sessions. @returns false if it does not exist */
export async function endSession(
  tables: Tables,
  actor: Actor,
  user: string,
  id: string,
  organizations: readonly string[],
): Promise<boolean> {
  const row = await tables
    .deleteFrom('crm_sessions')
    .where('user_id', '=', user)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) return false;
  await recordEverywhere(tables, actor, organizations, 'logout', id);
  return true;
}

/**
 * Ends a browser's previous session when the browser starts a new one.
 * @returns the ended session, or undefined if the browser did not have a session
 */
export async function endReplacedSession(
  tables: Tables,
  actorOf: (user: Session['user']) => Actor,
  token: string,
): Promise<Session | undefined> {
  const session = await findSession(tables, { token });
  if (session === undefined) return undefined;
  const organizations = [...session.memberships.values()].map(({ organization }) => organization);
  await endSession(tables, actorOf(session.user), session.user.id, session.id, organizations);
  return session;
}

/**
 * Changes a user's second factors in a transaction. Afterwards, the current session counts as having proven a
 * second factor if the user still has one, and all other sessions are ended.
 * @param work makes the change
 */
export async function changeSecondFactors<T>(
  tables: Tables,
  { user, id }: Pick<Session, 'user' | 'id'>,
  work: () => Promise<T>,
): Promise<T> {
  await tables.selectFrom('crm_users').select('id').where('id', '=', user.id).forUpdate().execute();
  const result = await work();
  const second_factor = await hasSecondFactor(tables, user.id);
  // Recovery codes do not count as a second factor by themselves.
  if (!second_factor) await removeSecondFactors(tables, user.id);
  await tables.updateTable('crm_sessions').set({ second_factor }).where('id', '=', id).execute();
  await tables.deleteFrom('crm_sessions').where('user_id', '=', user.id).where('id', '!=', id).execute();
  return result;
}

/** Ends all of a user's sessions and invalidates all of the user's tokens, on every node. */
export async function endAllSessions(
  tables: Tables,
  actor: Actor,
  user: string,
  organizations: readonly string[],
): Promise<void> {
  await tables
    .updateTable('crm_users')
    .set((expression) => ({ token_version: expression('token_version', '+', 1) }))
    .where('id', '=', user)
    .execute();
  await tables.deleteFrom('crm_sessions').where('user_id', '=', user).execute();
  await recordEverywhere(tables, actor, organizations, 'logout everywhere', null);
}

/** Ends all sessions, and invalidates all tokens and reset links. @returns the number of ended sessions */
export async function endSessionsOfAllUsers(tables: Tables): Promise<number> {
  await tables
    .updateTable('crm_users')
    .set((expression) => ({ token_version: expression('token_version', '+', 1) }))
    .execute();
  await tables.deleteFrom('crm_resets').where('used_at', 'is', null).execute();
  const { numDeletedRows } = await tables.deleteFrom('crm_sessions').executeTakeFirstOrThrow();
  return Number(numDeletedRows);
}

/** Records a change to a session in the change logs of all of the user's organizations. */
export const recordEverywhere = (
  tables: Tables,
  actor: Actor,
  organizations: readonly string[],
  action: string,
  objectId: string | null,
): Promise<void> =>
  recordChanges(
    tables,
    actor,
    ...organizations.map((organization) => ({ organization, action, object: 'session', objectId })),
  );
