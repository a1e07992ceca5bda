import { randomUUID } from 'node:crypto';
import type { EntitySchema } from '@mikro-orm/core';
import { Migrator } from '@mikro-orm/migrations';
import { PostgreSqlDriver, MikroORM as PostgresOrm, type SqlEntityManager } from '@mikro-orm/postgresql';
import { ExactSchemaGenerator } from './differ.ts';
import type { DatabaseConfig } from './variables.ts';

/** Returns the MikroORM options for both drivers. */
export function ormOptions(entities: readonly EntitySchema[], config: DatabaseConfig) {
  return {
    entities: [...entities],
    // Within a transaction, another database with the same context name would join that transaction.
    contextName: randomUUID(),
    extensions: [Migrator],
    discovery: { warnWhenNoEntities: false },
    // Logging is disabled because warnings would be mixed with a command's output. Failures are thrown.
    logger: () => {},
    migrations: {
      path: config.migrations,
      pathTs: config.migrations,
      // Migrations store their changes to the model in their own files.
      snapshot: false,
      tableName: migrationsTable,
      silent: true,
    },
  };
}

/** Name of the table that contains the applied migrations. */
export const migrationsTable = 'crm_migrations';

/** Builds the model of entities without a database. */
export async function openModel(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
): Promise<ExactSchemaGenerator> {
  const orm = await PostgresOrm.init<PostgreSqlDriver, SqlEntityManager<PostgreSqlDriver>>({
    ...ormOptions(entities, config),
    driver: PostgreSqlDriver,
    dbName: 'none',
  });
  return new ExactSchemaGenerator(orm.em);
}

/** Keys and references of a table in a model. */
export interface ModelTable {
  readonly name: string;
  /** Columns of the primary key and of each unique key. */
  readonly keys: readonly (readonly string[])[];
  readonly foreignKeys: readonly {
    readonly name: string;
    readonly columns: readonly string[];
    readonly to: string;
    readonly toColumns: readonly string[];
    /** SQL action, for example `cascade` or `set null ("account_id")`. */
    readonly onDelete: string;
  }[];
  readonly hasTriggers: boolean;
}

/** Returns the tables of a model, without a database. */
export async function tablesOfModel(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
): Promise<readonly ModelTable[]> {
  const schema = (await openModel(config, entities)).getTargetSchema();
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
