export const changes = [
  {
    kind: 'createIndex',
    table: 'crm_event_deliveries',
    name: 'crm_event_deliveries_record',
    index: {
      keys: ['"organization_id"', '"object"', '"object_id"', '"at"', '"version"'],
      where: '"object_id" is not null',
    },
  },
];
