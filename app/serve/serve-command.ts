import cluster from 'node:cluster';
import { UserError } from '../../engine/errors.ts';
import { type CommandLine, type CommandResult, jsonResult } from '../../engine/modules/index.ts';
import { createDemo } from '../../plugins/operations/demo/index.ts';
import { readSettingsFile } from '../../webhooks/settings/index.ts';
import { assertEnvironment, misspellingWarnings } from '../commands/config-command.ts';
import { type Config, loadConfig } from '../config.ts';
import type { Instance } from '../services.ts';
import { type AdminListener, startAdminListener } from './listen.ts';
import { startService } from './service.ts';
import { exampleResource, startupBanner } from './startup-banner.ts';
import { stopOnSignals, stopService } from './stop.ts';

/** Adds the `serve` command. */
export function serveCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('serve')
    .description('serve the API until a signal stops it')
    .addOption(jsonResult())
    .action(({ json }) => run(json, serve()));
}

/**
 * Starts the service, which runs until a signal stops it.
 * @returns the output to print once it is listening
 */
async function serve(): Promise<CommandResult> {
  const config = await loadConfig();
  await assertEnvironment(config);
  // Workers would repeat the warnings.
  if (cluster.isPrimary) {
    for (const line of misspellingWarnings(config, await readSettingsFile(config))) {
      process.stderr.write(`crm: ${line}\n`);
    }
  }
  if (config.workers === 1) return serveAlone(config);
  if (config.databaseAddress === undefined) {
    throw new UserError(
      'WORKERS needs PostgreSQL: set DATABASE_URL, or unset WORKERS. The embedded database supports only one process',
    );
  }
  const { serveByWorkers } = await import('./workers.ts');
  return serveByWorkers(config);
}

/** Serves in this process, without workers. */
async function serveAlone(config: Config): Promise<CommandResult> {
  const { app, url, resources, database, openReadiness, close } = await startService(config);
  let admin: AdminListener | undefined;
  try {
    if (config.adminPort !== undefined) {
      admin = await startAdminListener(config, {
        liveness: () => undefined,
        readiness: await openReadiness(),
        metrics: async () => [(await app.collectMetrics?.(true)) ?? []],
      });
    }
    const closeRest = async () => {
      await admin?.close();
      await close();
    };
    const stop = () => stopService(app, closeRest);
    stopOnSignals({ drain: app.drain, delayMs: config.stopDelayMs, stop });
    const demo = await createDemo(database, config, resources);
    return startupBanner(config, { url, adminUrl: admin?.url, example: exampleResource(resources), demo });
  } catch (cause) {
    await admin?.close();
    await app.close();
    await close();
    throw cause;
  }
}
