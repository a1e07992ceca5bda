import type { Database } from '../../engine/database/index.ts';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';

/** Integrations that somebody switched off: providers get 404, and may give up. */
export const integrationsOff: DoctorCheck<{ readonly database: Database }> = {
  name: 'integrations',
  needs: ['database'],
  run: async ({ database }) => {
    const rows = await tablesOf(database)
      .selectFrom('crm_integrations as i')
      .innerJoin('crm_organizations as o', 'o.id', 'i.organization_id')
      .select(['o.slug', 'i.id', 'i.name', 'i.provider'])
      .where('i.enabled', '=', false)
      .orderBy('i.id')
      .execute();
    return rows.map(
      ({ slug, id, name, provider }): Finding => ({
        place: `organization ${slug}`,
        problem: `integration ${id}, ${name} (${provider}), is off, and its address responds 404`,
        advice: `Switch it on at /setup/o/${slug}/integrations, or have the provider stop calling it.`,
        isNote: true,
      }),
    );
  },
};
