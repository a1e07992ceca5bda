import type { Database } from '../../engine/database/database.ts';
import { extensionStatements } from '../../engine/database/extensions.ts';

/** Creates all tables of a model in an empty database, without its migrations. */
export async function createTables({ orm, run }: Pick<Database, 'orm' | 'run'>): Promise<void> {
  for (const text of extensionStatements) await run({ name: '', text, values: [] });
  await orm.schema.create();
}
