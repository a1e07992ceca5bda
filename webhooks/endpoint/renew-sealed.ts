import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import { type TableRows, type Tables, tablesOf } from '../../engine/tables/index.ts';
import type { Sealing } from '../../plugins/secrets/index.ts';

/**
 * Seals every stored secret of a table again with the first of AUTH_SECRETS, so that the others can be removed.
 * @param columns those that hold secrets
 * @returns ids of rows whose secrets none of AUTH_SECRETS opens
 */
export async function renewSecrets(
  tables: Tables,
  { renew }: Sealing,
  table: keyof TableRows,
  columns: readonly string[],
): Promise<string[]> {
  const refs = columns.map((column) => sql.ref(column));
  const { rows } = await sql<Readonly<Record<string, string>>>`
    select organization_id, id, ${sql.join(refs)} from ${sql.table(table)}`.execute(tables);
  const lost: string[] = [];
  for (const row of rows) {
    try {
      const stored = columns.map((column) => row[column] ?? '');
      const renewed = await Promise.all(stored.map(renew));
      if (renewed.every((each) => each === undefined)) continue;
      const values = refs.map((ref, place) => sql`${ref} = ${renewed[place] ?? stored[place]}`);
      // An administrator may have changed it meanwhile.
      const same = refs.map((ref, place) => sql`${ref} = ${stored[place]}`);
      await sql`update ${sql.table(table)} set ${sql.join(values)}
        where organization_id = ${row.organization_id}::bigint and id = ${row.id}::bigint and ${sql.join(same, sql` and `)}`.execute(
        tables,
      );
    } catch (cause) {
      if (!(cause instanceof UserError)) throw cause;
      lost.push(String(row.id));
    }
  }
  return lost;
}

/** Does so when the service starts, and logs what is lost. */
export function renewSealed(
  app: FastifyInstance,
  database: Database,
  sealing: Sealing,
  table: keyof TableRows,
  columns: readonly string[],
): void {
  app.addHook('onReady', async () => {
    try {
      const lost = await renewSecrets(tablesOf(database), sealing, table, columns);
      if (lost.length > 0)
        app.log.error(
          { [table.replace(/^crm_/, '')]: lost },
          'AUTH_SECRETS opens not all secrets; enter them again',
        );
    } catch (cause) {
      app.log.warn({ code: (cause as { code?: string }).code }, 'stored secrets could not be looked at');
    }
  });
}
