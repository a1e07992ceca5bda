import { setTimeout as pause } from 'node:timers/promises';
import type { EntitySchema } from '@mikro-orm/core';
import type { Database, Servers } from './database.ts';
import { hasRunningOwner, openThroughOwner } from './embedded-owner.ts';
import { isFolderLocked, lockFolder, type Release } from './lock.ts';
import { scheduleOn } from './scheduler.ts';
import type { DatabaseConfig } from './variables.ts';

/** Interval between attempts to lock a folder that is in use, in milliseconds. */
const pollMs = 50;

/**
 * Opens the configured database: PostgreSQL if DATABASE_URL is set, otherwise the embedded database, through
 * its server if one is running.
 * @throws UserError with a one-line message if the database does not respond or its folder is in use
 */
export const openDatabase = async (
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
): Promise<Database> => scheduleOn(await openServers(config, entities));

async function openServers(config: DatabaseConfig, entities: readonly EntitySchema[]): Promise<Servers> {
  // Only the driver in use is loaded.
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
 * Locks the data folder for this process. A starting server locks the folder before it opens its socket, and
 * a command locks it briefly. This function waits for both unless this process will serve the database.
 * @returns undefined if a running server owns the folder and is reachable
 * @throws UserError with a one-line message if the folder is otherwise in use, or unusable
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
