export const changes = [
  {
    kind: 'addColumns',
    table: 'crm_api_keys',
    columns: { on_behalf_of_id: { type: 'bigint', nullable: true } },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_api_keys',
    name: 'crm_api_keys_on_behalf_of_foreign',
    key: {
      columns: ['organization_id', 'on_behalf_of_id'],
      to: 'crm_memberships',
      toColumns: ['organization_id', 'user_id'],
      onDelete: 'cascade',
    },
  },
];
