import { sql } from 'kysely';
import { deleteExpired } from '../../../engine/modules/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** Days after which a use does not count any more. */
export const usageDays = 30;

/** A resource that a key named, or a field of it. */
export interface UsedName {
  readonly resource: string;
  /** Undefined: the resource itself. */
  readonly field?: string;
}

/** A key that named something. */
export interface KeyUsage extends UsedName {
  readonly organization: string;
  /** The name of the key and its last characters. */
  readonly key: string;
  /** A calendar day. */
  readonly lastUsed: string;
}

/** The keys that named any of these within {@link usageDays}. */
export async function findUsage(tables: Tables, named: readonly UsedName[]): Promise<KeyUsage[]> {
  if (named.length === 0) return [];
  // The database may lack migrations.
  const { rows: found } = await sql<{ table: string | null }>`
    select to_regclass('crm_name_uses')::text as table`.execute(tables);
  if (found[0]?.table == null) return [];
  const pairs = sql.join(named.map(({ resource, field = '' }) => sql`(${resource}::text, ${field}::text)`));
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

/** Removes some uses that do not count any more. @returns how many */
export const usageRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_name_uses',
    ['organization_id', 'key_id', 'resource', 'name'],
    sql`last_used_at < now() - ${usageDays}::int * interval '1 day'`,
    'last_used_at',
  );
