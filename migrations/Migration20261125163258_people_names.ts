export const changes = [
  {
    kind: 'addColumns',
    table: 'crm_users',
    columns: { name: { type: 'text', collation: 'C', nullable: true } },
  },
  {
    kind: 'addColumns',
    table: 'crm_invites',
    columns: { name: { type: 'text', collation: 'C', nullable: true } },
  },
];
