// Aligned IDs: rows in different tables that have the same ID, as happens in any database that is old enough.
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import type { Instance } from './instance.ts';

let next = 5_000_000;

/** Restarts the IDs of several tables at the same unused value, and returns this value. */
export async function alignIds(
  { database }: Pick<Instance, 'database'>,
  tables: readonly string[],
): Promise<string> {
  next += 1_000_000;
  for (const name of tables) {
    await sql`alter table ${sql.table(name)} alter column id restart with ${sql.lit(next)}`.execute(
      tablesOf(database),
    );
  }
  return String(next);
}
