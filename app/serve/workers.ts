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
 * Serves with several worker processes on one port. This process starts, replaces and stops them.
 * @returns the output to print once all workers are listening
 */
export async function serveByWorkers(config: Config): Promise<CommandResult> {
  if (cluster.isWorker) return workAsWorker(config);
  countForWorkers();
  const pool = createWorkerPool(config, () => void pool.stop().finally(() => process.exit(1)));
  let admin: AdminListener | undefined;
  try {
    const { url, example } = await pool.add();
    const { demo } = await pool.lead(true);
    await Promise.all(Array.from({ length: config.workers - 1 }, pool.add));
    admin = await startAdminListener(config, pool);
    process.on('SIGHUP', () => pool.signal('SIGHUP'));
    const stop = async () => {
      const isClean = await pool.stop();
      await Promise.race([admin?.close(), pause(closeMs)]);
      return isClean;
    };
    stopOnSignals({ drain: pool.drain, delayMs: config.stopDelayMs, stop, abandon: pool.kill });
    pool.replaceTheDead();
    return startupBanner(config, { url, adminUrl: admin?.url, example, demo });
  } catch (cause) {
    pool.kill();
    await admin?.close();
    throw cause;
  }
}
