import { sql } from 'kysely';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import { listRows, type RowSource, type Tables } from '../../../engine/tables/index.ts';
import { TranslatedError } from '../../admin-ui/shell/index.ts';
import { revokeKeysOnBehalfOf } from '../api-keys/index.ts';
import { membersTexts } from './texts/index.ts';

/** A member as listed for administrators. */
export interface MemberInfo {
  readonly id: string;
  readonly email: string;
  /** The member's name; null if it has not been entered. */
  readonly name: string | null;
  readonly profile: string;
  readonly profile_id: string;
  readonly since: Date;
}

/** An organization's members, sorted by email address. */
export const memberRows: RowSource<MemberInfo> = {
  from: `crm_memberships m
    join crm_users u on u.id = m.user_id
    join crm_profiles p on p.organization_id = m.organization_id and p.id = m.profile_id`,
  owner: 'm.organization_id',
  columns: {
    id: 'u.id',
    email: 'u.email',
    name: 'u.name',
    profile: 'p.name',
    profile_id: 'p.id',
    since: 'm.created_at',
  },
  search: ['u.name', 'u.email', 'p.name'],
  order: 'u.email, u.id',
};

/** Message for a member who does not exist. */
export const missingMember = membersTexts.later('missing');

/** Changes a member's profile. @throws UserError if the member does not exist or is the last administrator */
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
  if (row === undefined) throw new TranslatedError(missingMember);
  await assertHasAdministrator(tables, organization);
  await recordChanges(tables, actor, { organization, action: 'update', object: 'member', objectId: user });
}

/** Removes a member from an organization, with the keys that act on their behalf. @throws UserError in the same cases as {@link changeMember} */
export async function removeMember(
  tables: Tables,
  actor: Actor,
  organization: string,
  user: string,
): Promise<void> {
  await lockMembers(tables, organization);
  await revokeKeysOnBehalfOf(tables, actor, organization, user);
  const row = await tables
    .deleteFrom('crm_memberships')
    .where('organization_id', '=', organization)
    .where('user_id', '=', user)
    .returning('user_id')
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(missingMember);
  await assertHasAdministrator(tables, organization);
  await recordChanges(tables, actor, { organization, action: 'delete', object: 'member', objectId: user });
}

/** Serializes changes to members, so that two administrators cannot remove each other at the same time. */
async function lockMembers(tables: Tables, organization: string): Promise<void> {
  await tables
    .selectFrom('crm_organizations')
    .select('id')
    .where('id', '=', organization)
    .forUpdate()
    .execute();
}

async function assertHasAdministrator(tables: Tables, organization: string): Promise<void> {
  const where = [sql`p.name = ${administratorProfile}`];
  const [administrator] = await listRows(tables, memberRows, organization, { where, limit: 1 });
  if (administrator === undefined) {
    throw new TranslatedError(membersTexts.later('lastAdministrator'));
  }
}
