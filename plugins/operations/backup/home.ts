import type { FastifyInstance } from 'fastify';
import { tablesOf } from '../../../engine/tables/index.ts';
import { addHomeCheck, exactTime } from '../../admin-ui/shell/index.ts';
import { lastBackups, problemOf } from './runs.ts';
import type { ScheduleServices } from './schedule.ts';

/** Says on the home page when the last backup was made, and whether one failed or is late; nothing where none was ever made or wanted. */
export function backupHome(app: FastifyInstance, { database, settings }: ScheduleServices): void {
  addHomeCheck(app, async () => {
    const { backups } = settings.current;
    const last = await lastBackups(tablesOf(database));
    if (backups.folder === '' && last.ended === undefined) return [];
    const { made, ended } = last;
    const text = made === undefined ? 'No backup exists.' : `Last backup: ${exactTime(made.started_at)}.`;
    const problem = problemOf(last, backups);
    if (problem === 'failed' && ended !== undefined) {
      return [{ state: 'bad', text: `The backup of ${exactTime(ended.started_at)} failed. ${text}` }];
    }
    return [{ state: problem === 'late' ? 'warn' : 'good', text }];
  });
}
