import { sql } from 'kysely';
import type { ResourceView } from '../../../engine/compile/index.ts';
import { fieldLabel } from '../../../engine/fields/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { writable } from '../records/index.ts';
import type { DisplayValue } from '../shell/index.ts';
import type { ActivityLine } from './activity-lines.ts';

/** Maximum number of characters of each value. */
const maxLength = 200;

/** Maximum length of a record as JSON, in characters, whose values are compared. */
const maxRecord = 20_000;

/**
 * Returns the values before and after each update of a record in these entries, keyed by the entry's position. Fields that the
 * resources do not contain are hidden from the member and are omitted.
 */
export async function changedValues(
  tables: Tables,
  organization: string,
  lines: readonly ActivityLine[],
  resources: readonly ResourceView[],
): Promise<ReadonlyMap<string, NonNullable<DisplayValue['changes']>>> {
  const found = resources.map(async (resource) => {
    const positions = lines.flatMap(({ action, object, position }) =>
      action === 'update' && object === resource.name ? [position] : [],
    );
    // The server sets the other fields with every change.
    const fields = writable(resource);
    if (positions.length === 0 || fields.length === 0) return [];
    const parts = positions.map((position) => position.split('-'));
    const names = fields.map(({ name }) => name);
    const { rows } = await sql<{ position: string; changes: string | null }>`
      select l.transaction::text || '-' || l.id::text as position, c.changes::text as changes
      from unnest(${parts.map(([transaction]) => transaction)}::text[]::xid8[], ${parts.map(([, id]) => id)}::text[]::bigint[]) _i(transaction, id)
      join crm_ledger l on l.organization_id = ${organization}::bigint and l.transaction = _i.transaction and l.id = _i.id
      cross join lateral (select coalesce(l.before, (
        select p.record from crm_ledger p
        where p.organization_id = l.organization_id and p.object = l.object and p.object_id = l.object_id
          and p.version = l.version - 1 and p.record is not null limit 1)) as record) b
      cross join lateral (
        select jsonb_object_agg(_n.name, jsonb_build_array(left(_v.before, ${maxLength + 1}::int), left(_v.after, ${maxLength + 1}::int))) as changes
        from unnest(${names}::text[]) _n(name)
        cross join lateral (select b.record::jsonb ->> _n.name as before, l.record::jsonb ->> _n.name as after) _v
        where _v.before is distinct from _v.after) c
      where length(l.record) <= ${maxRecord}::int and length(b.record) <= ${maxRecord}::int`.execute(tables);
    return rows.flatMap(({ position, changes }): [string, NonNullable<DisplayValue['changes']>][] => {
      if (changes === null) return [];
      const values = JSON.parse(changes) as Readonly<Record<string, readonly [string | null, string | null]>>;
      const changed = fields.flatMap((field) => {
        const pair = values[field.name];
        return pair === undefined
          ? []
          : [{ label: fieldLabel(field), before: excerpt(pair[0]), after: excerpt(pair[1]) }];
      });
      return [[position, changed]];
    });
  });
  return new Map((await Promise.all(found)).flat());
}

const excerpt = (text: string | null): string =>
  text === null ? '' : text.length > maxLength ? `${text.slice(0, maxLength)} …` : text;
