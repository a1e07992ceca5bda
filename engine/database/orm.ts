import { randomUUID } from 'node:crypto';
import type { EntitySchema } from '@mikro-orm/core';
import { Migrator } from '@mikro-orm/migrations';
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
