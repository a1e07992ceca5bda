import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { build } from '../app.ts';
import type { Resource } from '../compile/index.ts';
import { type Config, readConfig } from '../config.ts';
import { UserError } from '../errors.ts';
import { createDemo, type Demo } from '../platform/index.ts';
import { apiPrefix } from '../routes/openapi.ts';
import { openInstance, type Result } from './context.ts';

/** How long in-flight requests may take after a signal to stop. */
const drainMs = 20_000;

/**
 * Serves until a signal stops it.
 * @returns what to print once it listens
 */
export async function serve(): Promise<Result> {
  const instance = await openInstance(readConfig());
  const { config, resources, database } = instance;
  let app: FastifyInstance | undefined;
  try {
    app = await build(config, resources, database);
    await listen(app, config);
    stopOnSignals(app, database.close);
    const demo = await createDemo(database, config, resources);
    return started(app, config, resources, demo);
  } catch (cause) {
    await app?.close();
    await database.close();
    throw cause;
  }
}

async function listen(app: FastifyInstance, { host, port }: Config): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const reasons: Readonly<Record<string, string>> = {
      EADDRINUSE: `port ${port} on ${host} is taken; choose another with PORT`,
      EACCES: `port ${port} needs more rights than this process has; choose another with PORT`,
      EADDRNOTAVAIL: `${host} is no address of this machine; choose another with HOST`,
      ENOTFOUND: `${host} is no address of this machine; choose another with HOST`,
    };
    throw new UserError(reasons[code ?? ''] ?? `cannot listen: ${message}`, { cause });
  }
}

/** The first signal lets requests in flight finish; the second, or too long a wait, ends the process at once. */
function stopOnSignals(app: FastifyInstance, close: () => Promise<void>): void {
  let stopping = false;
  const stop = async () => {
    if (stopping) process.exit(1);
    stopping = true;
    const deadline = setTimeout(() => {
      app.server.closeAllConnections();
      app.log.warn('requests were still in flight when the time to stop was up');
    }, drainMs).unref();
    await app.close();
    await close();
    clearTimeout(deadline);
    process.exit(0);
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}

function started(
  app: FastifyInstance,
  config: Config,
  resources: readonly Resource[],
  demo: Demo | undefined,
): Result {
  const { port } = app.server.address() as AddressInfo;
  const anywhere = config.host === '0.0.0.0' || config.host === '::';
  const host = anywhere ? '127.0.0.1' : config.host.includes(':') ? `[${config.host}]` : config.host;
  const url = `http://${host}:${port}`;
  const database =
    config.databaseUrl === undefined ? `the embedded database in ${config.dataFolder}` : 'PostgreSQL';
  const lines = [`Serving ${url}, explorer at ${url}/docs, on ${database}`];
  if (demo !== undefined) {
    const example = resources.find((resource) => resource.definition.filters.length > 0) ?? resources[0];
    lines.push(
      '',
      `This database was empty, so it now holds the organization "${demo.organization}" with sample records.`,
      'Shown this once; keep them:',
      `  setup     ${url}/setup`,
      `  login     ${demo.email}`,
      `  password  ${demo.password}`,
      `  API key   ${demo.key}`,
      '',
      'Try it:',
      `  curl -H 'Authorization: Bearer ${demo.key}' ${url}${apiPrefix}/${example?.name}`,
    );
  }
  return {
    json: { url, database: config.databaseUrl === undefined ? 'embedded' : 'postgresql', ...demo },
    text: lines.join('\n'),
  };
}
