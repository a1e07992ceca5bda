import { grantMasks } from '../compile/index.ts';
import { UserError } from '../errors.ts';
import type { Principal } from '../request/index.ts';
import { type Platform, plain } from './handle.ts';
import { makeKey } from './key-format.ts';

/** An API key as an administrator sees it. */
export interface KeyInfo {
  readonly id: string;
  readonly name: string;
  readonly profile: string;
  readonly last_four: string;
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
}

/**
 * Makes an API key.
 * @param key `user`: its creator, whose records it makes; null where no person makes it
 * @returns the plaintext, which is stored nowhere, and the key's id
 */
export async function createKey(
  tables: Platform,
  prefix: string,
  key: {
    readonly organization: string;
    readonly profile: string;
    readonly name: string;
    readonly user: string | null;
    readonly expiresAt: Date | null;
  },
): Promise<{ readonly id: string; readonly plaintext: string; readonly lastFour: string }> {
  const made = makeKey(prefix);
  const row = await tables
    .insertInto('crm_api_keys')
    .values({
      organization_id: key.organization,
      profile_id: key.profile,
      public_id: made.publicId,
      secret_hash: made.hash,
      last_four: made.lastFour,
      name: plain(key.name, 'the name'),
      created_by_id: key.user,
      expires_at: key.expiresAt,
      last_used_at: null,
      revoked_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return { id: String(row.id), plaintext: made.plaintext, lastFour: made.lastFour };
}

/** Every key of an organization, oldest first. */
export async function listKeys(tables: Platform, organization: string): Promise<KeyInfo[]> {
  const rows = await tables
    .selectFrom('crm_api_keys as k')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'k.organization_id').onRef('p.id', '=', 'k.profile_id'),
    )
    .select(['k.id', 'k.name', 'p.name as profile', 'k.last_four', 'k.created_at'])
    .select(['k.last_used_at', 'k.expires_at', 'k.revoked_at'])
    .where('k.organization_id', '=', organization)
    .orderBy('k.id')
    .execute();
  const time = (value: Date | string | null) => (value === null ? null : new Date(value).toISOString());
  return rows.map((row) => ({
    id: String(row.id),
    name: row.name,
    profile: row.profile,
    last_four: row.last_four,
    created_at: time(row.created_at) ?? '',
    last_used_at: time(row.last_used_at),
    expires_at: time(row.expires_at),
    revoked_at: time(row.revoked_at),
  }));
}

/**
 * Revokes a key of an organization, for good.
 * @throws UserError when there is no such key or it is revoked already
 */
export async function revokeKey(tables: Platform, organization: string, id: string): Promise<void> {
  const revoked = await tables
    .updateTable('crm_api_keys')
    .set({ revoked_at: new Date() })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  if (revoked !== undefined) return;
  const known = await tables
    .selectFrom('crm_api_keys')
    .select('id')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .executeTakeFirst();
  throw new UserError(
    known === undefined ? `this organization has no key ${id}` : `key ${id} is revoked already`,
  );
}

/** What authentication needs to know of a live key. */
export interface StoredKey {
  readonly id: string;
  readonly organization: string;
  /** SHA-256 of the key. */
  readonly hash: Buffer;
  /** Milliseconds since 1970; infinite where it never expires. */
  readonly expiresAt: number;
  /** Whom the key stands for. */
  readonly principal: Principal;
}

/** The key with a public id, with its profile's grants; undefined where there is none or it is revoked. */
export async function findKey(tables: Platform, publicId: string): Promise<StoredKey | undefined> {
  const rows = await tables
    .selectFrom('crm_api_keys as k')
    .leftJoin('crm_grants as g', (join) =>
      join.onRef('g.organization_id', '=', 'k.organization_id').onRef('g.profile_id', '=', 'k.profile_id'),
    )
    .select(['k.organization_id', 'k.id', 'k.secret_hash', 'k.created_by_id', 'k.expires_at'])
    .select(['g.object', 'g.action'])
    .where('k.public_id', '=', publicId)
    .where('k.revoked_at', 'is', null)
    .execute();
  const key = rows[0];
  if (key === undefined) return undefined;
  const granted = rows.flatMap(({ object, action }) =>
    object === null || action === null ? [] : [{ object, action }],
  );
  const organization = String(key.organization_id);
  return {
    id: String(key.id),
    organization,
    hash: Buffer.from(key.secret_hash, 'hex'),
    expiresAt: key.expires_at === null ? Number.POSITIVE_INFINITY : new Date(key.expires_at).getTime(),
    principal: Object.freeze({
      kind: 'key',
      organization,
      user: key.created_by_id === null ? null : String(key.created_by_id),
      grants: grantMasks(granted),
    }),
  };
}

/** Notes when keys were last used. */
export async function noteKeysUsed(
  tables: Platform,
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
