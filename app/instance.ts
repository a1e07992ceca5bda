import './migration-imports.ts';
import type { EntitySchema } from '@mikro-orm/core';
import type { Resource } from '../engine/compile/index.ts';
import { type DatabaseConfig, openDatabase } from '../engine/database/index.ts';
import { effectTables } from '../engine/effects/index.ts';
import { sequenceTables } from '../engine/records/index.ts';
import {
  applyPending,
  assertMigrationsComplete,
  assertUpToDate,
  entitiesOf,
  type Model,
  migrate,
} from '../engine/schema/index.ts';
import { instanceSecrets } from '../plugins/access/secrets/index.ts';
import { configuredSlugs, readSettings } from '../webhooks/settings/index.ts';
import { assertEnvironment } from './commands/config-command.ts';
import type { Config } from './config.ts';
import { modules } from './modules.ts';
import { buildService, divideResources, loadResources } from './serve/build.ts';
import type { Instance, ModuleList } from './services.ts';

/** Returns the schemas of all tables in an instance. See {@link modelOf}. */
export const entitiesFor = (resources: readonly Resource[], list?: ModuleList): readonly EntitySchema[] =>
  entitiesOf(modelOf(resources, list));

/**
 * Returns an instance's model, which consists of these resources and the tables of effects and modules.
 * @param list the configuration with the instance's modules (default: only the engine's own modules)
 */
export const modelOf = (
  resources: readonly Resource[],
  { modules: all }: ModuleList = { modules },
): Model => ({
  resources,
  tables: [...effectTables, ...sequenceTables, ...all.flatMap(({ tables = [] }) => tables)],
});

/**
 * Opens the instance and its database. Migrates the embedded database, and PostgreSQL if MIGRATE_ON_START is set.
 * @throws UserError if the database cannot be opened or migrations are missing
 */
export async function openInstance(config: Config & Pick<DatabaseConfig, 'serves'>): Promise<Instance> {
  await assertEnvironment(config);
  const all = await loadResources(config);
  const model = modelOf(all, config);
  await assertMigrationsComplete(config, model);
  if (config.databaseAddress !== undefined && config.migrateOnStart) await migrate(config, model);
  const database = await openDatabase(config, entitiesOf(model));
  database.lost?.then(exitImmediately);
  try {
    if (database.kind === 'embedded') await applyPending(database, config);
    await assertUpToDate(database, config, warn);
    const instance = { config, ...divideResources(all), database, secrets: instanceSecrets(config) };
    return {
      ...instance,
      service: () => buildService(instance),
      configuredSlugs: async () => configuredSlugs(await readSettings(config)),
    };
  } catch (cause) {
    await database.close();
    throw cause;
  }
}

const warn = (line: string) => process.stderr.write(`crm: ${line}\n`);

/**
 * Exits without closing the database, because another process owns it now and further writes would be lost or harmful.
 */
export function exitImmediately({ message }: Error): void {
  process.stderr.write(`crm: ${message}\n`);
  process.exit(1);
}

/** Opens the instance, runs work and closes the database. */
export async function withInstance<T>(config: Config, work: (instance: Instance) => Promise<T>): Promise<T> {
  const instance = await openInstance(config);
  try {
    return await work(instance);
  } finally {
    await instance.database.close();
  }
}
