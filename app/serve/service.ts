import type { FastifyInstance } from 'fastify';
import { openProbe, type Probe } from '../../engine/database/index.ts';
import type { BackgroundOfProcess } from '../../engine/modules/index.ts';
import { type ProcessReport, readinessOf } from '../../plugins/operations/monitoring/index.ts';
import type { Config } from '../config.ts';
import { openInstance } from '../instance.ts';
import type { Instance } from '../services.ts';
import { buildService } from './build.ts';
import { nodeConfig, registerAsNode } from './cluster-node.ts';
import { listen, urlOf } from './listen.ts';
import { collectGarbageAfterStart } from './memory.ts';

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
 * @throws UserError with a one-line message if it cannot be opened or served; everything opened so far is
 * closed first
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
      const { replicas } = database;
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
