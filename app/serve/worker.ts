import { Server } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { UserError } from '../../engine/errors.ts';
import { backgroundWork } from '../../engine/modules/index.ts';
import { createDemo } from '../../plugins/operations/demo/index.ts';
import type { Config } from '../config.ts';
import { startService } from './service.ts';
import { exampleResource } from './startup-banner.ts';
import { stopService } from './stop.ts';
import type { SupervisorMessage, WorkerMessage } from './worker-messages.ts';

/** How long a worker that stops still takes requests of connections that have just been opened, in milliseconds. */
const lingerMs = 100;

const tell = (message: WorkerMessage, sent?: () => void): void => {
  process.send?.(message, undefined, undefined, () => sent?.());
};

/** What a worker does on each message once it serves; it responds to pings before that too. */
type Handlers = {
  [Kind in Exclude<SupervisorMessage['kind'], 'ping'>]: (message: SupervisorMessage & { kind: Kind }) => void;
};

/** Serves as one of several processes, which another supervises. Never resolves: it ends with the process. */
export async function workAsWorker(config: Config): Promise<never> {
  // A terminal signals all processes; the supervising one says when to stop.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => {});
  process.on('message', ({ kind }: SupervisorMessage) => {
    if (kind === 'ping') tell({ kind: 'pong' });
  });
  await start(config).catch(fail);
  return new Promise(() => {});
}

/** Ends the process, with its reason as last words. */
function fail(cause: unknown): void {
  const { message } = cause as Error;
  tell({ kind: 'failed', message, isUsers: cause instanceof UserError }, () => process.exit(1));
}

async function start(config: Config): Promise<void> {
  const background = backgroundWork((name) => tell({ kind: 'task', name }));
  const { app, url, resources, database, openReadiness, close } = await startService(config, background);
  const readiness = config.adminPort === undefined ? undefined : await openReadiness();

  const handlers: Handlers = {
    lead: async ({ isFirst }) => {
      const demo = isFirst ? await createDemo(database, config, resources) : undefined;
      background.start();
      tell({ kind: 'leading', demo });
    },
    task: ({ name }) => background.run(name),
    report: async ({ number }) => tell({ kind: 'report', number, readiness: await readiness?.() }),
    metrics: async ({ number, ofInstance }) =>
      tell({ kind: 'metrics', number, families: (await app.collectMetrics?.(ofInstance)) ?? [] }),
    leave: () => app.leave(),
    stop: async ({ withinMs }) => {
      // Only the listener: what has been connected already is served, what connects now goes to another worker.
      Server.prototype.close.call(app.server);
      await pause(lingerMs);
      process.exit((await stopService(app, close, withinMs)) ? 0 : 1);
    },
  };
  const handle = async <Kind extends keyof Handlers>(message: SupervisorMessage & { kind: Kind }) =>
    handlers[message.kind]?.(message);
  // Libraries have messages of their own.
  process.on(
    'message',
    (message: Exclude<SupervisorMessage, { kind: 'ping' }>) => void handle(message).catch(fail),
  );
  tell({ kind: 'listening', url, example: exampleResource(resources) });
}
