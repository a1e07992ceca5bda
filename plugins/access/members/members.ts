import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** A member as listed for administrators. */
export interface MemberInfo {
  readonly id: string;
  readonly email: string;
  readonly profile: string;
  readonly profile_id: string;
  readonly since: Date;
}

/** Lists the members of an organization, sorted by email address. */
export async function listMembers(tables: Tables, organization: string): Promise<MemberInfo[]> {
  const rows = await tables
    .selectFrom('crm_memberships as m')
    .innerJoin('crm_users as u', 'u.id', 'm.user_id')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'm.organization_id').onRef('p.id', '=', 'm.profile_id'),
    )
    .select(['u.id', 'u.email', 'p.name as profile', 'p.id as profile_id', 'm.created_at as since'])
    .where('m.organization_id', '=', organization)
    .orderBy('u.email')
    .execute();
  return rows.map((row) => ({
    ...row,
    id: row.id,
    profile_id: row.profile_id,
    since: row.since,
  }));
}

/** Changes the profile of a member. @throws UserError if the member does not exist or is the last administrator */
export async function changeMember(
  tables: Tables,
  actor: Actor,
  organization: string,
  user: string,
  profile: string,
): Promise<void> {
  await lockMembers(tables, organization);
  const row = await tables
    .updateTable('crm_memberships')
    .set({ profile_id: profile })
    .where('organization_id', '=', organization)
    .where('user_id', '=', user)
    .returning('user_id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError('this member does not exist');
  await assertHasAdministrator(tables, organization);
  await recordChanges(tables, actor, { organization, action: 'update', object: 'member', objectId: user });
}

/** Removes a member from an organization. @throws UserError in the same cases as {@link changeMember} */
export async function removeMember(
  tables: Tables,
  actor: Actor,
  organization: string,
  user: string,
): Promise<void> {
  await lockMembers(tables, organization);
  const row = await tables
    .deleteFrom('crm_memberships')
    .where('organization_id', '=', organization)
    .where('user_id', '=', user)
    .returning('user_id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError('this member does not exist');
  await assertHasAdministrator(tables, organization);
  await recordChanges(tables, actor, { organization, action: 'delete', object: 'member', objectId: user });
}

/** Serializes changes to members, because two administrators must not remove each other at the same time. */
async function lockMembers(tables: Tables, organization: string): Promise<void> {
  await tables
    .selectFrom('crm_organizations')
    .select('id')
    .where('id', '=', organization)
    .forUpdate()
    .execute();
}

async function assertHasAdministrator(tables: Tables, organization: string): Promise<void> {
  const administrator = await tables
    .selectFrom('crm_memberships as m')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'm.organization_id').onRef('p.id', '=', 'm.profile_id'),
    )
    .select('m.user_id')
    .where('m.organization_id', '=', organization)
    .where('p.name', '=', administratorProfile)
    .limit(1)
    .executeTakeFirst();
  if (administrator === undefined) {
    throw new UserError('this is the last administrator. Make another member an administrator first.');
  }
}
