import type { Database } from '../../../engine/database/index.ts';
import { grantMasks, type Principal } from '../../../engine/records/index.ts';
import { prepare } from '../../../engine/sql/index.ts';
import { createKeyMatcher } from './key-format.ts';

/** A live key, as authentication needs it. */
export interface StoredKey {
  readonly id: string;
  readonly organization: string;
  /** Whether it is the whole key, in constant time. */
  readonly matches: (token: string) => boolean;
  /** Milliseconds since 1970; infinite if it never expires. */
  readonly expiresAt: number;
  /** The caller that the key authenticates. */
  readonly principal: Principal;
}

/** Prepared once, because it runs for every key about once a second. */
const byPublicId = prepare<string>(
  'api_key',
  'read',
  ($) => `select k."organization_id"::text, k."id"::text, k."secret_hash", k."created_by_id"::text,
      floor(extract(epoch from k."expires_at") * 1000)::text, g."object", g."action", k."name"
    from "crm_api_keys" k
    left join "crm_grants" g on g."organization_id" = k."organization_id" and g."profile_id" = k."profile_id"
    where k."public_id" = ${$((publicId) => publicId)}::text and k."revoked_at" is null`,
);

/** Finds a key by its public ID, with its profile's grants; returns undefined if it does not exist or is revoked. */
export async function findKey(database: Database, publicId: string): Promise<StoredKey | undefined> {
  const rows = (await database.run(byPublicId.bind(publicId))) as readonly (readonly (string | null)[])[];
  const [organization, id, hash, user = null, expires, , , name = null] = rows[0] ?? [];
  if (organization == null || id == null || hash == null) return undefined;
  const granted = rows.flatMap(([, , , , , object, action]) =>
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
      grants: grantMasks(granted),
    }),
  };
}
