import type { FastifyInstance } from 'fastify';
import { tablesOf } from '../../../engine/tables/index.ts';
import { addHomeCheck, exactTime } from '../../admin-ui/shell/index.ts';
import { backupFailure, lastBackups } from './runs.ts';
import type { ScheduleServices } from './schedule.ts';

/**
 * Adds a line about the last backup to the home page: when it was created, or that it failed or is late. Shows nothing
 * if there is neither a schedule nor a backup.
 */
export function backupHome(app: FastifyInstance, { database, settings }: ScheduleServices): void {
  addHomeCheck(app, async () => {
    const { backups } = settings.current;
    const runs = await lastBackups(tablesOf(database));
    if (backups.folder === '' && runs.lastRun === undefined) return [];
    const { lastSuccess, lastRun } = runs;
    const text =
      lastSuccess === undefined ? 'No backup exists.' : `Last backup: ${exactTime(lastSuccess.started_at)}.`;
    const problem = backupFailure(runs, backups);
    if (problem === 'failed' && lastRun !== undefined) {
      return [
        { state: 'bad', text: `The backup started at ${exactTime(lastRun.started_at)} failed. ${text}` },
      ];
    }
    return [{ state: problem === 'late' ? 'warn' : 'good', text }];
  });
}
