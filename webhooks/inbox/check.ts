import type { Database } from '../../engine/database/index.ts';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { type ChannelConfig, channelsOf } from '../channels/index.ts';

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

/** Reports enabled integrations whose channel does not exist, for example because its module was removed from config.yaml. */
export const unknownChannels: DoctorCheck<{ readonly config: ChannelConfig; readonly database: Database }> = {
  name: 'channels',
  needs: ['config', 'database'],
  run: async ({ config, database }) => {
    const rows = await tablesOf(database)
      .selectFrom('crm_integrations as i')
      .innerJoin('crm_organizations as o', 'o.id', 'i.organization_id')
      .select(['o.slug', 'i.id', 'i.name', 'i.provider'])
      .where('i.enabled', '=', true)
      .where('i.provider', 'not in', Object.keys(channelsOf(config)))
      .orderBy('i.id')
      .execute();
    return rows.map(
      ({ slug, id, name, provider }): Finding => ({
        location: `organization ${slug}`,
        message: `integration ${id}, "${name}", needs the channel "${provider}", which no module adds, so its URL responds with 404`,
        advice: `Add the module to config.yaml, or remove the integration at /setup/o/${slug}/integrations.`,
      }),
    );
  },
};
