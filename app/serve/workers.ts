import cluster from 'node:cluster';
import { setTimeout as pause } from 'node:timers/promises';
import type { CommandResult } from '../../engine/modules/index.ts';
import { countForWorkers } from '../../plugins/access/rate-limiting/index.ts';
import type { Config } from '../config.ts';
import { type AdminListener, startAdminListener } from './listen.ts';
import { startupBanner } from './startup-banner.ts';
import { closeMs, stopOnSignals } from './stop.ts';
import { workAsWorker } from './worker.ts';
import { createWorkerPool } from './worker-pool.ts';

/**
 * Serves by several processes on one port: this one starts them, replaces those that die, and stops them.
 * @returns what to print once all of them listen
 */
export async function serveByWorkers(config: Config): Promise<CommandResult> {
  if (cluster.isWorker) return workAsWorker(config);
  countForWorkers();
  const team = createWorkerPool(config, () => void team.stop().finally(() => process.exit(1)));
  let admin: AdminListener | undefined;
  try {
    const { url, example } = await team.add();
    const { demo } = await team.lead(true);
    await Promise.all(Array.from({ length: config.workers - 1 }, team.add));
    admin = await startAdminListener(config, team);
    process.on('SIGHUP', () => team.signal('SIGHUP'));
    const stop = async () => {
      const isClean = await team.stop();
      await Promise.race([admin?.close(), pause(closeMs)]);
      return isClean;
    };
    stopOnSignals({ leave: team.leave, delayMs: config.stopDelayMs, stop, abandon: team.kill });
    team.replaceTheDead();
    return startupBanner(config, { url, adminUrl: admin?.url, example, demo });
  } catch (cause) {
    team.kill();
    await admin?.close();
    throw cause;
  }
}
