import type { Database } from '../../../engine/database/index.ts';
import type { DoctorCheck } from '../../../engine/modules/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';

/** How long before its expiry a key is first reported, in milliseconds. */
export const expiryNoticeMs = 14 * 86_400_000;
/** How long a key counts as in use after it was last used, in milliseconds. */
const recentUseMs = 86_400_000;
/** Maximum number of keys to report. */
const maxListed = 20;

/** Reports API keys that expire soon. Keys in use are reported as problems, and all other keys as notes. */
export const expiringKeys: DoctorCheck<{ readonly database: Database }> = {
  name: 'API keys',
  needs: ['database'],
  run: async ({ database }) => {
    const now = Date.now();
    const keys = await tablesOf(database)
      .selectFrom('crm_api_keys as k')
      .innerJoin('crm_organizations as o', 'o.id', 'k.organization_id')
      .select(['o.slug', 'k.id', 'k.name', 'k.last_four', 'k.expires_at', 'k.last_used_at'])
      .where('k.client_id', 'is', null)
      .where('k.revoked_at', 'is', null)
      .where('k.expires_at', '>', new Date(now))
      .where('k.expires_at', '<', new Date(now + expiryNoticeMs))
      .orderBy('k.expires_at')
      .orderBy('k.id')
      .limit(maxListed)
      .execute();
    return keys.map(({ slug, id, name, last_four, expires_at, last_used_at }) => {
      const isUsed = last_used_at !== null && last_used_at.getTime() > now - recentUseMs;
      return {
        location: `organization ${slug}`,
        message: `the API key ${id}, ${name} (…${last_four}), expires ${expires_at?.toISOString()}${isUsed ? ' and is in use' : ''}`,
        advice: `Rotate it at /setup/o/${slug}/keys, or create a new one: crm key create --org ${slug} --profile …`,
        ...(isUsed ? {} : { isNote: true as const }),
      };
    });
  },
};
