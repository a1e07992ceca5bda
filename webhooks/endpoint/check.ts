import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import type { DoctorCheck } from '../../engine/modules/index.ts';
import { type TableRows, tablesOf } from '../../engine/tables/index.ts';
import { type InstanceSecrets, sealing } from '../../plugins/access/secrets/index.ts';

/**
 * Creates a check that a table's encrypted secrets can be decrypted.
 * @param noun the kind of row, for example "integration"
 * @param columns the columns with encrypted secrets
 * @param advice explains how to re-enter the secrets
 */
export const sealedCheck = (
  noun: string,
  table: keyof TableRows,
  columns: readonly string[],
  advice: string,
): DoctorCheck<{ readonly database: Database; readonly secrets: InstanceSecrets }> => ({
  name: `${noun} secrets`,
  needs: ['database', 'secrets'],
  run: async ({ database, secrets }) => {
    const refs = sql.join(columns.map((column) => sql.ref(`t.${column}`)));
    const { rows } = await sql<Readonly<Record<string, string>>>`
      select o.slug, t.id::text as id, ${refs} from ${sql.table(table)} t
      join crm_organizations o on o.id = t.organization_id order by o.slug, t.id`.execute(tablesOf(database));
    const { open } = sealing(secrets);
    const findings = rows.map(async (row) => {
      try {
        for (const column of columns) await open(row[column] ?? '');
        return [];
      } catch (cause) {
        if (!(cause instanceof UserError)) throw cause;
        const message = `the secrets of ${noun} ${row.id} cannot be decrypted with any of AUTH_SECRETS`;
        return [{ location: `organization ${row.slug}`, message, advice }];
      }
    });
    return (await Promise.all(findings)).flat();
  },
});
