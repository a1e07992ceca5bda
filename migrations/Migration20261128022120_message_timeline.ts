export const changes = [
  {
    kind: 'createIndex',
    table: 'crm_messages',
    name: 'crm_messages_recipient',
    index: {
      keys: [
        '"organization_id"',
        `left(case when strpos("recipient", '@') > 0 then lower("recipient") else regexp_replace(regexp_replace("recipient", '\\D', '', 'g'), '^00', '') end, 100)`,
        '"created_at"',
        '"id"',
      ],
    },
  },
  {
    kind: 'createIndex',
    table: 'crm_received_messages',
    name: 'crm_received_messages_sender',
    index: {
      keys: [
        '"organization_id"',
        `left(case when strpos("sender", '@') > 0 then lower("sender") else regexp_replace(regexp_replace("sender", '\\D', '', 'g'), '^00', '') end, 100)`,
        '"received_at"',
        '"id"',
      ],
    },
  },
];
