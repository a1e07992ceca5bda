import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';

interface Row {
  readonly slug: string;
  readonly id: string;
  readonly url: string;
  readonly state: string;
  readonly failures: number;
  readonly since: string;
}

/** Reports failing receivers, and subscriptions that were disabled because their receiver failed. */
export const receiversCheck: DoctorCheck<{ readonly database: Database }> = {
  name: 'event receivers',
  needs: ['database'],
  run: async ({ database }) => {
    const { rows } = await sql<Row>`
      select o.slug, s.id::text as id, s.url, s.state, s.failures, coalesce(to_char(s.failing_since at time zone 'UTC', 'YYYY-MM-DD HH24:MI'), '') as since
      from crm_event_subscriptions s join crm_organizations o on o.id = s.organization_id
      where s.state in ('gone', 'failed') or s.state = 'on' and s.failing_since is not null
      order by o.slug, s.id`.execute(tablesOf(database));
    return rows.map(({ slug, id, url, state, failures, since }): Finding => {
      const command = `crm subscription on ${id} --org ${slug}`;
      const reason =
        state === 'gone'
          ? 'responded with 410, so the subscription was disabled'
          : state === 'failed'
            ? 'failed for days, so the subscription was disabled'
            : `has failed ${failures === 1 ? 'once' : `${failures} times`} since ${since} UTC`;
      return {
        location: `organization ${slug}`,
        // Only the origin is shown, because the path can contain a secret.
        message: `the receiver of event subscription ${id}, ${new URL(url).origin}, ${reason}`,
        advice:
          state === 'on'
            ? `See the reason with "crm delivery list --org ${slug}". Waiting events are sent once it responds with 2xx.`
            : `Changes are kept. Once the receiver works, run "${command}".`,
      };
    });
  },
};
