import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import type { Queue } from './queue.ts';

/** How long something may be due before nobody seems to process it, in minutes. */
const lateMinutes = 10;

interface Row {
  readonly slug: string;
  readonly count: string;
}

const many = (count: string, what: string): string =>
  count === '1' ? `one ${what}` : `${count} ${what.replace(/y$/, 'ie')}s`;

/**
 * What was given up in a queue, and what nobody processes.
 * @param noun the first word of the commands of the queue
 */
export const queueCheck = (queue: Queue, noun: string): DoctorCheck<{ readonly database: Database }> => ({
  name: queue.name,
  needs: ['database'],
  run: async ({ database }) => {
    const tables = tablesOf(database);
    const [items, owners] = [sql.table(queue.table), sql.table(queue.owner.table)];
    const dead = await sql<Row>`
      select o.slug, count(*)::text as count from ${items} i join crm_organizations o on o.id = i.organization_id
      where i.status = 'dead' group by 1 order by 1`.execute(tables);
    const late = await sql<Row>`
      select o.slug, count(*)::text as count from ${items} w
      join ${owners} g on g.organization_id = w.organization_id and g.id = ${sql.ref(`w.${queue.owner.column}`)}
      join crm_organizations o on o.id = w.organization_id
      where w.status = 'waiting' and w.next_at < now() - ${sql.lit(lateMinutes)} * interval '1 minute'
        and ${sql.raw(queue.owner.isOpen)} and ${sql.raw(queue.isReady ?? 'true')}
      group by 1 order by 1`.execute(tables);
    return [
      ...dead.rows.map(
        ({ slug, count }): Finding => ({
          place: `organization ${slug}`,
          problem: `${many(count, queue.item)} ${count === '1' ? 'was' : 'were'} given up`,
          advice: `"crm ${noun} list --org ${slug} --status dead" tells why; "crm ${noun} replay <id> --org ${slug}" tries again.`,
        }),
      ),
      ...late.rows.map(
        ({ slug, count }): Finding => ({
          place: `organization ${slug}`,
          problem: `${many(count, queue.item)} ${count === '1' ? 'has' : 'have'} been due for more than ${lateMinutes} minutes`,
          advice: 'No server processes them: start it with "crm serve", or see its log.',
        }),
      ),
    ];
  },
});
