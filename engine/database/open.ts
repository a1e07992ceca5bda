import type { EntitySchema } from '@mikro-orm/core';
import type { Database } from './database.ts';
import type { DatabaseConfig } from './variables.ts';

/**
 * Opens the configured database: PostgreSQL by DATABASE_URL, else the embedded one.
 * @throws UserError in one line when it does not respond or its folder is in use
 */
export async function openDatabase(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
): Promise<Database> {
  // Only the driver that is used is loaded.
  if (config.databaseAddress === undefined) {
    const { openEmbedded } = await import('./embedded.ts');
    return openEmbedded(config, entities);
  }
  const { openPostgres } = await import('./postgres.ts');
  return openPostgres(config, config.databaseAddress, entities);
}
