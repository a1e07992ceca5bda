import cluster from 'node:cluster';
import { setTimeout as pause } from 'node:timers/promises';
import type { Result } from '../engine/modules/index.ts';
import { countForWorkers } from '../plugins/throttling/index.ts';
import type { Config } from './config.ts';
import { type Admin, openAdmin } from './listen.ts';
import { printed } from './started.ts';
import { closeMs, stopOnSignals } from './stop.ts';
import { makeTeam } from './team.ts';
import { workAsWorker } from './worker.ts';

/**
 * Serves by several processes on one port: this one starts them, replaces those that die, and stops them.
 * @returns what to print once all of them listen
 */
export async function serveByWorkers(config: Config): Promise<Result> {
  if (cluster.isWorker) return workAsWorker(config);
  countForWorkers();
  const team = makeTeam(config, () => void team.stop().finally(() => process.exit(1)));
  let admin: Admin | undefined;
  try {
    const { url, example } = await team.add();
    const { demo } = await team.lead(true);
    await Promise.all(Array.from({ length: config.workers - 1 }, team.add));
    admin = await openAdmin(config, team);
    process.on('SIGHUP', () => team.signal('SIGHUP'));
    const stop = async () => {
      const isClean = await team.stop();
      await Promise.race([admin?.close(), pause(closeMs)]);
      return isClean;
    };
    stopOnSignals({ leave: team.leave, delayMs: config.stopDelayMs, stop, abandon: team.kill });
    team.replaceTheDead();
    return printed(config, { url, adminUrl: admin?.url, example, demo });
  } catch (cause) {
    team.kill();
    await admin?.close();
    throw cause;
  }
}
