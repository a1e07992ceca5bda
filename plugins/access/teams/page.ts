import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Database } from '../../../engine/database/index.ts';
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
  type Text,
  TranslatedError,
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

const { later } = teamsTexts;

interface TeamServices {
  readonly database: Database;
}

/** Value of the URL parameter that selects the list of members. */
const memberList = 'team-members';

/** Teams. Scopes with `my_team` contain the records of the members of a caller's teams. */
const teams = defineObject<Team, TeamServices>({
  name: 'teams',
  title: later('teams'),
  group: 'Access',
  icon: 'layers',
  plural: later('teamRows'),
  source: teamRows,
  missing: () => missingTeam,
  nameOf: ({ name }) => name,
  columns: [
    {
      title: later('name'),
      cell: ({ id, name }, { urlOf }) => ({
        text: name,
        href: linkWithParameters(urlOf(), {}, { show: memberList, team: id }),
      }),
      by: 'lower(t.name)',
    },
    { title: later('members'), cell: ({ members }) => ({ text: String(members.length), numeric: true }) },
  ],
  empty: later('noTeams'),
  menu: ({ id, name: team }, { urlOf, language }) => {
    const t = teamsTexts(language);
    return {
      links: [
        { label: t('addMember'), name: t('addMemberTo', { team }), href: `${urlOf('add')}?team=${id}` },
      ],
    };
  },
  actions: {
    create: {
      label: later('createTeam'),
      page: ({ language }, form) => {
        const t = teamsTexts(language);
        return {
          kind: 'form',
          title: t('createATeam'),
          inputs: [nameInput(t('name'), field(form, 'name'), t('nameHelp'))],
          submit: t('createTeam'),
        };
      },
      done: { 'team-created': later('teamCreated') },
      run: async ({ organization, actor, transact }, form) => {
        const name = field(form, 'name');
        const id = await transact((tables) => createTeam(tables, actor, organization, name));
        return { done: 'team-created', name: name.trim(), id };
      },
    },
  },
  rowActions: {
    rename: {
      label: later('rename'),
      accessibleName: (name) => later('renameName', { name }),
      page: ({ urlOf, language }, form, { id, name }) => {
        const t = teamsTexts(language);
        return {
          kind: 'form',
          title: t('renameName', { name }),
          inputs: [nameInput(t('name'), field(form, 'name') || name, t('renameHelp'))],
          submit: t('renameTeam'),
          danger: { label: t('deleteTeam'), href: `${urlOf('delete')}?id=${id}` },
        };
      },
      done: { 'team-renamed': later('teamRenamed') },
      run: async ({ organization, actor, transact }, form, { id }) => {
        const name = field(form, 'name');
        await transact((tables) => renameTeam(tables, actor, organization, id, name));
        return { done: 'team-renamed', name: name.trim(), id };
      },
    },
    delete: {
      label: later('delete'),
      accessibleName: (name) => later('deleteName', { name }),
      page: ({ membership, language }, _form, { name }) => {
        const t = teamsTexts(language);
        return {
          kind: 'confirm',
          title: t('deleteQuestion', { name }),
          consequence: t('deleteConsequence', { organization: membership.name }),
          submit: t('deleteTeam'),
        };
      },
      done: { 'team-deleted': later('teamDeleted') },
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
  { tables, organization, language }: ObjectContext<TeamServices>,
  form: Form,
): Promise<readonly Input<Text>[]> {
  const t = teamsTexts(language);
  const [team, member] = [selectedTeam(form), field(form, 'member')];
  const [allTeams, members] = [
    await listRows(tables, teamRows, organization),
    await listMembers(tables, organization),
  ];
  return [
    {
      kind: 'choice',
      name: 'team',
      label: t('team'),
      required: true,
      options: [
        { value: '', label: t('chooseATeam') },
        ...allTeams.map(({ id, name }) => ({ value: id, label: name, selected: id === team })),
      ],
    },
    {
      kind: 'choice',
      name: 'member',
      label: t('member'),
      required: true,
      options: [
        { value: '', label: t('chooseAMember') },
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
  title: later('membersOfTeams'),
  plural: later('memberRows'),
  source: teamMemberRows,
  missing: () => missingTeamMember,
  nameOf: personLine,
  filters: {
    team: {
      where: (value) => (isRowId(value) ? sql`t.id = ${value}::bigint` : undefined),
      label: async (value, { tables, organization, language }) =>
        (await findRow(tables, teamRows, organization, value))?.name ?? teamsTexts(language)('deletedTeam'),
    },
  },
  columns: [
    { title: later('member'), cell: personLines, by: 'lower(coalesce(u.name, u.email))' },
    { title: later('team'), cell: ({ team }) => ({ text: team }), by: 'lower(t.name)' },
  ],
  empty: later('noMembers'),
  actions: {
    add: {
      label: later('addMember'),
      page: async (context, form) => {
        const t = teamsTexts(context.language);
        return {
          kind: 'form',
          title: t('addToTeam'),
          inputs: await membershipInputs(context, form),
          submit: t('addMember'),
        };
      },
      done: { 'team-member-added': later('memberAdded') },
      run: async ({ organization, actor, tables, transact }, form) => {
        if (field(form, 'team') === '') throw new TranslatedError(later('chooseTeam'));
        if (field(form, 'member') === '') throw new TranslatedError(later('chooseMember'));
        const [team, user] = [idField(form, 'team'), idField(form, 'member')];
        await transact((transaction) => addTeamMember(transaction, actor, organization, team, user));
        const person = (await listMembers(tables, organization)).find(({ id }) => id === user);
        return { done: 'team-member-added', ...(person !== undefined && { name: personLine(person) }) };
      },
    },
  },
  rowActions: {
    remove: {
      label: later('remove'),
      accessibleName: (name) => later('removeName', { name }),
      page: ({ membership, language }, _form, { team, ...person }) => {
        const t = teamsTexts(language);
        return {
          kind: 'confirm',
          title: t('removeQuestion', { name: personLine(person), team }),
          consequence: t('removeConsequence', { organization: membership.name }),
          submit: t('removeMember'),
        };
      },
      done: { 'team-member-removed': later('memberRemoved') },
      run: ({ organization, actor, transact }, _form, { team_id, user_id }) =>
        transact((tables) => removeTeamMember(tables, actor, organization, team_id, user_id)),
    },
  },
});

/** Registers the pages for teams and their members. */
export const teamPages = (app: FastifyInstance, services: TeamServices): void =>
  addObjects(app, services, [teams, teamMembers]);
