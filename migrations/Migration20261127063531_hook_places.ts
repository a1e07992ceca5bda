export const changes = [
  {
    kind: 'createTable',
    table: 'crm_hook_places',
    columns: {
      organization_id: { type: 'bigint' },
      module: { type: 'text', collation: 'C' },
      epoch: { type: 'text', collation: 'C' },
      transaction: { type: 'xid8' },
      ledger_id: { type: 'bigint' },
      since: { type: 'timestamptz', default: 'now()' },
      leased_until: { type: 'timestamptz', default: 'now()' },
      attempts: { type: 'integer', default: '0' },
      next_at: { type: 'timestamptz', default: 'now()' },
      error: { type: 'text', collation: 'C', default: "''" },
    },
    primaryKey: { name: 'crm_hook_places_pkey', columns: ['organization_id', 'module'] },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_hook_places',
    name: 'crm_hook_places_organization_id_foreign',
    key: { columns: ['organization_id'], to: 'crm_organizations', toColumns: ['id'] },
  },
];
