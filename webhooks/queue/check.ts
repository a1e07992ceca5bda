import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import type { Queue } from './queue.ts';

/** Time after which a due item is reported as overdue, in minutes. */
const lateMinutes = 10;

interface Row {
  readonly slug: string;
  readonly count: string;
}

const pluralize = (count: string, noun: string): string =>
  count === '1' ? `one ${noun}` : `${count} ${noun.replace(/y$/, 'ie')}s`;

/**
 * Creates a check that reports a queue's dead letters and overdue items.
 * @param noun the first word of the queue's commands
 */
export const queueCheck = (queue: Queue, noun: string): DoctorCheck<{ readonly database: Database }> => ({
  name: queue.name,
  needs: ['database'],
  run: async ({ database }) => {
    const tables = tablesOf(database);
    const [items, owners] = [sql.table(queue.table), sql.table(queue.owner.table)];
    const deadLetters = await sql<Row>`
      select o.slug, count(*)::text as count from ${items} i join crm_organizations o on o.id = i.organization_id
      where i.status = 'dead' group by 1 order by 1`.execute(tables);
    const overdueItems = await sql<Row>`
      select o.slug, count(*)::text as count from ${items} w
      join ${owners} g on g.organization_id = w.organization_id and g.id = ${sql.ref(`w.${queue.owner.column}`)}
      join crm_organizations o on o.id = w.organization_id
      where w.status = 'waiting' and w.next_at < now() - ${sql.lit(lateMinutes)} * interval '1 minute'
        and ${sql.raw(queue.owner.isOpen)} and ${sql.raw(queue.isReady ?? 'true')}
      group by 1 order by 1`.execute(tables);
    return [
      ...deadLetters.rows.map(
        ({ slug, count }): Finding => ({
          location: `organization ${slug}`,
          message: `${pluralize(count, queue.item)} failed permanently`,
          advice: `See the reason with "crm ${noun} list --org ${slug} --status dead". Retry with "crm ${noun} replay <id> --org ${slug}".`,
        }),
      ),
      ...overdueItems.rows.map(
        ({ slug, count }): Finding => ({
          location: `organization ${slug}`,
          message: `${pluralize(count, queue.item)} ${count === '1' ? 'has' : 'have'} been due for more than ${lateMinutes} minutes`,
          advice: 'No server processes them. Start one with "crm serve", or check its log.',
        }),
      ),
    ];
  },
});
