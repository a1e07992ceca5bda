import type { Database } from '../../../engine/database/index.ts';
import { grantMasks, type Principal } from '../../../engine/records/index.ts';
import { prepare } from '../../../engine/sql/index.ts';
import { createKeyMatcher } from './key-format.ts';

/** A live API key with the data that authentication needs. */
export interface StoredKey {
  readonly id: string;
  readonly organization: string;
  /** Reports whether a token matches this key, comparing in constant time. */
  readonly matches: (token: string) => boolean;
  /** Unix time in milliseconds, or infinity if the key does not expire. */
  readonly expiresAt: number;
  /** The caller that the key authenticates. */
  readonly principal: Principal;
}

/** Prepared, because it runs about once a second for every key in use. */
const byPublicId = prepare<string>(
  'api_key',
  'read',
  ($) => `select k."organization_id"::text, k."id"::text, k."secret_hash", k."created_by_id"::text,
      floor(extract(epoch from k."expires_at") * 1000)::text, g."object", g."action", k."name"
    from "crm_api_keys" k
    left join "crm_grants" g on g."organization_id" = k."organization_id" and g."profile_id" = k."profile_id"
    where k."public_id" = ${$((publicId) => publicId)}::text and k."revoked_at" is null`,
);

/**
 * Finds a key by its public ID and loads its profile's grants. Returns undefined if it does not exist or is revoked.
 */
export async function findKey(database: Database, publicId: string): Promise<StoredKey | undefined> {
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
