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

/**
 * Returns the configuration of a service that keeps running during migrations. Its connections search the view schema of
 * its own model first.
 */
export const nodeConfig = (config: Config): Config & Pick<DatabaseConfig, 'views' | 'serves'> => ({
  ...config,
  serves: true,
  views: viewsOf(migrationNames(config)),
});

/**
 * Registers a service as a node while it runs, and completes migrations once all older nodes have stopped. The process
 * exits if other nodes considered it stopped and its statements no longer match the tables.
 * @throws UserError if migrations are pending, or the schema is not compatible with this code
 */
export async function registerAsNode(
  app: FastifyInstance,
  config: Config,
  { database, resources }: Pick<Instance, 'database' | 'resources'>,
): Promise<void> {
  if (database.kind === 'embedded') return;
  const code = { model: modelOf(resources), migrations: migrationNames(config) };
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
  // A migration that completed just before the registration did not consider this node.
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
