// Demo: the demo organization, created in an empty database.
// May import engine, identity, profiles, api-keys, tenants/organizations.

import type { Database } from '../../../engine/database/index.ts';
import type { DoctorCheck, Module } from '../../../engine/modules/index.ts';
import { findOrganization, tablesOf } from '../../../engine/tables/index.ts';
import { demo } from './demo.ts';

export { createDemo, type Demo, firstSamples } from './demo.ts';

interface CheckServices {
  readonly database: Database;
}

/** Reports a demo organization that still has its generated administrator. */
const demoCheck: DoctorCheck<CheckServices> = {
  name: 'demo organization',
  needs: ['database'],
  run: async ({ database }) => {
    const tables = tablesOf(database);
    const administrator = await tables
      .selectFrom('crm_users')
      .select('id')
      .where('email', '=', demo.email)
      .where('disabled_at', 'is', null)
      .executeTakeFirst();
    const exists = (await findOrganization(tables, demo.slug)) !== undefined;
    if (!exists || administrator === undefined) return [];
    return [
      {
        location: `organization ${demo.slug}`,
        message: `the demo organization exists, and ${demo.email} can log in`,
        advice: `If the instance contains real records, run: crm user disable ${demo.email}`,
        isNote: true,
      },
    ];
  },
};

/** The demo organization, which is created when the instance first starts. */
export const demoModule: Module<unknown, unknown, CheckServices> = { name: 'demo', checks: [demoCheck] };
