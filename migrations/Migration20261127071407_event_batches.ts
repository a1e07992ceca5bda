export const changes = [
  {
    kind: 'addColumns',
    table: 'crm_event_subscriptions',
    columns: { batch_events: { type: 'integer', default: '0' }, batch_seconds: { type: 'integer', default: '0' } },
  },
  {
    kind: 'addColumns',
    table: 'crm_event_deliveries',
    columns: { batch_id: { type: 'bigint', nullable: true }, sealed_at: { type: 'timestamptz', nullable: true } },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_event_deliveries',
    name: 'crm_event_deliveries_batch_foreign',
    key: {
      columns: ['organization_id', 'batch_id'],
      to: 'crm_event_deliveries',
      toColumns: ['organization_id', 'id'],
      onDelete: 'cascade',
    },
  },
  {
    kind: 'createIndex',
    table: 'crm_event_deliveries',
    name: 'crm_event_deliveries_batch',
    index: { keys: ['"organization_id"', '"batch_id"'], where: '"batch_id" is not null' },
  },
  {
    kind: 'createIndex',
    table: 'crm_event_deliveries',
    name: 'crm_event_deliveries_batches',
    index: {
      keys: ['"organization_id"', '"subscription_id"', '"id"'],
      where: `"status" = 'waiting' and "action" = 'batch'`,
    },
  },
];
