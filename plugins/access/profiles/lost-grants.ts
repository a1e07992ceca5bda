import { sql } from 'kysely';
import type { Database } from '../../../engine/database/index.ts';
import type { ResourceDefinition } from '../../../engine/definition/index.ts';
import type { DoctorCheck } from '../../../engine/modules/index.ts';
import { fieldsObject, type ModuleAction } from '../../../engine/records/index.ts';
import { type Tables, tablesOf } from '../../../engine/tables/index.ts';
import { type GrantableObject, grantableObjects, grantIssue, grantText, storedGrant } from './grants.ts';

/** A stored grant that allows nothing, because it names an object, action or scope that does not exist. */
export interface LostGrant {
  /** The organization's slug. */
  readonly organization: string;
  /** The profile's name. */
  readonly profile: string;
  /** The grant, for example `leads:update:own`. */
  readonly grant: string;
  readonly reason: string;
}

/** Maximum number of grants to report. */
const maxListed = 100;

/** A resource to which stored grants can refer. */
interface Defined {
  readonly definition: ResourceDefinition;
  readonly actions: readonly ModuleAction[];
}

/** Returns the stored grants that name an object, action or scope that the definitions do not contain. */
export async function findLostGrants(tables: Tables, resources: readonly Defined[]): Promise<LostGrant[]> {
  // Pending migrations may not have created the table yet.
  const { rows: tableRows } = await sql<{ table: string | null }>`
    select to_regclass('crm_grants')::text as table`.execute(tables);
  if (tableRows[0]?.table == null) return [];
  const stored = await tables.selectFrom('crm_grants').select(['object', 'action']).distinct().execute();
  const inUse = resources.filter(({ definition }) => !definition.isRetired);
  const [objects, former] = [grantableObjects(inUse), formerObjects(inUse)];
  const reasons = new Map(
    stored.flatMap((grant) => {
      // Administrators have it in every installation, including those without custom fields.
      if (grant.object === fieldsObject) return [];
      const reason = grantIssue(grant, objects);
      return reason === undefined || grantIssue(grant, former) === undefined
        ? []
        : [[grantText(grant), reason] as const];
    }),
  );
  if (reasons.size === 0) return [];
  const pairs = sql.join(
    [...reasons.keys()].map((text) => {
      const { object, action } = storedGrant(text);
      return sql`(${object}::text, ${action}::text)`;
    }),
  );
  const { rows } = await sql<Omit<LostGrant, 'reason'>>`
    select o.slug as organization, p.name as profile, g.object || ':' || g.action as grant
    from crm_grants g
    join crm_profiles p on p.organization_id = g.organization_id and p.id = g.profile_id
    join crm_organizations o on o.id = g.organization_id
    where (g.object, g.action) in (${pairs})
    order by o.slug, p.name, 3 limit ${maxListed}`.execute(tables);
  return rows.map((row) => ({ ...row, reason: reasons.get(row.grant) ?? '' }));
}

/** Returns the objects under their former names, which are valid until the migration that renames them is complete. */
const formerObjects = (resources: readonly Defined[]): readonly GrantableObject[] =>
  grantableObjects(
    resources.flatMap(({ definition, actions }) => {
      const { renamedFrom } = definition;
      return renamedFrom === undefined ? [] : [{ actions, definition: { ...definition, name: renamedFrom } }];
    }),
  );

/** Describes a lost grant in one line, without a full stop. */
export const describeLostGrant = ({ organization, profile, grant, reason }: LostGrant): string =>
  `${organization}: the grant ${grant} of the profile "${profile}" allows nothing: ${reason}`;

/** Reports stored grants that allow nothing. */
export const lostGrants: DoctorCheck<{
  readonly database: Database;
  readonly resources: readonly Defined[];
}> = {
  name: 'grants',
  needs: ['database', 'resources'],
  run: async ({ database, resources }) =>
    (await findLostGrants(tablesOf(database), resources)).map(({ organization, profile, grant, reason }) => ({
      location: `organization ${organization}, profile ${profile}`,
      message: `the grant ${grant} allows nothing: ${reason}`,
      advice: `Define what it names, or remove the grant: crm profile revoke ${JSON.stringify(profile)} ${grant} --org ${organization}`,
    })),
};
