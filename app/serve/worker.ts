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

/** Time during which a stopping worker still serves newly opened connections, in milliseconds. */
const lingerMs = 100;

const send = (message: WorkerMessage, onSent?: () => void): void => {
  process.send?.(message, undefined, undefined, () => onSent?.());
};

/** Message handlers of a serving worker. Pings are answered even before the worker starts serving. */
type Handlers = {
  [Kind in Exclude<SupervisorMessage['kind'], 'ping'>]: (message: SupervisorMessage & { kind: Kind }) => void;
};

/** Serves requests as one of several supervised processes. The promise never resolves. */
export async function workAsWorker(config: Config): Promise<never> {
  // A terminal sends signals to all processes, but the supervisor decides when a worker stops.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => {});
  process.on('message', ({ kind }: SupervisorMessage) => {
    if (kind === 'ping') send({ kind: 'pong' });
  });
  await start(config).catch(fail);
  return new Promise(() => {});
}

/** Reports an error to the supervisor and exits. */
function fail(cause: unknown): void {
  const { message } = cause as Error;
  send({ kind: 'failed', message, isUsers: cause instanceof UserError }, () => process.exit(1));
}

async function start(config: Config): Promise<void> {
  const background = backgroundWork((name) => send({ kind: 'task', name }));
  const { app, url, resources, database, openReadiness, close } = await startService(config, background);
  const readiness = config.adminPort === undefined ? undefined : await openReadiness();

  const handlers: Handlers = {
    lead: async ({ isFirst }) => {
      const demo = isFirst ? await createDemo(database, config, resources) : undefined;
      background.start();
      send({ kind: 'leading', demo });
    },
    task: ({ name }) => background.run(name),
    report: async ({ number }) => send({ kind: 'report', number, readiness: await readiness?.() }),
    metrics: async ({ number, ofInstance }) =>
      send({ kind: 'metrics', number, families: (await app.collectMetrics?.(ofInstance)) ?? [] }),
    drain: () => app.drain(),
    stop: async ({ withinMs }) => {
      // Close only the listener. Existing connections are still served, and new ones go to other workers.
      Server.prototype.close.call(app.server);
      await pause(lingerMs);
      process.exit((await stopService(app, close, withinMs)) ? 0 : 1);
    },
  };
  const handle = async <Kind extends keyof Handlers>(message: SupervisorMessage & { kind: Kind }) =>
    handlers[message.kind]?.(message);
  // Libraries send other kinds of messages, which do not have handlers.
  process.on(
    'message',
    (message: Exclude<SupervisorMessage, { kind: 'ping' }>) => void handle(message).catch(fail),
  );
  send({ kind: 'listening', url, example: exampleResource(resources) });
}
