import { grantedActions, type Principal } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** Description of an API key, as returned to its holder. IDs are decimal strings. */
export interface KeyHolder {
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

/** Describes the API key that sent a request: its organization, profile and grants. */
export async function describeHolder(
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
