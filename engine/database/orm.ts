import type { EntitySchema } from '@mikro-orm/core';
import { Migrator } from '@mikro-orm/migrations';
import { PostgreSqlDriver, MikroORM as PostgresOrm, type SqlEntityManager } from '@mikro-orm/postgresql';
import type { Orm } from './database.ts';
import { ExactSchemaGenerator } from './differ.ts';
import { ForwardGenerator, LosslessGenerator } from './generator.ts';
import type { DatabaseConfig } from './variables.ts';

/** The options of MikroORM for both drivers. */
export function ormOptions(
  entities: readonly EntitySchema[],
  config: DatabaseConfig,
  generator = LosslessGenerator,
) {
  return {
    entities: [...entities],
    extensions: [Migrator],
    discovery: { warnWhenNoEntities: false },
    // Warnings would precede the output of a command; failures are thrown.
    logger: () => {},
    migrations: {
      path: config.migrations,
      pathTs: config.migrations,
      snapshotName: 'snapshot',
      // The snapshot is the model of the last migration, not the state of a database.
      snapshotOnMigrate: false,
      tableName: 'crm_migrations',
      silent: true,
      generator,
    },
  };
}

/**
 * MikroORM that knows the model and the migrations and never connects.
 * @param allowDataLoss whether it may write migrations that drop or convert stored values
 */
export function openModel(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
  allowDataLoss = false,
): Promise<Orm> {
  return PostgresOrm.init<PostgreSqlDriver, SqlEntityManager<PostgreSqlDriver>>({
    ...ormOptions(entities, config, allowDataLoss ? ForwardGenerator : LosslessGenerator),
    extensions: [Migrator, ExactSchemaGenerator],
    driver: PostgreSqlDriver,
    dbName: 'none',
  });
}
