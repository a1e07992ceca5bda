import type { Database } from '../../engine/database/index.ts';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';

/** Reports disabled integrations. Their providers receive 404 and might stop sending events. */
export const disabledIntegrations: DoctorCheck<{ readonly database: Database }> = {
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
        location: `organization ${slug}`,
        message: `integration ${id}, "${name}" (${provider}), is disabled, so its URL responds with 404`,
        advice: `Enable it at /setup/o/${slug}/integrations, or stop the provider from calling it.`,
        isNote: true,
      }),
    );
  },
};
