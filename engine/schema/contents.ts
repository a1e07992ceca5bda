import type { DatabaseConfig } from '../database/index.ts';
import { storedModel } from './stored.ts';

/** The names of the tables that an instance has after some of its migrations; those in which the database keeps itself are none of them. */
export const tablesAfter = (config: DatabaseConfig, migrations: readonly string[]): string[] =>
  Object.keys(storedModel(config, (name) => migrations.includes(name)).tables).sort();
