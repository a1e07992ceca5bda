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

/** A table of a model: what keeps its rows apart, and what they refer to. */
export interface ModelTable {
  readonly name: string;
  /** The columns of its primary key and of each unique key. */
  readonly keys: readonly (readonly string[])[];
  readonly foreignKeys: readonly {
    readonly name: string;
    readonly columns: readonly string[];
    readonly to: string;
    readonly toColumns: readonly string[];
    /** As SQL has it, such as `cascade` or `set null ("account_id")`. */
    readonly onDelete: string;
  }[];
  readonly hasTriggers: boolean;
}

/** The tables of a model, without a database. */
export async function tablesOfModel(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
): Promise<readonly ModelTable[]> {
  const orm = await openModel(config, entities);
  const schema = new ExactSchemaGenerator(orm.em).getTargetSchema();
  return schema.getTables().map((table) => ({
    name: table.name,
    keys: table.getIndexes().flatMap(({ primary, unique, columnNames, expression }) => {
      if (typeof expression !== 'string') return primary || unique ? [columnNames] : [];
      const columns = /^create unique index "\w+" on "\w+" \(([^()]*)\)/.exec(expression)?.[1];
      return columns === undefined ? [] : [columns.split(', ').map((column) => column.slice(1, -1))];
    }),
    foreignKeys: Object.values(table.getForeignKeys()).map((key) => ({
      name: key.constraintName,
      columns: key.columnNames,
      to: key.referencedTableName.replace(/^public\./, ''),
      toColumns: key.referencedColumnNames,
      onDelete: key.deleteRule ?? 'no action',
    })),
    hasTriggers: table.getTriggers().length > 0,
  }));
}
