import type { Generated } from 'kysely';
import {
  defineTable,
  identity,
  memberTable,
  now,
  teamMemberTable,
  tenant,
  tenantLink,
  textColumn,
} from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_teams: {
      organization_id: string;
      id: Generated<string>;
      name: string;
      created_at: Generated<Date>;
    };
    crm_team_members: {
      organization_id: string;
      id: Generated<string>;
      team_id: string;
      user_id: string;
    };
  }
}

const teams = defineTable(
  'crm_teams',
  { ...tenant(), id: identity, name: textColumn, created_at: now },
  {
    uniques: [{ name: 'crm_teams_name', properties: ['organization_id_link', 'name'] }],
    placement: 'everywhere',
  },
);

const teamMembers = defineTable(
  teamMemberTable,
  {
    ...tenant(),
    id: identity,
    ...tenantLink(teamMemberTable, 'team', 'crm_teams', { ownColumns: ['team_id'], deleteRule: 'cascade' }),
    // A member who leaves the organization also leaves its teams.
    ...tenantLink(teamMemberTable, 'user', memberTable, {
      ownColumns: ['user_id'],
      referencedColumnNames: ['organization_id', 'user_id'],
      deleteRule: 'cascade',
    }),
  },
  {
    indexes: [
      {
        name: 'crm_team_members_team',
        kind: 'unique',
        keys: ['"organization_id"', '"team_id"', '"user_id"'],
      },
      { name: 'crm_team_members_user', keys: ['"organization_id"', '"user_id"', '"team_id"'] },
    ],
    // Stored on every database node, like the memberships to which it refers.
    placement: 'everywhere',
  },
);

/** Teams and their members. */
export const teamTables = [teams, teamMembers];
