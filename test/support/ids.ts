// IDs that meet: rows of different tables with the same number, as they occur in any database that is old enough.
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import type { Instance } from './instance.ts';

let next = 5_000_000;

/** Lets the IDs of several tables continue at one number, higher than any so far, and returns it. */
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
