import { violatedConstraint } from '../../../engine/database/index.ts';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { displayName, listRows, type RowSource, type Tables } from '../../../engine/tables/index.ts';
import { TranslatedError } from '../../admin-ui/shell/index.ts';
import { teamsTexts } from './texts/index.ts';

/** A team as listed for administrators. */
export interface Team {
  readonly id: string;
  readonly name: string;
  /** IDs of the members, sorted. */
  readonly members: readonly string[];
}

/** An organization's teams, sorted by name. */
export const teamRows: RowSource<Team> = {
  from: 'crm_teams t',
  owner: 't.organization_id',
  columns: {
    id: 't.id',
    name: 't.name',
    members: `array(select c.user_id::text from crm_team_members c
      where c.organization_id = t.organization_id and c.team_id = t.id order by c.user_id)`,
  },
  search: ['t.name'],
  order: 't.name',
};

/** A member of a team as listed for administrators. */
export interface TeamMember {
  readonly id: string;
  readonly team: string;
  readonly team_id: string;
  readonly user_id: string;
  readonly email: string;
  /** The member's name; null if it has not been entered. */
  readonly name: string | null;
}

/** The members of an organization's teams, sorted by team and email address. */
export const teamMemberRows: RowSource<TeamMember> = {
  from: `crm_team_members c
    join crm_teams t on t.organization_id = c.organization_id and t.id = c.team_id
    join crm_users u on u.id = c.user_id`,
  owner: 'c.organization_id',
  columns: {
    id: 'c.id',
    team: 't.name',
    team_id: 't.id',
    user_id: 'u.id',
    email: 'u.email',
    name: 'u.name',
  },
  search: ['t.name', 'u.name', 'u.email'],
  order: 't.name, u.email, c.id',
};

/** Message for a team that does not exist. */
export const missingTeam = teamsTexts.later('missing');

/** Message for a user who is not a member of a team. */
export const missingTeamMember = teamsTexts.later('missingMember');

/** Returns the error for a name that another team has. */
const nameTaken = (name: string) => new TranslatedError(teamsTexts.later('nameTaken', { name }));

/**
 * Creates a team.
 * @returns the team's ID
 * @throws UserError if the organization already has a team with this name
 */
export async function createTeam(
  tables: Tables,
  actor: Actor,
  organization: string,
  input: string,
): Promise<string> {
  const name = displayName(input, 'the name');
  const row = await tables
    .insertInto('crm_teams')
    .values({ organization_id: organization, name })
    .onConflict((conflict) => conflict.columns(['organization_id', 'name']).doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw nameTaken(name);
  await recordChanges(tables, actor, { organization, action: 'create', object: 'team', objectId: row.id });
  return row.id;
}

/** Renames a team. @throws UserError if it does not exist, or the organization already has a team with this name */
export async function renameTeam(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  input: string,
): Promise<void> {
  const name = displayName(input, 'the name');
  const row = await tables
    .updateTable('crm_teams')
    .set({ name })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst()
    .catch((cause: unknown) => {
      throw violatedConstraint(cause) === undefined ? cause : nameTaken(name);
    });
  if (row === undefined) throw new TranslatedError(missingTeam);
  await recordChanges(tables, actor, { organization, action: 'update', object: 'team', objectId: id });
}

/** Deletes a team and its list of members. @throws UserError if it does not exist */
export async function deleteTeam(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
): Promise<void> {
  const row = await tables
    .deleteFrom('crm_teams')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(missingTeam);
  await recordChanges(tables, actor, { organization, action: 'delete', object: 'team', objectId: id });
}

/**
 * Adds a member of the organization to a team.
 * @throws UserError if the team does not exist, or the user is not a member of the organization or already in the team
 */
export async function addTeamMember(
  tables: Tables,
  actor: Actor,
  organization: string,
  team: string,
  user: string,
): Promise<void> {
  // The locks prevent concurrent deletions.
  const teamRow = await tables
    .selectFrom('crm_teams')
    .select('id')
    .where('organization_id', '=', organization)
    .where('id', '=', team)
    .forShare()
    .executeTakeFirst();
  if (teamRow === undefined) throw new TranslatedError(missingTeam);
  const member = await tables
    .selectFrom('crm_memberships')
    .select('user_id')
    .where('organization_id', '=', organization)
    .where('user_id', '=', user)
    .forShare()
    .executeTakeFirst();
  if (member === undefined) throw new TranslatedError(teamsTexts.later('notInOrganization'));
  const row = await tables
    .insertInto('crm_team_members')
    .values({ organization_id: organization, team_id: team, user_id: user })
    .onConflict((conflict) => conflict.columns(['organization_id', 'team_id', 'user_id']).doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(teamsTexts.later('alreadyInTeam'));
  await recordMembership(tables, actor, organization, { team, user }, 'add');
}

/** Removes a member from a team. @throws UserError if the user is not in the team */
export async function removeTeamMember(
  tables: Tables,
  actor: Actor,
  organization: string,
  team: string,
  user: string,
): Promise<void> {
  const row = await tables
    .deleteFrom('crm_team_members')
    .where('organization_id', '=', organization)
    .where('team_id', '=', team)
    .where('user_id', '=', user)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(missingTeamMember);
  await recordMembership(tables, actor, organization, { team, user }, 'remove');
}

/** Records a change to a team's members for both the team and the member. */
const recordMembership = (
  tables: Tables,
  actor: Actor,
  organization: string,
  { team, user }: { readonly team: string; readonly user: string },
  change: 'add' | 'remove',
): Promise<void> =>
  recordChanges(
    tables,
    actor,
    { organization, action: `${change} member`, object: 'team', objectId: team },
    {
      organization,
      action: change === 'add' ? 'join team' : 'leave team',
      object: 'member',
      objectId: user,
    },
  );

/** Returns the ID of the organization's team with this name. @throws UserError if it does not exist */
export async function teamId(tables: Tables, organization: string, name: string): Promise<string> {
  const teams = await listRows(tables, teamRows, organization);
  const team = teams.find((candidate) => candidate.name === name);
  if (team !== undefined) return team.id;
  const names = teams.map((candidate) => candidate.name).join(', ');
  throw new UserError(
    `team "${name}" does not exist in this organization. ${names === '' ? '"crm team create" creates one.' : `Available: ${names}.`}`,
  );
}
