import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { type TableRows, type Tables, tablesOf } from '../../../engine/tables/index.ts';
import type { Sealing } from './sealing.ts';

const tenantKey = ['organization_id', 'id'];

/**
 * Seals all stored secrets of a table again with the first of AUTH_SECRETS, so that the others can be removed.
 * @param columns the columns that contain secrets
 * @param key the columns of the primary key, the last of which identifies a row in the log
 * @returns the IDs of the rows whose secrets cannot be opened with any of AUTH_SECRETS
 */
export async function renewSecrets(
  tables: Tables,
  { renew }: Sealing,
  table: keyof TableRows,
  columns: readonly string[],
  key: readonly string[] = tenantKey,
): Promise<string[]> {
  const keys = key.map((column) => sql.ref(column));
  const refs = columns.map((column) => sql.ref(column));
  const { rows } = await sql<Readonly<Record<string, string>>>`
    select ${sql.join([...keys, ...refs])} from ${sql.table(table)}`.execute(tables);
  const lostIds: string[] = [];
  for (const row of rows) {
    try {
      const oldValues = columns.map((column) => row[column] ?? '');
      const newValues = await Promise.all(oldValues.map(renew));
      if (newValues.every((value) => value === undefined)) continue;
      const assignments = refs.map((ref, index) => sql`${ref} = ${newValues[index] ?? oldValues[index]}`);
      const keyConditions = key.map((column, index) => sql`${keys[index]} = ${row[column]}::bigint`);
      // A concurrent request may have changed the secret.
      const valueConditions = refs.map((ref, index) => sql`${ref} = ${oldValues[index]}`);
      await sql`update ${sql.table(table)} set ${sql.join(assignments)}
        where ${sql.join([...keyConditions, ...valueConditions], sql` and `)}`.execute(tables);
    } catch (cause) {
      if (!(cause instanceof UserError)) throw cause;
      lostIds.push(String(row[key.at(-1) ?? '']));
    }
  }
  return lostIds;
}

/** Renews the secrets of a table when the service starts, and logs the IDs of rows that cannot be opened. */
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
      const lostIds = await renewSecrets(tablesOf(database), sealing, table, columns, key);
      if (lostIds.length > 0)
        app.log.error(
          { [table.replace(/^crm_/, '')]: lostIds },
          'some stored secrets cannot be decrypted with AUTH_SECRETS; enter them again',
        );
    } catch (cause) {
      app.log.warn({ code: (cause as { code?: string }).code }, 'failed to read stored secrets');
    }
  });
}
