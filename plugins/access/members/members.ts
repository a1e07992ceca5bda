import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** A member as an administrator sees them. */
export interface MemberInfo {
  readonly id: string;
  readonly email: string;
  readonly profile: string;
  readonly profile_id: string;
  readonly since: Date;
}

/** The members of an organization, by e-mail address. */
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

/**
 * Changes the profile of a member.
 * @throws UserError when this member does not exist, or no administrator would be left
 */
export async function changeMember(
  tables: Tables,
  actor: Actor,
  organization: string,
  user: string,
  profile: string,
): Promise<void> {
  await lockMembers(tables, organization);
  const changed = await tables
    .updateTable('crm_memberships')
    .set({ profile_id: profile })
    .where('organization_id', '=', organization)
    .where('user_id', '=', user)
    .returning('user_id')
    .executeTakeFirst();
  if (changed === undefined) throw new UserError('this member does not exist');
  await assertAdministrated(tables, organization);
  await recordChanges(tables, actor, { organization, action: 'update', object: 'member', objectId: user });
}

/**
 * Ends a membership.
 * @throws UserError as {@link changeMember}
 */
export async function removeMember(
  tables: Tables,
  actor: Actor,
  organization: string,
  user: string,
): Promise<void> {
  await lockMembers(tables, organization);
  const removed = await tables
    .deleteFrom('crm_memberships')
    .where('organization_id', '=', organization)
    .where('user_id', '=', user)
    .returning('user_id')
    .executeTakeFirst();
  if (removed === undefined) throw new UserError('this member does not exist');
  await assertAdministrated(tables, organization);
  await recordChanges(tables, actor, { organization, action: 'delete', object: 'member', objectId: user });
}

/** Serializes changes of members: two administrators must not remove each other at the same time. */
async function lockMembers(tables: Tables, organization: string): Promise<void> {
  await tables
    .selectFrom('crm_organizations')
    .select('id')
    .where('id', '=', organization)
    .forUpdate()
    .execute();
}

async function assertAdministrated(tables: Tables, organization: string): Promise<void> {
  const left = await tables
    .selectFrom('crm_memberships as m')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'm.organization_id').onRef('p.id', '=', 'm.profile_id'),
    )
    .select('m.user_id')
    .where('m.organization_id', '=', organization)
    .where('p.name', '=', administratorProfile)
    .limit(1)
    .executeTakeFirst();
  if (left === undefined) {
    throw new UserError('this is the last administrator. Make another member an administrator first.');
  }
}
