import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import { findRow, listRows } from '../../../engine/tables/index.ts';
import {
  addObjects,
  defineObject,
  type Form,
  field,
  type Input,
  idField,
  linkWithParameters,
  nameInput,
  type ObjectContext,
  returnQuery,
} from '../../admin-ui/shell/index.ts';
import { listMembers, personLine, personLines } from '../identity/index.ts';
import {
  addTeamMember,
  createTeam,
  deleteTeam,
  missingTeam,
  missingTeamMember,
  removeTeamMember,
  renameTeam,
  type Team,
  type TeamMember,
  teamMemberRows,
  teamRows,
} from './teams.ts';
import { teamsTexts } from './texts/index.ts';

interface TeamServices {
  readonly database: Database;
}

/** Value of the URL parameter that selects the list of members. */
const memberList = 'team-members';

/** Teams. Scopes with `my_team` contain the records of the members of a caller's teams. */
const teams = defineObject<Team, TeamServices>({
  name: 'teams',
  title: teamsTexts.later('teams'),
  group: 'Access',
  icon: 'layers',
  plural: 'teams',
  source: teamRows,
  missing: () => missingTeam,
  nameOf: ({ name }) => name,
  columns: [
    {
      title: 'Name',
      cell: ({ id, name }, { urlOf }) => ({
        text: name,
        href: linkWithParameters(urlOf(), {}, { show: memberList, team: id }),
      }),
      by: 'lower(t.name)',
    },
    { title: 'Members', cell: ({ members }) => ({ text: String(members.length), numeric: true }) },
  ],
  empty:
    'The members of a team see each other’s records if their profile is limited to a scope with my_team.',
  menu: ({ id, name }, { urlOf }) => ({
    links: [{ label: 'Add member', name: `Add a member to ${name}`, href: `${urlOf('add')}?team=${id}` }],
  }),
  actions: {
    create: {
      label: 'Create team',
      page: (_context, form) => ({
        kind: 'form',
        title: 'Create a team',
        inputs: [nameInput(field(form, 'name'), 'A new team has no members. You add them in the next step.')],
        submit: 'Create team',
      }),
      done: { 'team-created': '{} created.' },
      run: async ({ organization, actor, transact }, form) => {
        const name = field(form, 'name');
        const id = await transact((tables) => createTeam(tables, actor, organization, name));
        return { done: 'team-created', name: name.trim(), id };
      },
    },
  },
  rowActions: {
    rename: {
      label: 'Rename',
      page: ({ urlOf }, form, { id, name }) => ({
        kind: 'form',
        title: `Rename ${name}`,
        inputs: [nameInput(field(form, 'name') || name, 'Its members stay the same.')],
        submit: 'Rename team',
        danger: { label: 'Delete team', href: `${urlOf('delete')}?id=${id}` },
      }),
      done: { 'team-renamed': '{} renamed.' },
      run: async ({ organization, actor, transact }, form, { id }) => {
        const name = field(form, 'name');
        await transact((tables) => renameTeam(tables, actor, organization, id, name));
        return { done: 'team-renamed', name: name.trim(), id };
      },
    },
    delete: {
      label: 'Delete',
      page: ({ membership }, _form, { name }) => ({
        kind: 'confirm',
        title: `Delete ${name}?`,
        consequence: `Its members immediately lose access to records that they see only through this team. They remain members of ${membership.name}, and no records are deleted.`,
        submit: 'Delete team',
      }),
      done: { 'team-deleted': '{} deleted.' },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => deleteTeam(tables, actor, organization, id)),
    },
  },
});

/** Returns the team selected in a form or in the list from which the form was opened. */
const selectedTeam = (form: Form): string =>
  field(form, 'team') || (new URLSearchParams(returnQuery(field(form, 'at'))).get('team') ?? '');

/** Returns the form inputs for a team and a member. */
async function membershipInputs(
  { tables, organization }: ObjectContext<TeamServices>,
  form: Form,
): Promise<readonly Input[]> {
  const [team, member] = [selectedTeam(form), field(form, 'member')];
  const [allTeams, members] = [
    await listRows(tables, teamRows, organization),
    await listMembers(tables, organization),
  ];
  return [
    {
      kind: 'choice',
      name: 'team',
      label: 'Team',
      required: true,
      options: [
        { value: '', label: 'Choose a team' },
        ...allTeams.map(({ id, name }) => ({ value: id, label: name, selected: id === team })),
      ],
    },
    {
      kind: 'choice',
      name: 'member',
      label: 'Member',
      required: true,
      options: [
        { value: '', label: 'Choose a member' },
        ...members.map((person) => ({
          value: person.id,
          label: personLine(person),
          selected: person.id === member,
        })),
      ],
    },
  ];
}

/** The members of all teams, or of a single team. */
const teamMembers = defineObject<TeamMember, TeamServices>({
  name: memberList,
  title: teamsTexts.later('membersOfTeams'),
  plural: 'members of teams',
  source: teamMemberRows,
  missing: () => missingTeamMember,
  nameOf: personLine,
  filters: {
    team: {
      where: (value) => (isRowId(value) ? sql`t.id = ${value}::bigint` : undefined),
      label: async (value, { tables, organization }) =>
        (await findRow(tables, teamRows, organization, value))?.name ?? 'deleted team',
    },
  },
  columns: [
    { title: 'Member', cell: personLines, by: 'lower(coalesce(u.name, u.email))' },
    { title: 'Team', cell: ({ team }) => ({ text: team }), by: 'lower(t.name)' },
  ],
  empty: 'No team has members.',
  actions: {
    add: {
      label: 'Add member',
      page: async (context, form) => ({
        kind: 'form',
        title: 'Add a member to a team',
        inputs: await membershipInputs(context, form),
        submit: 'Add member',
      }),
      done: { 'team-member-added': '{} added to the team.' },
      run: async ({ organization, actor, tables, transact }, form) => {
        if (field(form, 'team') === '') throw new UserError('choose a team');
        if (field(form, 'member') === '') throw new UserError('choose a member');
        const [team, user] = [idField(form, 'team'), idField(form, 'member')];
        await transact((transaction) => addTeamMember(transaction, actor, organization, team, user));
        const person = (await listMembers(tables, organization)).find(({ id }) => id === user);
        return { done: 'team-member-added', ...(person !== undefined && { name: personLine(person) }) };
      },
    },
  },
  rowActions: {
    remove: {
      label: 'Remove',
      page: ({ membership }, _form, { team, ...person }) => ({
        kind: 'confirm',
        title: `Remove ${personLine(person)} from ${team}?`,
        consequence: `This member immediately loses access to records that they see only through this team, but remains a member of ${membership.name}.`,
        submit: 'Remove from team',
      }),
      done: { 'team-member-removed': '{} removed from the team.' },
      run: ({ organization, actor, transact }, _form, { team_id, user_id }) =>
        transact((tables) => removeTeamMember(tables, actor, organization, team_id, user_id)),
    },
  },
});

/** Registers the pages for teams and their members. */
export const teamPages = (app: FastifyInstance, services: TeamServices): void =>
  addObjects(app, services, [teams, teamMembers]);
