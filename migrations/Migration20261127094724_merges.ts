export const changes = [
  {
    kind: 'createTable',
    table: 'crm_merges',
    columns: {
      organization_id: { type: 'bigint' },
      resource: { type: 'text', collation: 'C' },
      record_id: { type: 'bigint' },
      from_id: { type: 'bigint' },
      removed: { type: 'text', collation: 'C', default: "''" },
      before: { type: 'text', collation: 'C' },
      after: { type: 'text', collation: 'C', default: "''" },
      moved: { type: 'jsonb', default: "'{}'" },
      merged_at: { type: 'timestamptz', default: 'now()' },
    },
    primaryKey: { name: 'crm_merges_pkey', columns: ['organization_id', 'resource', 'record_id', 'from_id'] },
  },
  {
    kind: 'createIndex',
    table: 'crm_merges',
    name: 'crm_merges_merged_at',
    index: { keys: ['"merged_at"'] },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_merges',
    name: 'crm_merges_organization_id_foreign',
    key: { columns: ['organization_id'], to: 'crm_organizations', toColumns: ['id'] },
  },
];
