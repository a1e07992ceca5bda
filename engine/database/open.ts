import type { EntitySchema } from '@mikro-orm/core';
import type { Database } from './database.ts';
import { openEmbedded } from './embedded.ts';
import { openPostgres } from './postgres.ts';
import type { DatabaseConfig } from './variables.ts';

/**
 * Opens the configured database: PostgreSQL by DATABASE_URL, else the embedded one.
 * @throws UserError in one line when it does not respond or its folder is in use
 */
export async function openDatabase(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
): Promise<Database> {
  return config.databaseAddress === undefined
    ? openEmbedded(config, entities)
    : openPostgres(config, config.databaseAddress, entities);
}
