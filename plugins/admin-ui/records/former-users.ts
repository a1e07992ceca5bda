import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database, TextRows } from '../../../engine/database/index.ts';
import { type Field, namesMember } from '../../../engine/fields/index.ts';
import type { DoctorCheck } from '../../../engine/modules/index.ts';
import { trashSql } from '../../../engine/records/index.ts';
import { column, quote, record } from '../../../engine/sql/index.ts';
import { isMemberSql, userTable } from '../../../engine/tables/index.ts';

/** Maximum number of records counted per field. */
export const maxCounted = 10_000;
/** Maximum number of organizations reported per field. */
const maxListed = 20;

/** Returns the fields in which callers can replace a user who is no longer an active member. */
export const userFields = ({ definition }: Pick<Resource | ResourceView, 'definition'>): readonly Field[] =>
  definition.fields.filter((field) => namesMember(field) && field.aliasOf === undefined);

/** Returns an SQL condition that is true if a field contains a user who is disabled or not a member of the record's organization. */
const isFormerSql = (field: Field): string =>
  `${column(field)} is not null and (not ${isMemberSql(column({ name: 'organization_id' }), column(field))} or exists (select from ${quote(userTable)} _d where _d."id" = ${column(field)} and _d."disabled_at" is not null))`;

/** Counts an organization's records whose user in a field is no longer an active member, up to one more than {@link maxCounted}. */
export async function countFormerUsers(
  { run }: Database,
  organization: string,
  resource: Pick<Resource, 'name' | 'definition'>,
  field: Field,
): Promise<number> {
  const text = `select count(*)::text from (select from ${quote(resource.name)} ${record} where t."organization_id" = $1::bigint and ${isFormerSql(field)}${trashSql(resource)} limit ${maxCounted + 1}) _f`;
  const rows = await run(
    { name: '', text, lane: 'scan', values: [organization] },
    { organization, access: 'read' },
  );
  return Number(textOf(rows));
}

/**
 * Returns the IDs of an organization's records whose user in a field is no longer an active member, in ascending order.
 * @param after the ID after which to start
 */
export async function findFormerUsers(
  { run }: Database,
  organization: string,
  resource: Pick<Resource, 'name' | 'definition'>,
  field: Field,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<readonly string[]> {
  const text = `select t."id"::text from ${quote(resource.name)} ${record} where t."organization_id" = $1::bigint and t."id" > $2::bigint and ${isFormerSql(field)}${trashSql(resource)} order by t."id" limit ${limit}`;
  const rows = await run(
    { name: '', text, lane: 'scan', values: [organization, after] },
    { organization, access: 'write' },
  );
  return rows.map(([id]) => String(id));
}

const textOf = ([row]: TextRows): string => String(row?.[0] ?? '0');

/** Reports the organizations that have records whose assigned user is no longer an active member. */
export const formerUsers: DoctorCheck<{
  readonly database: Database;
  readonly resources: readonly Resource[];
}> = {
  name: 'assigned users',
  needs: ['database', 'resources'],
  run: async ({ database: { run }, resources }) => {
    const findings = [];
    for (const resource of resources) {
      for (const field of userFields(resource)) {
        const text = `select o.slug::text, least(count(*), ${maxCounted})::text from (select t."organization_id" from ${quote(resource.name)} ${record} where ${isFormerSql(field)}${trashSql(resource)} limit ${maxCounted}) _f join crm_organizations o on o.id = _f."organization_id" group by o.slug order by count(*) desc, o.slug limit ${maxListed}`;
        for (const [slug, count] of await run({ name: '', text, values: [] })) {
          findings.push({
            location: `organization ${slug}`,
            message: `${count} ${count === '1' ? 'record' : 'records'} of ${resource.name} ${count === '1' ? 'has' : 'have'} a "${field.name}" who is no longer an active member`,
            advice: `Assign another member at /setup/o/${slug}/data/${resource.name}/reassign?field=${field.name}`,
            isNote: true as const,
          });
        }
      }
    }
    return findings;
  },
};
