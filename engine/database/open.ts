import { setTimeout as pause } from 'node:timers/promises';
import type { EntitySchema } from '@mikro-orm/core';
import type { Database } from './database.ts';
import { hasRunningOwner, openThroughOwner } from './embedded-owner.ts';
import { isFolderLocked, lockFolder, type Release } from './lock.ts';
import type { DatabaseConfig } from './variables.ts';

/** How often a folder that is in use is tried again, in milliseconds. */
const pollMs = 50;

/**
 * Opens the configured database: PostgreSQL by DATABASE_URL, else the embedded one; where a running server has that,
 * through the server.
 * @throws UserError in one line when it does not respond or its folder is in use
 */
export async function openDatabase(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
): Promise<Database> {
  // Only the driver that is used is loaded.
  if (config.databaseAddress === undefined) {
    const release = await holdFolder(config);
    if (release === undefined) return openThroughOwner(config, entities);
    const { openEmbedded } = await import('./embedded.ts');
    return openEmbedded(config, entities, release);
  }
  const { openPostgres } = await import('./postgres.ts');
  return openPostgres(config, config.databaseAddress, entities);
}

/**
 * Takes the data folder for this process. A server that is starting has the folder before its socket, and a command for a
 * moment: both are waited for, unless this process is to serve.
 * @returns undefined if a server has it that can be reached
 * @throws UserError in one line when it is in use otherwise, or cannot be used
 */
async function holdFolder(config: DatabaseConfig): Promise<Release | undefined> {
  const end = performance.now() + config.connectTimeoutMs;
  for (;;) {
    try {
      return lockFolder(config.dataFolder);
    } catch (cause) {
      if (config.serves || !isFolderLocked(cause)) throw cause;
      if (await hasRunningOwner(config)) return undefined;
      if (performance.now() > end) throw cause;
    }
    await pause(pollMs);
  }
}
