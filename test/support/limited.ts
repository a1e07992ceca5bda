// Callers whose grants are limited to scopes and field groups, and a resource that has both.
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { createProfile } from '../../plugins/access/profiles/profiles.ts';
import type { Instance, Organization } from './instance.ts';
import { command, fresh, logIn, makePerson, type Person } from './people.ts';

/** A resource with scopes and a field group. */
export const jobs = {
  file: 'jobs.yaml',
  text: `
singular: job
description: Something to do.
common: all
fields:
  owner_id: { type: int64, nullable: true, read_only: true, set: creator, assignable: true, description: The owner. }
  name: { type: string, description: The name. }
  status: { type: string, default: New, description: The status. }
  score: { type: integer, nullable: true, description: The score. }
  due_at: { type: timestamp, nullable: true, description: When it is due. }
  parent_id: { type: reference, to: jobs, nullable: true, description: The job of which it is a part. }
  margin: { type: number, nullable: true, group: finance, description: The margin. }
  cost: { type: number, nullable: true, group: finance, description: The cost. }
sort: { by: created_at, direction: desc }
filters: [name, status, margin]
scopes:
  own: owner_id == me
  open: status != "Done"
  hot: score > 5 || due_at < timestamp("2026-03-01T00:00:00+02:00")
  part: parent_id != null
  whole: parent_id == null && status == "New"
`,
};

/** A caller that sends requests with a key or token. */
export interface LimitedCaller {
  readonly key: string;
  /** Name of the caller's profile. */
  readonly profile: string;
}

/** Replaces a profile's grants, each in the form `object:action` or `object:action:scope`. */
export async function setGrants(
  { database }: Pick<Instance, 'database'>,
  { id }: Pick<Organization, 'id'>,
  profile: string,
  grants: readonly string[],
): Promise<void> {
  // In one transaction, because the service must not see only some of the grants.
  await transaction(database, async (tables) => {
    await sql`with _profile as (select id from crm_profiles where organization_id = ${id}::bigint and name = ${profile}),
    _old as (delete from crm_grants where organization_id = ${id}::bigint and profile_id = (select id from _profile))
    select from _profile`.execute(tables);
    for (const grant of grants) {
      const [object, action] = grant.split(/:(.*)/);
      await sql`insert into crm_grants (organization_id, profile_id, object, action)
      select ${id}::bigint, id, ${object}, ${action} from crm_profiles where organization_id = ${id}::bigint and name = ${profile}`.execute(
        tables,
      );
    }
  });
}

/** Creates a key whose profile has exactly these grants. */
export async function limitedKey(
  instance: Instance,
  organization: Organization,
  grants: readonly string[],
): Promise<LimitedCaller> {
  const profile = fresh('limited');
  await createProfile(tablesOf(instance.database), command(instance), organization.id, profile, []);
  await setGrants(instance, organization, profile, grants);
  return { key: (await organization.makeKey({ profile })).key, profile };
}

/** Creates a member whose profile has exactly these grants, and logs the member in. */
export async function limitedPerson(
  instance: Instance,
  organization: Organization,
  grants: readonly string[],
): Promise<LimitedCaller & Person> {
  const person = await makePerson(instance, [{ organization, grants: [] }], { verified: true });
  const { rows } = await sql<{ name: string }>`select p.name from crm_memberships m
    join crm_profiles p on p.organization_id = m.organization_id and p.id = m.profile_id
    where m.organization_id = ${organization.id}::bigint and m.user_id = ${person.id}::bigint`.execute(
    tablesOf(instance.database),
  );
  const profile = rows[0]?.name ?? '';
  await setGrants(instance, organization, profile, grants);
  const { token } = await logIn(instance, person);
  return { ...person, key: token, profile };
}
