export const changes = [
  {
    kind: 'addColumns',
    table: 'crm_users',
    columns: { language: { type: 'text', collation: 'C', nullable: true } },
  },
];
