import type { FastifyInstance } from 'fastify';
import { tablesOf } from '../../../engine/tables/index.ts';
import { addHomeCheck, exactTime } from '../../admin-ui/shell/index.ts';
import { backupFailure, lastBackups } from './runs.ts';
import type { ScheduleServices } from './schedule.ts';
import { backupTexts } from './texts/index.ts';

/**
 * Adds a line about the last backup to the home page: when it was created, or that it failed or is late. Shows nothing
 * if there is neither a schedule nor a backup.
 */
export function backupHome(app: FastifyInstance, { database, settings }: ScheduleServices): void {
  addHomeCheck(app, async (_admin, language) => {
    const t = backupTexts(language);
    const { backups } = settings.current;
    const runs = await lastBackups(tablesOf(database));
    if (backups.folder === '' && runs.lastRun === undefined) return [];
    const { lastSuccess, lastRun } = runs;
    const text =
      lastSuccess === undefined
        ? t('noBackup')
        : t('lastBackup', { time: exactTime(lastSuccess.started_at) });
    const problem = backupFailure(runs, backups);
    if (problem === 'failed' && lastRun !== undefined) {
      return [
        {
          state: 'bad',
          text: `${t('failedBackup', { time: exactTime(lastRun.started_at) })} ${text}`,
        },
      ];
    }
    return [{ state: problem === 'late' ? 'warn' : 'good', text }];
  });
}
