import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import type { DoctorCheck } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';

/** Reports modules whose hooks keep failing for a change. */
export const hookCheck: DoctorCheck<{ readonly database: Database }> = {
  name: 'hooks',
  needs: ['database'],
  run: async ({ database }) => {
    const { rows } = await sql<{ module: string; slug: string; attempts: number; error: string }>`
      select p.module, o.slug, p.attempts, p.error from crm_hook_places p join crm_organizations o on o.id = p.organization_id
      where p.attempts > 2 order by p.attempts desc, o.slug, p.module limit 20`.execute(tablesOf(database));
    return rows.map(({ module, slug, attempts, error }) => ({
      location: `module ${module}, organization ${slug}`,
      message: `afterCommit has failed ${attempts} times for the same change: ${error}`,
      advice: 'Later changes wait. Correct the module or the system that it calls, and restart the instance.',
    }));
  },
};
