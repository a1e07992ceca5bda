import type { DatabaseConfig } from '../database/index.ts';
import { storedModel } from './stored-model.ts';

/** Returns the sorted names of the model's tables after the given migrations, without internal tables. */
export const tablesAfter = (config: DatabaseConfig, migrations: readonly string[]): string[] =>
  Object.keys(storedModel(config, (name) => migrations.includes(name)).tables).sort();
