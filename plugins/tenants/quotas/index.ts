// Quotas: enforces the quotas that config.yaml defines for organizations. May import engine, admin-ui/shell.

import { failureDetails } from '../../../engine/database/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { limitRecords } from '../../../engine/records/index.ts';
import { addHomeCheck } from '../../admin-ui/shell/index.ts';
import { bytesPerMb, limitsRecords, quotaLine, quotaOf } from './quota.ts';
import { type QuotaServices, type RecordQuotas, recordQuotas } from './record-quotas.ts';
import { quotasTexts } from './texts/index.ts';

export { type QuotaSettings, quotaLine, quotaOf } from './quota.ts';

declare module 'fastify' {
  interface FastifyInstance {
    recordQuotas: RecordQuotas;
  }
}

/** Limits an organization's records and storage, and shows the usage on its home page. */
export const quotasModule: Module<QuotaServices> = {
  name: 'quotas',
  register: (app, services) => {
    const quotas = recordQuotas(services, (cause) =>
      app.log.warn(failureDetails(cause), 'failed to count records for a quota'),
    );
    app.decorate('recordQuotas', quotas);
    limitRecords(services.database, quotas);
  },
  pages: (screens, { settings }) => {
    addHomeCheck(screens, async ({ membership: { organization, slug, formerSlugs } }, language) => {
      const quotas = settings.current.quotas;
      const { records, storage_mb } = quotaOf(quotas, [slug, ...formerSlugs]);
      if (!limitsRecords(quotas) || (records === 0 && storage_mb === 0)) return [];
      const usage = await screens.recordQuotas.usage(organization);
      if (usage === undefined) return [];
      const t = quotasTexts(language);
      return [
        ...quotaLine(t('records'), { used: usage.records, quota: records }, language),
        ...quotaLine(
          t('storage'),
          { used: Math.floor(usage.bytes / bytesPerMb), quota: storage_mb },
          language,
        ),
      ];
    });
  },
};
