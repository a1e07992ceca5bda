import type { FastifyInstance } from 'fastify';
import type { DatabaseConfig } from '../../engine/database/index.ts';
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
import type { Config } from '../config.ts';
import { exitImmediately, modelOf } from '../instance.ts';
import type { Instance } from '../services.ts';

/** The configuration of a service that runs while migrations do: its connections look for views of what it knows first. */
export const nodeConfig = (config: Config): Config & Pick<DatabaseConfig, 'views' | 'serves'> => ({
  ...config,
  serves: true,
  views: viewsOf(migrationNames(config)),
});

/**
 * Makes a service known to migrations for as long as it runs, and does what migrations have left until the nodes that did
 * not know them are gone.
 * The process exits if it was considered dead and returns to tables that its statements no longer fit.
 * @throws UserError when the database got behind since it was opened, or is too far ahead
 */
export async function registerAsNode(
  app: FastifyInstance,
  config: Config,
  { database, resources }: Pick<Instance, 'database' | 'resources'>,
): Promise<void> {
  if (database.kind === 'embedded') return;
  const known = { model: modelOf(resources), migrations: migrationNames(config) };
  const check = (execute: Execute) => assertCompatible(execute, config, known);
  const node = await registerNode(database, known.migrations, { check, lost: exitImmediately });
  if (node === undefined) {
    app.log.warn('the table of nodes does not exist yet. Run "npm run crm -- migrate" once.');
    return;
  }
  const timer = setInterval(node.beat, heartbeatMs).unref();
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await node.leave();
  });
  // A migration that ended a moment before did not know of this node.
  await assertUpToDate(database, config, () => {});
  await check(executeIn(database.orm.em.fork()));
  let told: string | undefined;
  app.background.every(app, 'the end of migrations', heartbeatMs, async () => {
    try {
      if (await contract(config, database)) app.log.info('dropped what only older nodes used');
    } catch (cause) {
      const { message } = cause as Error;
      if (message !== told) app.log.warn({ reason: message }, 'cannot drop what only older nodes used');
      told = message;
    }
  });
}
