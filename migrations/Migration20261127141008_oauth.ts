export const changes = [
  {
    kind: 'createTable',
    table: 'crm_oauth_clients',
    columns: {
      id: { type: 'text', collation: 'C' },
      name: { type: 'text', collation: 'C' },
      redirect_uris: { type: 'text', collation: 'C' },
      created_at: { type: 'timestamptz', default: 'now()' },
      last_used_at: { type: 'timestamptz', nullable: true },
    },
    primaryKey: { name: 'crm_oauth_clients_pkey', columns: ['id'] },
  },
  {
    kind: 'createTable',
    table: 'crm_connected_apps',
    columns: {
      organization_id: { type: 'bigint' },
      key_id: { type: 'bigint' },
      redirect_uri: { type: 'text', collation: 'C' },
      code_hash: { type: 'text', collation: 'C' },
      code_challenge: { type: 'text', collation: 'C' },
      code_expires_at: { type: 'timestamptz' },
      redeemed_at: { type: 'timestamptz', nullable: true },
      refresh_hash: { type: 'text', collation: 'C', nullable: true },
      expires_at: { type: 'timestamptz' },
      created_at: { type: 'timestamptz', default: 'now()' },
    },
    primaryKey: { name: 'crm_connected_apps_pkey', columns: ['organization_id', 'key_id'] },
  },
  {
    kind: 'addColumns',
    table: 'crm_api_keys',
    columns: {
      client_id: { type: 'text', collation: 'C', nullable: true },
      read_only: { type: 'boolean', default: 'false' },
    },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_connected_apps',
    name: 'crm_connected_apps_key_foreign',
    key: {
      columns: ['organization_id', 'key_id'],
      to: 'crm_api_keys',
      toColumns: ['organization_id', 'id'],
      onDelete: 'cascade',
    },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_connected_apps',
    name: 'crm_connected_apps_organization_id_foreign',
    key: { columns: ['organization_id'], to: 'crm_organizations', toColumns: ['id'] },
  },
];
