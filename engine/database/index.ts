// Database: opens PGlite or PostgreSQL through MikroORM and offers one way to run a statement.
// May import errors, config, sql.
import type { EntitySchema } from '@mikro-orm/core';
import type { Config } from '../config.ts';
import type { Database } from './database.ts';
import { openEmbedded } from './embedded.ts';
import { openPostgres } from './postgres.ts';

/**
 * Opens the database that the configuration names: PostgreSQL by DATABASE_URL, else the embedded one.
 * @throws UserError in one line when it does not answer or its folder is in use
 */
export async function openDatabase(config: Config, entities: readonly EntitySchema[]): Promise<Database> {
  return config.databaseAddress === undefined
    ? openEmbedded(config, entities)
    : openPostgres(config, config.databaseAddress, entities);
}

export { type Admission, admission, type Bounds } from './admission.ts';
export type { Database, Rows, Runnable } from './database.ts';
export { exclusively } from './exclusive.ts';
export { databaseFailure, foreignKeyViolation, isDatabaseError, sqlState } from './failures.ts';
export { makeFolder } from './folder.ts';
export { openModel } from './orm.ts';
export { openProbe, type Probe } from './probe.ts';
