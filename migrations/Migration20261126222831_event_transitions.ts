export const changes = [
  {
    kind: 'addColumns',
    table: 'crm_event_subscriptions',
    columns: {
      filter_when: { type: 'text', collation: 'C', default: "'matches'" },
      transitions: { type: 'text', collation: 'C', default: "''" },
    },
  },
];
