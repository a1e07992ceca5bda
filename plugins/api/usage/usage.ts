import { sql } from 'kysely';
import { deleteExpired } from '../../../engine/modules/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** Number of days after which usage is ignored. */
export const usageDays = 30;

/** A resource or field that a key can use. */
export interface UsedName {
  readonly resource: string;
  /** Field name, or undefined for the resource itself. */
  readonly field?: string;
}

/** An API key that used a name. */
export interface KeyUsage extends UsedName {
  readonly organization: string;
  /** The key's name, followed by the key's last four characters. */
  readonly key: string;
  /** Date of last use. */
  readonly lastUsed: string;
}

/** Returns the keys that have used any of the names within the last {@link usageDays} days. */
export async function findUsage(tables: Tables, names: readonly UsedName[]): Promise<KeyUsage[]> {
  if (names.length === 0) return [];
  // Pending migrations may not have created the table yet.
  const { rows: tableRows } = await sql<{ table: string | null }>`
    select to_regclass('crm_name_uses')::text as table`.execute(tables);
  if (tableRows[0]?.table == null) return [];
  const pairs = sql.join(names.map(({ resource, field = '' }) => sql`(${resource}::text, ${field}::text)`));
  const { rows } = await sql<KeyUsage & { field: string }>`
    select o.slug as organization, k.name || ' (…' || k.last_four || ')' as key, u.resource, u.name as field,
      to_char(u.last_used_at, 'YYYY-MM-DD') as "lastUsed"
    from crm_name_uses u
    join crm_api_keys k on k.organization_id = u.organization_id and k.id = u.key_id
    join crm_organizations o on o.id = u.organization_id
    where (u.resource, u.name) in (${pairs}) and u.last_used_at > now() - ${usageDays}::int * interval '1 day'
    order by o.slug, k.id, u.resource, u.name`.execute(tables);
  return rows.map(({ field, ...use }) => (field === '' ? use : { ...use, field }));
}

/** Deletes a batch of expired usage rows. @returns the number of deleted rows */
export const usageRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_name_uses',
    ['organization_id', 'key_id', 'resource', 'name'],
    sql`last_used_at < now() - ${usageDays}::int * interval '1 day'`,
    'last_used_at',
  );
