export const changes = [
  {
    kind: 'createTable',
    table: 'crm_teams',
    columns: {
      organization_id: { type: 'bigint' },
      id: { type: 'bigint', identity: true },
      name: { type: 'text', collation: 'C' },
      created_at: { type: 'timestamptz', default: 'now()' },
    },
    primaryKey: { name: 'crm_teams_pkey', columns: ['organization_id', 'id'] },
  },
  {
    kind: 'createIndex',
    table: 'crm_teams',
    name: 'crm_teams_name',
    index: { keys: ['"organization_id"', '"name"'], kind: 'unique constraint' },
  },
  {
    kind: 'createTable',
    table: 'crm_team_members',
    columns: {
      organization_id: { type: 'bigint' },
      id: { type: 'bigint', identity: true },
      team_id: { type: 'bigint' },
      user_id: { type: 'bigint' },
    },
    primaryKey: { name: 'crm_team_members_pkey', columns: ['organization_id', 'id'] },
  },
  {
    kind: 'createIndex',
    table: 'crm_team_members',
    name: 'crm_team_members_team',
    index: { kind: 'unique', keys: ['"organization_id"', '"team_id"', '"user_id"'] },
  },
  {
    kind: 'createIndex',
    table: 'crm_team_members',
    name: 'crm_team_members_user',
    index: { keys: ['"organization_id"', '"user_id"', '"team_id"'] },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_teams',
    name: 'crm_teams_organization_id_foreign',
    key: { columns: ['organization_id'], to: 'crm_organizations', toColumns: ['id'] },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_team_members',
    name: 'crm_team_members_organization_id_foreign',
    key: { columns: ['organization_id'], to: 'crm_organizations', toColumns: ['id'] },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_team_members',
    name: 'crm_team_members_team_foreign',
    key: {
      columns: ['organization_id', 'team_id'],
      to: 'crm_teams',
      toColumns: ['organization_id', 'id'],
      onDelete: 'cascade',
    },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_team_members',
    name: 'crm_team_members_user_foreign',
    key: {
      columns: ['organization_id', 'user_id'],
      to: 'crm_memberships',
      toColumns: ['organization_id', 'user_id'],
      onDelete: 'cascade',
    },
  },
];
