export const changes = [
  { kind: 'dropIndex', table: 'contacts', name: 'contacts_email_index' },
  {
    kind: 'createIndex',
    table: 'contacts',
    name: 'contacts_email_lookup',
    index: { keys: ['"organization_id"', 'left(lower("email"), 100)', 'left("last_name", 100)', '"id"'] },
  },
  {
    kind: 'createIndex',
    table: 'contacts',
    name: 'contacts_phone_lookup',
    index: {
      keys: [
        '"organization_id"',
        `left(regexp_replace(regexp_replace("phone", '\\D', '', 'g'), '^00', ''), 100)`,
        'left("last_name", 100)',
        '"id"',
      ],
    },
  },
];
