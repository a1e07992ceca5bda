import type { Database } from '../../engine/database/database.ts';
import { extensionStatements } from '../../engine/database/extensions.ts';
import { until } from './process.ts';

/** Creates all tables of a model in an empty database, without its migrations. */
export async function createTables({ orm, run }: Pick<Database, 'orm' | 'run'>): Promise<void> {
  for (const text of extensionStatements) await run({ name: '', text, values: [] });
  await orm.schema.create();
}

/**
 * Vacuums and analyzes a table until all of its pages are marked as visible to everyone, which a concurrent transaction
 * can prevent. Otherwise, the costs of index scans would vary.
 */
export async function vacuum({ run }: Pick<Database, 'run'>, table: string): Promise<void> {
  const visible = `select (relallvisible = relpages)::text from pg_class where oid = '${table}'::regclass`;
  await until(async () => {
    await run({ name: '', text: `vacuum analyze ${table}`, values: [] });
    const [[isVisible] = []] = await run({ name: '', text: visible, values: [] });
    return isVisible === 'true';
  }, `vacuum ${table}`);
}
