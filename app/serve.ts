import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Resource } from '../engine/compile/index.ts';
import { type Database, openProbe } from '../engine/database/index.ts';
import { UserError } from '../engine/errors.ts';
import { apiPrefix } from '../engine/http/index.ts';
import { asJson, type CommandLine, type Result } from '../engine/modules/index.ts';
import { createDemo, type Demo } from '../plugins/demo/index.ts';
import { operations } from '../plugins/operations/index.ts';
import { build } from './build.ts';
import type { Config } from './config.ts';
import { openInstance } from './instance.ts';
import type { Instance } from './services.ts';
import { stopOnSignals } from './stop.ts';

/** `serve`. */
export function serveCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('serve')
    .description('serve the API until a signal stops it')
    .addOption(asJson())
    .action(({ json }) => run(json, serve()));
}

/**
 * Serves until a signal stops it.
 * @returns what to print once it listens
 */
async function serve(): Promise<Result> {
  const instance = await openInstance();
  const { config, resources, database } = instance;
  let app: FastifyInstance | undefined;
  let admin: Admin | undefined;
  try {
    app = await build(instance);
    await listen(app, config, '');
    admin = await openAdmin(config, database, app);
    const closeRest = async () => {
      await admin?.close();
      await database.close();
    };
    stopOnSignals({ app, delayMs: config.stopDelayMs, close: closeRest });
    const demo = await createDemo(database, config, resources);
    return started(app, admin, config, resources, demo);
  } catch (cause) {
    await admin?.close();
    await app?.close();
    await database.close();
    throw cause;
  }
}

interface Admin {
  readonly app: FastifyInstance;
  readonly close: () => Promise<void>;
}

/** Starts the operators' port if ADMIN_PORT is set. */
async function openAdmin(
  config: Config,
  database: Database,
  app: FastifyInstance,
): Promise<Admin | undefined> {
  if (config.adminPort === undefined) return undefined;
  const probe = await openProbe(database);
  const migrations = (await database.orm.migrator.getExecuted()).map(({ name }) => name);
  const { settingsProblem, isLeaving } = app;
  const { replicas } = database;
  const admin = operations({ probe, migrations, settingsProblem, isLeaving, replicas });
  const close = async () => {
    await admin.close();
    probe.close();
  };
  try {
    await listen(admin, { host: config.adminHost, port: config.adminPort }, 'ADMIN_');
    return { app: admin, close };
  } catch (cause) {
    await close();
    throw cause;
  }
}

/** @param prefix of the variables that name the address */
async function listen(
  app: FastifyInstance,
  { host, port }: Pick<Config, 'host' | 'port'>,
  prefix: string,
): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const reasons: Readonly<Record<string, string>> = {
      EADDRINUSE: `port ${port} on ${host} is taken; choose another with ${prefix}PORT`,
      EACCES: `port ${port} needs more rights than this process has; choose another with ${prefix}PORT`,
      EADDRNOTAVAIL: `${host} is no address of this machine; choose another with ${prefix}HOST`,
      ENOTFOUND: `${host} is no address of this machine; choose another with ${prefix}HOST`,
    };
    throw new UserError(reasons[code ?? ''] ?? `cannot listen: ${message}`, { cause });
  }
}

/** The URL for this machine. */
function urlOf(app: FastifyInstance, host: string): string {
  const { port } = app.server.address() as AddressInfo;
  const isAnywhere = host === '0.0.0.0' || host === '::';
  return `http://${isAnywhere ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host}:${port}`;
}

function started(
  app: FastifyInstance,
  admin: Admin | undefined,
  config: Config,
  resources: readonly Resource[],
  demo: Demo | undefined,
): Result {
  const url = urlOf(app, config.host);
  const adminUrl = admin && urlOf(admin.app, config.adminHost);
  const database =
    config.databaseAddress === undefined ? `the embedded database in ${config.dataFolder}` : 'PostgreSQL';
  const lines = [`Serving ${url}, explorer at ${url}/docs, on ${database}`];
  if (adminUrl !== undefined) lines.push(`Operators: ${adminUrl}/livez and ${adminUrl}/readyz`);
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
    json: {
      url,
      ...(adminUrl && { admin: adminUrl }),
      database: config.databaseAddress === undefined ? 'embedded' : 'postgresql',
      ...demo,
    },
    text: lines.join('\n'),
  };
}
