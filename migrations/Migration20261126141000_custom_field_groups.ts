export const changes = [
  {
    kind: 'addColumns',
    table: 'crm_custom_fields',
    columns: { field_group: { type: 'text', collation: 'C', nullable: true } },
  },
];
