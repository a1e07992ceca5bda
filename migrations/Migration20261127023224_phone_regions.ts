export const changes = [
  {
    kind: 'addColumns',
    table: 'crm_organizations',
    columns: { phone_region: { type: 'text', collation: 'C', nullable: true } },
  },
];
