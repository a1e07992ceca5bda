import type { FastifyInstance } from 'fastify';
import { type DatabaseConfig, openProbe, type Probe } from '../../engine/database/index.ts';
import type { BackgroundOfProcess } from '../../engine/modules/index.ts';
import {
  assertCompatible,
  assertUpToDate,
  contract,
  type Execute,
  executeIn,
  heartbeatMs,
  migrationNames,
  registerNode,
  viewsOf,
} from '../../engine/schema/index.ts';
import { type ProcessReport, readinessOf } from '../../plugins/operations/monitoring/index.ts';
import type { Config } from '../config.ts';
import { exitImmediately, modelOf, openInstance } from '../instance.ts';
import type { Instance } from '../services.ts';
import { buildService } from './build.ts';
import { listen, urlOf } from './listen.ts';
import { collectGarbageAfterStart } from './memory.ts';

/**
 * Returns the configuration of a service that keeps running during migrations. Its connections search its own
 * model's view schema first.
 */
const nodeConfig = (config: Config): Config & Pick<DatabaseConfig, 'views' | 'serves'> => ({
  ...config,
  serves: true,
  views: viewsOf(migrationNames(config)),
});

/**
 * Registers a service as a node while it runs, and completes migrations once all older nodes have stopped.
 * The process exits if other nodes considered it stopped and its statements no longer match the database
 * tables.
 * @throws UserError if migrations are pending, or the schema is not compatible with this code
 */
async function registerAsNode(
  app: FastifyInstance,
  config: Config,
  {
    database,
    resources,
    retiredResources = [],
  }: Pick<Instance, 'database' | 'resources' | 'retiredResources'>,
): Promise<void> {
  if (database.kind === 'embedded') return;
  const model = modelOf([...resources, ...retiredResources], config);
  const code = { model, migrations: migrationNames(config) };
  const check = (execute: Execute) => assertCompatible(execute, config, code);
  const node = await registerNode(database, code.migrations, { check, lost: exitImmediately });
  if (node === undefined) {
    app.log.warn('the node table does not exist yet. Run "npm run crm -- migrate" once.');
    return;
  }
  const timer = setInterval(node.beat, heartbeatMs).unref();
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await node.leave();
  });
  // A migration that completed just before the registration did not take this node into account.
  await assertUpToDate(database, config, () => {});
  await check(executeIn(database.orm.em.fork()));
  let lastMessage: string | undefined;
  app.background.every(app, 'the end of migrations', heartbeatMs, async () => {
    try {
      if (await contract(config, database)) app.log.info('dropped objects that only older nodes used');
    } catch (cause) {
      const { message } = cause as Error;
      if (message !== lastMessage)
        app.log.warn({ reason: message }, 'cannot drop objects that only older nodes used');
      lastMessage = message;
    }
  });
}

/** A listening service. */
interface RunningService extends Pick<Instance, 'resources' | 'database'> {
  readonly app: FastifyInstance;
  readonly url: string;
  /** Creates the readiness check. Must be called only once. */
  readonly openReadiness: () => Promise<() => Promise<ProcessReport>>;
  /** Closes the database. Must be called after the app is closed. */
  readonly close: () => Promise<void>;
}

/**
 * Opens the instance and serves it.
 * @throws UserError with a one-line message if the instance cannot be opened or served, after closing
 * everything that was opened
 */
export async function startService(
  config: Config,
  background?: BackgroundOfProcess,
): Promise<RunningService> {
  const instance = await openInstance(nodeConfig(config));
  const { resources, database } = instance;
  let app: FastifyInstance | undefined;
  try {
    app = await buildService(instance, background);
    await registerAsNode(app, config, instance);
    await listen(app, config, '');
    collectGarbageAfterStart();
    const { settingsProblem, isDraining } = app;
    let probe: Probe | undefined;
    const openReadiness = async () => {
      probe = await openProbe(database);
      const migrations = (await database.orm.migrator.getExecuted()).map(({ name }) => name);
      const replicas = () => database.status().replicas;
      return readinessOf({ probe, migrations, settingsProblem, isDraining, replicas });
    };
    const close = async () => {
      probe?.close();
      await database.close();
    };
    return { app, url: urlOf(app, config.host), resources, database, openReadiness, close };
  } catch (cause) {
    await app?.close();
    await database.close();
    throw cause;
  }
}
