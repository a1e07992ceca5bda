import { Cron } from 'croner';
import { sql } from 'kysely';
import type { JobAction } from '../../engine/records/index.ts';
import type { Tables } from '../../engine/tables/index.ts';

/** How long after its time a run can start that no process started, in days. Jobs are kept at least as long. */
const missedDays = 7;

const cron = (schedule: string, timeZone: string): Cron =>
  new Cron(schedule, { timezone: timeZone, mode: '5-part', paused: true });

/** Returns why a value is not a cron expression with five fields that is due at some time, or undefined if it is one. */
export function scheduleIssue(text: unknown): string | undefined {
  if (typeof text !== 'string') return 'it is not a text';
  try {
    return cron(text, 'UTC').nextRun() === null ? 'it is never due' : undefined;
  } catch (cause) {
    return (cause as Error).message.replace(/^\w+: /, '');
  }
}

/** Returns when an action with a schedule is due next. */
export const nextRun = ({
  schedule,
  timeZone = 'UTC',
}: Pick<JobAction, 'schedule' | 'timeZone'>): Date | undefined =>
  schedule === undefined ? undefined : (cron(schedule, timeZone).nextRun() ?? undefined);

/** An action, with its resource. */
interface ScheduledType {
  readonly resource: { readonly name: string };
  readonly action: { readonly name: string } & Pick<JobAction, 'schedule' | 'timeZone'>;
}

/** A scheduled action, and the last time for which this process has queued its jobs, in milliseconds since 1970. */
interface Schedule {
  readonly type: ScheduledType;
  readonly cron: Cron;
  queued: number;
}

/** Queues the jobs of actions whose schedule is due. */
export type QueueScheduled = (tables: Tables, now: Date) => Promise<void>;

/**
 * Returns a function that queues a job in every organization for each scheduled action that is due. Several processes can call it: an
 * organization gets one job for each time. If no process ran at that time, the job is queued later, but only if the action already had a
 * schedule before. If several times were missed, only the last one counts.
 * @param startedAt when this process started
 */
export function scheduler(types: readonly ScheduledType[], startedAt: Date): QueueScheduled {
  const schedules = types.flatMap((type): Schedule[] => {
    const { schedule, timeZone = 'UTC' } = type.action;
    return schedule === undefined ? [] : [{ type, cron: cron(schedule, timeZone), queued: 0 }];
  });
  return async (tables, now) => {
    for (const schedule of schedules) {
      const [due] = schedule.cron.previousRuns(1, now);
      if (due === undefined || due.getTime() <= schedule.queued) continue;
      const { resource, action } = schedule.type;
      await sql`insert into crm_jobs (organization_id, resource, action, input, caller_kind, request_id, scheduled_for)
        select o.id, ${resource.name}, ${action.name}, '{}', 'command', '', ${due}::timestamptz
        from crm_organizations o
        where o.created_at < ${due}::timestamptz
          and ${due}::timestamptz > ${now}::timestamptz - ${sql.lit(missedDays)} * interval '1 day'
          and (${due}::timestamptz >= ${startedAt}::timestamptz or exists (
            select from crm_jobs j where j.organization_id = o.id and j.resource = ${resource.name} and j.action = ${action.name}
              and j.scheduled_for < ${due}::timestamptz))
          and not exists (
            select from crm_jobs j where j.organization_id = o.id and j.resource = ${resource.name} and j.action = ${action.name}
              and j.scheduled_for is not null and (j.scheduled_for >= ${due}::timestamptz or j.state = 'queued'))
        on conflict do nothing`.execute(tables);
      schedule.queued = due.getTime();
    }
  };
}
