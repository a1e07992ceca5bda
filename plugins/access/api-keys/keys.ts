import { sql } from 'kysely';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import {
  countRows,
  displayName,
  findRow,
  type RowSource,
  type Tables,
} from '../../../engine/tables/index.ts';
import { type TextIn, TranslatedError } from '../../admin-ui/shell/index.ts';
import { accessColumns, accessSql, type KeyAccess } from './key-access.ts';
import { generateKey } from './key-format.ts';
import { apiKeysTexts } from './texts/index.ts';

/** An API key as listed for administrators. */
export interface KeyInfo {
  readonly id: string;
  readonly name: string;
  readonly profile: string;
  readonly profile_id: string;
  readonly access: KeyAccess;
  /** The creator's email address; null if the creator is not a user or was deleted. */
  readonly created_by: string | null;
  /** The creator's name; null if it is not known. */
  readonly created_by_name: string | null;
  /** ID of the member on whose behalf the key acts; null for an ordinary key. */
  readonly on_behalf_of_id: string | null;
  /** The member's email address; null for an ordinary key. */
  readonly on_behalf_of: string | null;
  /** The member's name; null for an ordinary key, or if the name is not known. */
  readonly on_behalf_of_name: string | null;
  readonly last_four: string;
  readonly created_at: Date;
  readonly last_used_at: Date | null;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
}

/** SQL conditions for each state of a key `k`. */
export const keyStates = {
  live: 'k.revoked_at is null and (k.expires_at is null or k.expires_at > now())',
  expired: 'k.revoked_at is null and k.expires_at <= now()',
  revoked: 'k.revoked_at is not null',
} as const;

/** An organization's API keys, newest first. Connected apps, which have no plaintext, are not among them. */
export const keyRows: RowSource<KeyInfo> = {
  from: `crm_api_keys k
    join crm_profiles p on p.organization_id = k.organization_id and p.id = k.profile_id
    left join crm_users u on u.id = k.created_by_id
    left join crm_users b on b.id = k.on_behalf_of_id`,
  owner: 'k.organization_id',
  where: 'k.client_id is null',
  columns: {
    id: 'k.id',
    name: 'k.name',
    profile: 'p.name',
    profile_id: 'k.profile_id',
    access: accessSql,
    created_by: 'u.email',
    created_by_name: 'u.name',
    on_behalf_of_id: 'k.on_behalf_of_id',
    on_behalf_of: 'b.email',
    on_behalf_of_name: 'b.name',
    last_four: 'k.last_four',
    created_at: 'k.created_at',
    last_used_at: 'k.last_used_at',
    expires_at: 'k.expires_at',
    revoked_at: 'k.revoked_at',
  },
  search: ['k.name', 'p.name', 'k.last_four', 'u.name', 'u.email', 'b.name', 'b.email'],
  order: 'k.id desc',
};

/** Returns a key's current state. */
export const keyState = ({ revoked_at, expires_at }: KeyInfo): keyof typeof keyStates =>
  revoked_at !== null ? 'revoked' : expires_at !== null && expires_at <= new Date() ? 'expired' : 'live';

/** A new API key. The plaintext is not stored. */
export interface NewApiKey {
  readonly id: string;
  readonly name: string;
  readonly plaintext: string;
  readonly lastFour: string;
}

/**
 * Creates an API key in a transaction.
 * @param key `user` is the creator's ID, or null if the creator is not a user; records created with the key
 * will have the same creator, unless the key acts on behalf of a member. `onBehalfOf` is the member's ID, or null for
 * an ordinary key. `client` is the OAuth client whose tokens stand for the key, whose plaintext must then be discarded
 * @throws UserError if `onBehalfOf` is not a member of the organization
 */
export async function createKey(
  tables: Tables,
  actor: Actor,
  prefix: string,
  key: {
    readonly organization: string;
    readonly profile: string;
    readonly name: string;
    readonly user: string | null;
    readonly onBehalfOf: string | null;
    readonly expiresAt: Date | null;
    readonly client?: string;
    /** Default: `write`. */
    readonly access?: KeyAccess;
  },
): Promise<NewApiKey> {
  const newKey = generateKey(prefix);
  const name = displayName(key.name, 'the name');
  if (key.onBehalfOf !== null) await lockMember(tables, key.organization, key.onBehalfOf);
  const row = await tables
    .insertInto('crm_api_keys')
    .values({
      organization_id: key.organization,
      profile_id: key.profile,
      public_id: newKey.publicId,
      secret_hash: newKey.hash,
      last_four: newKey.lastFour,
      name,
      created_by_id: key.user,
      on_behalf_of_id: key.onBehalfOf,
      client_id: key.client ?? null,
      ...accessColumns(key.access ?? 'write'),
      expires_at: key.expiresAt,
      last_used_at: null,
      revoked_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  const entry = { organization: key.organization, object: objectOf(key.client), objectId: row.id };
  await recordChanges(tables, actor, { ...entry, action: 'create' });
  return { id: row.id, name, plaintext: newKey.plaintext, lastFour: newKey.lastFour };
}

/** Returns the name of a key in the change log. */
const objectOf = (client: string | null | undefined): string => (client == null ? 'key' : 'app');

/** Keeps a member from being removed until the transaction ends. @throws UserError if the member does not exist */
async function lockMember(tables: Tables, organization: string, user: string): Promise<void> {
  // Removing a member locks the organization first. With the same order, neither transaction waits for the other.
  await tables
    .selectFrom('crm_organizations')
    .select('id')
    .where('id', '=', organization)
    .forKeyShare()
    .execute();
  const row = await tables
    .selectFrom('crm_memberships')
    .select('user_id')
    .where('organization_id', '=', organization)
    .where('user_id', '=', user)
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(apiKeysTexts.later('notMember'));
}

/**
 * Checks, within a transaction, that an organization's quota allows another key. Locks the organization so
 * that concurrent requests cannot exceed the quota together.
 * @param quota maximum number of live keys; 0 means unlimited
 * @throws UserError if the quota is reached
 */
export async function assertKeyQuota(tables: Tables, organization: string, quota: number): Promise<void> {
  if (quota === 0) return;
  await tables
    .selectFrom('crm_organizations')
    .select('id')
    .where('id', '=', organization)
    .forNoKeyUpdate()
    .execute();
  const live = await countRows(tables, keyRows, organization, { where: [sql.raw(keyStates.live)] });
  if (live >= quota) throw new TranslatedError(apiKeysTexts.later('quotaReached', { quota: String(quota) }));
}

/** Returns the message for a key that does not exist. */
export const missingKey = (id: string): TextIn => apiKeysTexts.later('missing', { id });

/** Permanently revokes an organization's key. @throws UserError if it does not exist or is already revoked */
export async function revokeKey(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
): Promise<void> {
  const row = await tables
    .updateTable('crm_api_keys')
    .set({ revoked_at: new Date() })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .returning('client_id')
    .executeTakeFirst();
  if (row !== undefined) {
    const object = objectOf(row.client_id);
    await recordChanges(tables, actor, { organization, action: 'revoke', object, objectId: id });
    return;
  }
  const existing = await findRow(tables, keyRows, organization, id);
  throw new TranslatedError(
    existing === undefined ? missingKey(id) : apiKeysTexts.later('alreadyRevoked', { id }),
  );
}

/**
 * Permanently revokes the keys that act on behalf of a member who is being removed. The keys are deleted, because they
 * cannot exist without the membership.
 */
export async function revokeKeysOnBehalfOf(
  tables: Tables,
  actor: Actor,
  organization: string,
  user: string,
): Promise<void> {
  const rows = await tables
    .deleteFrom('crm_api_keys')
    .where('organization_id', '=', organization)
    .where('on_behalf_of_id', '=', user)
    .returning(['id', 'client_id', 'revoked_at'])
    .execute();
  const entries = rows
    .filter(({ revoked_at }) => revoked_at === null)
    .map(({ id, client_id }) => ({
      organization,
      action: 'revoke',
      object: objectOf(client_id),
      objectId: id,
    }));
  await recordChanges(tables, actor, ...entries);
}

/** Permanently revokes all keys in all organizations. @returns the number of revoked keys */
export async function revokeAllKeys(tables: Tables, actor: Actor): Promise<number> {
  const rows = await tables
    .updateTable('crm_api_keys')
    .set({ revoked_at: new Date() })
    .where('revoked_at', 'is', null)
    .returning(['organization_id', 'id', 'client_id'])
    .execute();
  for (const { organization_id: organization, id, client_id } of rows) {
    const object = objectOf(client_id);
    await recordChanges(tables, actor, { organization, action: 'revoke', object, objectId: id });
  }
  return rows.length;
}

/**
 * Replaces a key with a new one that has the same name, profile, access and expiry, and acts on behalf of the same member. The
 * previous key stays valid for a limited time.
 * @param previous `overlapMs` is how long the previous key stays valid, in milliseconds
 * @throws UserError if the key does not exist or is not live
 */
export async function rotateKey(
  tables: Tables,
  actor: Actor,
  prefix: string,
  previous: { readonly organization: string; readonly id: string; readonly overlapMs: number },
): Promise<NewApiKey> {
  const key = await findRow(tables, keyRows, previous.organization, previous.id);
  if (key === undefined || keyState(key) !== 'live') throw new TranslatedError(apiKeysTexts.later('notLive'));
  const overlapEnd = new Date(Date.now() + previous.overlapMs);
  const expiresAt = key.expires_at;
  const row = await tables
    .updateTable('crm_api_keys')
    .set({ expires_at: expiresAt !== null && expiresAt < overlapEnd ? expiresAt : overlapEnd })
    .where('organization_id', '=', previous.organization)
    .where('id', '=', previous.id)
    // The key may have been revoked since it was read.
    .where('revoked_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(apiKeysTexts.later('notLive'));
  const entry = { organization: previous.organization, object: 'key', objectId: previous.id };
  await recordChanges(tables, actor, { ...entry, action: 'rotate' });
  return createKey(tables, actor, prefix, {
    organization: previous.organization,
    profile: key.profile_id,
    name: key.name,
    user: actor.kind === 'user' ? actor.id : null,
    onBehalfOf: key.on_behalf_of_id,
    access: key.access,
    expiresAt,
  });
}

/** Stores when keys were last used. */
export async function storeKeysUsed(
  tables: Tables,
  uses: ReadonlyMap<string, { readonly organization: string; readonly at: Date }>,
): Promise<void> {
  for (const [id, { organization, at }] of uses) {
    await tables
      .updateTable('crm_api_keys')
      .set({ last_used_at: at })
      .where('organization_id', '=', organization)
      .where('id', '=', id)
      .execute();
  }
}
