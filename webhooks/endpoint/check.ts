import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import type { DoctorCheck } from '../../engine/modules/index.ts';
import { type TableRows, tablesOf } from '../../engine/tables/index.ts';
import { type InstanceSecrets, sealing } from '../../plugins/access/secrets/index.ts';

/**
 * The secrets of a table can be opened.
 * @param noun what has the secrets, as in "integration 7"
 * @param columns those that hold secrets
 * @param advice how to enter them again
 */
export const sealedCheck = (
  noun: string,
  table: keyof TableRows,
  columns: readonly string[],
  advice: string,
): DoctorCheck<{ readonly database: Database; readonly secrets: InstanceSecrets }> => ({
  name: `secrets of each ${noun}`,
  needs: ['database', 'secrets'],
  run: async ({ database, secrets }) => {
    const refs = sql.join(columns.map((column) => sql.ref(`t.${column}`)));
    const { rows } = await sql<Readonly<Record<string, string>>>`
      select o.slug, t.id::text as id, ${refs} from ${sql.table(table)} t
      join crm_organizations o on o.id = t.organization_id order by o.slug, t.id`.execute(tablesOf(database));
    const { open } = sealing(secrets);
    const opened = rows.map(async (row) => {
      try {
        for (const column of columns) await open(row[column] ?? '');
        return [];
      } catch (cause) {
        if (!(cause instanceof UserError)) throw cause;
        const problem = `none of AUTH_SECRETS opens the secrets of ${noun} ${row.id}`;
        return [{ place: `organization ${row.slug}`, problem, advice }];
      }
    });
    return (await Promise.all(opened)).flat();
  },
});
