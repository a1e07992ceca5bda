import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { type TableRows, type Tables, tablesOf } from '../../../engine/tables/index.ts';
import type { Sealing } from './sealing.ts';

const keyOfTenants = ['organization_id', 'id'];

/**
 * Seals every stored secret of a table again with the first of AUTH_SECRETS, so that the others can be removed.
 * @param columns those that hold secrets
 * @param key the columns of its primary key, the one that names a row last
 * @returns names of rows whose secrets none of AUTH_SECRETS opens
 */
export async function renewSecrets(
  tables: Tables,
  { renew }: Sealing,
  table: keyof TableRows,
  columns: readonly string[],
  key: readonly string[] = keyOfTenants,
): Promise<string[]> {
  const keys = key.map((column) => sql.ref(column));
  const refs = columns.map((column) => sql.ref(column));
  const { rows } = await sql<Readonly<Record<string, string>>>`
    select ${sql.join([...keys, ...refs])} from ${sql.table(table)}`.execute(tables);
  const lost: string[] = [];
  for (const row of rows) {
    try {
      const stored = columns.map((column) => row[column] ?? '');
      const renewed = await Promise.all(stored.map(renew));
      if (renewed.every((each) => each === undefined)) continue;
      const values = refs.map((ref, place) => sql`${ref} = ${renewed[place] ?? stored[place]}`);
      const thisRow = key.map((column, place) => sql`${keys[place]} = ${row[column]}::bigint`);
      // A concurrent request can have changed the secret.
      const same = refs.map((ref, place) => sql`${ref} = ${stored[place]}`);
      await sql`update ${sql.table(table)} set ${sql.join(values)}
        where ${sql.join([...thisRow, ...same], sql` and `)}`.execute(tables);
    } catch (cause) {
      if (!(cause instanceof UserError)) throw cause;
      lost.push(String(row[key.at(-1) ?? '']));
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
  key?: readonly string[],
): void {
  app.addHook('onReady', async () => {
    try {
      const lost = await renewSecrets(tablesOf(database), sealing, table, columns, key);
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
