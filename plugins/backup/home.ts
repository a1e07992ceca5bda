import type { FastifyInstance } from 'fastify';
import { tablesOf } from '../../engine/tables/index.ts';
import { addHomeCheck, exactTime } from '../screens/index.ts';
import { lastBackups } from './runs.ts';
import type { ScheduleServices } from './schedule.ts';

const hourMs = 3_600_000;

/** Says on the home page when the last backup was made, and whether it is too long ago; nothing where none was ever made or wanted. */
export function backupHome(app: FastifyInstance, { database, settings }: ScheduleServices): void {
  addHomeCheck(app, async () => {
    const { made, ended } = await lastBackups(tablesOf(database));
    const { folder, every_hours: hours } = settings.current.backups;
    const isWanted = folder !== '';
    if (!isWanted && ended === undefined) return [];
    const last = made === undefined ? 'There is no backup.' : `Last backup: ${exactTime(made.started_at)}.`;
    if (ended !== undefined && ended.error !== null) {
      return [{ state: 'bad', text: `The backup of ${exactTime(ended.started_at)} failed. ${last}` }];
    }
    const isLate = made === undefined || made.started_at.getTime() < Date.now() - 2 * hours * hourMs;
    return [{ state: isWanted && isLate ? 'warn' : 'good', text: last }];
  });
}
