export const changes = [
  {
    kind: 'addColumns',
    table: 'crm_event_subscriptions',
    columns: { format: { type: 'text', collation: 'C', default: "'standard'" } },
  },
];
