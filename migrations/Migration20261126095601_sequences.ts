export const changes = [
  {
    kind: 'createTable',
    table: 'crm_sequences',
    columns: {
      organization_id: { type: 'bigint' },
      id: { type: 'bigint', identity: true },
      field: { type: 'text', collation: 'C' },
      period: { type: 'text', collation: 'C' },
      value: { type: 'bigint' },
    },
    primaryKey: { name: 'crm_sequences_pkey', columns: ['organization_id', 'id'] },
  },
  {
    kind: 'createIndex',
    table: 'crm_sequences',
    name: 'crm_sequences_field',
    index: { keys: ['"organization_id"', '"field"', '"period"'], kind: 'unique constraint' },
  },
];
