export const changes = [
  {
    kind: 'createTable',
    table: 'crm_notes',
    columns: {
      organization_id: { type: 'bigint' },
      id: { type: 'bigint', identity: true },
      resource: { type: 'text', collation: 'C' },
      record_id: { type: 'bigint' },
      author_id: { type: 'bigint' },
      text: { type: 'text', collation: 'C' },
      created_at: { type: 'timestamptz', default: 'now()' },
      changed_at: { type: 'timestamptz', nullable: true },
    },
    primaryKey: { name: 'crm_notes_pkey', columns: ['organization_id', 'id'] },
  },
  {
    kind: 'createIndex',
    table: 'crm_notes',
    name: 'crm_notes_record',
    index: { keys: ['"organization_id"', '"resource"', '"record_id"', '"created_at"', '"id"'] },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_notes',
    name: 'crm_notes_organization_id_foreign',
    key: { columns: ['organization_id'], to: 'crm_organizations', toColumns: ['id'] },
  },
];
