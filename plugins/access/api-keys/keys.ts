import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { displayName, type Tables } from '../../../engine/tables/index.ts';
import { generateKey } from './key-format.ts';

/** An API key as administrators see it. */
export interface KeyInfo {
  readonly id: string;
  readonly name: string;
  readonly profile: string;
  readonly profile_id: string;
  /** The creator's e-mail address; null if no person created it or the user was removed. */
  readonly created_by: string | null;
  readonly last_four: string;
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
}

/** A new API key. The plaintext is not stored. */
export interface NewApiKey {
  readonly id: string;
  readonly name: string;
  readonly plaintext: string;
  readonly lastFour: string;
}

/**
 * Creates an API key.
 * @param key `user`: its creator, who also counts as the creator of its records; null if no person creates it
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
    readonly expiresAt: Date | null;
  },
): Promise<NewApiKey> {
  const made = generateKey(prefix);
  const name = displayName(key.name, 'the name');
  const row = await tables
    .insertInto('crm_api_keys')
    .values({
      organization_id: key.organization,
      profile_id: key.profile,
      public_id: made.publicId,
      secret_hash: made.hash,
      last_four: made.lastFour,
      name,
      created_by_id: key.user,
      expires_at: key.expiresAt,
      last_used_at: null,
      revoked_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  const entry = { organization: key.organization, object: 'key', objectId: row.id };
  await recordChanges(tables, actor, { ...entry, action: 'create' });
  return { id: row.id, name, plaintext: made.plaintext, lastFour: made.lastFour };
}

/**
 * Checks in a transaction that an organization can have another key. The check is exact: of two concurrent creations, the second waits.
 * @param quota keys that work, at most; 0: as many as it likes
 * @throws UserError if it has as many
 */
export async function assertKeyQuota(tables: Tables, organization: string, quota: number): Promise<void> {
  if (quota === 0) return;
  await tables
    .selectFrom('crm_organizations')
    .select('id')
    .where('id', '=', organization)
    .forNoKeyUpdate()
    .execute();
  const { live } = await tables
    .selectFrom('crm_api_keys')
    .select(({ fn }) => fn.countAll<string>().as('live'))
    .where('organization_id', '=', organization)
    .where('revoked_at', 'is', null)
    .where(({ or, eb }) => or([eb('expires_at', 'is', null), eb('expires_at', '>', new Date())]))
    .executeTakeFirstOrThrow();
  if (Number(live) >= quota)
    throw new UserError(`the organization has reached its limit of ${quota} API keys. Revoke an unused key.`);
}

/** Every key of an organization, oldest first. */
export async function listKeys(tables: Tables, organization: string): Promise<KeyInfo[]> {
  const rows = await tables
    .selectFrom('crm_api_keys as k')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'k.organization_id').onRef('p.id', '=', 'k.profile_id'),
    )
    .leftJoin('crm_users as u', 'u.id', 'k.created_by_id')
    .select(['k.id', 'k.name', 'p.name as profile', 'k.profile_id', 'k.last_four', 'k.created_at'])
    .select('u.email')
    .select(['k.last_used_at', 'k.expires_at', 'k.revoked_at'])
    .where('k.organization_id', '=', organization)
    .orderBy('k.id')
    .execute();
  const time = (value: Date | string | null) => (value === null ? null : new Date(value).toISOString());
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    profile: row.profile,
    profile_id: row.profile_id,
    created_by: row.email,
    last_four: row.last_four,
    created_at: time(row.created_at) ?? '',
    last_used_at: time(row.last_used_at),
    expires_at: time(row.expires_at),
    revoked_at: time(row.revoked_at),
  }));
}

/**
 * Revokes a key of an organization, for good.
 * @throws UserError if the key does not exist or is already revoked
 */
export async function revokeKey(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
): Promise<void> {
  const revoked = await tables
    .updateTable('crm_api_keys')
    .set({ revoked_at: new Date() })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  if (revoked !== undefined) {
    await recordChanges(tables, actor, { organization, action: 'revoke', object: 'key', objectId: id });
    return;
  }
  const known = await tables
    .selectFrom('crm_api_keys')
    .select('id')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .executeTakeFirst();
  throw new UserError(
    known === undefined ? `key ${id} does not exist in this organization` : `key ${id} is already revoked`,
  );
}

/** Revokes every key of every organization, for good. @returns how many */
export async function revokeAllKeys(tables: Tables, actor: Actor): Promise<number> {
  const revoked = await tables
    .updateTable('crm_api_keys')
    .set({ revoked_at: new Date() })
    .where('revoked_at', 'is', null)
    .returning(['organization_id', 'id'])
    .execute();
  for (const { organization_id: organization, id } of revoked) {
    await recordChanges(tables, actor, { organization, action: 'revoke', object: 'key', objectId: id });
  }
  return revoked.length;
}

/**
 * Replaces a key by a new one with the same name, profile and expiry. The old one stays valid for a while.
 * @param overlapMs how long, in milliseconds
 * @throws UserError when this key does not exist or is not live
 */
export async function rotateKey(
  tables: Tables,
  actor: Actor,
  prefix: string,
  old: { readonly organization: string; readonly id: string; readonly overlapMs: number },
): Promise<NewApiKey> {
  const key = (await listKeys(tables, old.organization)).find((each) => each.id === old.id);
  const end = new Date(Date.now() + old.overlapMs);
  const expires = key?.expires_at == null ? null : new Date(key.expires_at);
  if (key === undefined || key.revoked_at !== null || (expires !== null && expires <= new Date())) {
    throw new UserError('this key does not exist or is not live');
  }
  const ending = await tables
    .updateTable('crm_api_keys')
    .set({ expires_at: expires !== null && expires < end ? expires : end })
    .where('organization_id', '=', old.organization)
    .where('id', '=', old.id)
    // It may have been revoked since it was read.
    .where('revoked_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  if (ending === undefined) throw new UserError('this key does not exist or is not live');
  const entry = { organization: old.organization, object: 'key', objectId: old.id };
  await recordChanges(tables, actor, { ...entry, action: 'rotate' });
  return createKey(tables, actor, prefix, {
    organization: old.organization,
    profile: key.profile_id,
    name: key.name,
    user: actor.kind === 'user' ? actor.id : null,
    expiresAt: expires,
  });
}

/** Stores when keys were last used. */
export async function storeKeysUsed(
  tables: Tables,
  used: ReadonlyMap<string, { readonly organization: string; readonly at: Date }>,
): Promise<void> {
  for (const [id, { organization, at }] of used) {
    await tables
      .updateTable('crm_api_keys')
      .set({ last_used_at: at })
      .where('organization_id', '=', organization)
      .where('id', '=', id)
      .execute();
  }
}
