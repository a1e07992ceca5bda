export const changes = [
  { kind: 'addColumns', table: 'crm_api_keys', columns: { proposes: { type: 'boolean', default: 'false' } } },
];
