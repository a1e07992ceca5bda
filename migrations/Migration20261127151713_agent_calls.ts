export const changes = [
  {
    kind: 'createTable',
    table: 'crm_agent_calls',
    columns: {
      organization_id: { type: 'bigint' },
      id: { type: 'bigint', identity: true },
      key_id: { type: 'bigint' },
      tool: { type: 'text', collation: 'C' },
      resource: { type: 'text', collation: 'C' },
      run: { type: 'text', collation: 'C', nullable: true },
      request_id: { type: 'text', collation: 'C' },
      records_read: { type: 'integer' },
      records_written: { type: 'integer' },
      at: { type: 'timestamptz', default: 'now()' },
    },
    primaryKey: { name: 'crm_agent_calls_pkey', columns: ['organization_id', 'id'] },
  },
  { kind: 'createIndex', table: 'crm_agent_calls', name: 'crm_agent_calls_at', index: { keys: ['"at"'] } },
  {
    kind: 'createIndex',
    table: 'crm_agent_calls',
    name: 'crm_agent_calls_key',
    index: { keys: ['"organization_id"', '"key_id"', '"at"'] },
  },
  {
    kind: 'createIndex',
    table: 'crm_agent_calls',
    name: 'crm_agent_calls_run',
    index: { keys: ['"organization_id"', '"run"'], where: '"run" is not null' },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_agent_calls',
    name: 'crm_agent_calls_key_foreign',
    key: {
      columns: ['organization_id', 'key_id'],
      to: 'crm_api_keys',
      toColumns: ['organization_id', 'id'],
      onDelete: 'cascade',
    },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_agent_calls',
    name: 'crm_agent_calls_organization_id_foreign',
    key: { columns: ['organization_id'], to: 'crm_organizations', toColumns: ['id'] },
  },
];
