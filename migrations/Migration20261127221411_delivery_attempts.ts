export const changes = [
  {
    kind: 'addColumns',
    table: 'crm_inbox',
    columns: { attempt_log: { type: 'text', collation: 'C', default: "''" } },
  },
  {
    kind: 'addColumns',
    table: 'crm_event_deliveries',
    columns: {
      url: { type: 'text', collation: 'C', default: "''" },
      request_body: { type: 'text', collation: 'C', default: "''" },
      response_body: { type: 'text', collation: 'C', default: "''" },
      attempt_log: { type: 'text', collation: 'C', default: "''" },
    },
  },
];
