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

/** Receivers that take no events, or have asked for none any more. */
export const receiversCheck: DoctorCheck<{ readonly database: Database }> = {
  name: 'receivers of events',
  needs: ['database'],
  run: async ({ database }) => {
    const { rows } = await sql<Row>`
      select o.slug, s.id::text as id, s.url, s.state, s.failures, coalesce(to_char(s.failing_since at time zone 'UTC', 'YYYY-MM-DD HH24:MI'), '') as since
      from crm_event_subscriptions s join crm_organizations o on o.id = s.organization_id
      where s.state in ('gone', 'failed') or s.state = 'on' and s.failing_since is not null
      order by o.slug, s.id`.execute(tablesOf(database));
    return rows.map(({ slug, id, url, state, failures, since }): Finding => {
      const on = `crm subscription on ${id} --org ${slug}`;
      const reason =
        state === 'gone'
          ? 'has responded 410 and was switched off'
          : state === 'failed'
            ? 'has failed for days and was switched off'
            : `has failed ${failures === 1 ? 'once' : `${failures} times`} since ${since} UTC`;
      return {
        place: `organization ${slug}`,
        // A path may hold a secret of the receiver.
        problem: `the receiver of event subscription ${id}, ${new URL(url).origin}, ${reason}`,
        advice:
          state === 'on'
            ? `"crm delivery list --org ${slug}" tells why; events wait and are sent once it responds with 2xx.`
            : `What has changed meanwhile is kept. Once the receiver works: ${on}`,
      };
    });
  },
};
