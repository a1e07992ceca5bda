export const changes = [
  {
    kind: 'addColumns',
    table: 'crm_jobs',
    columns: { scheduled_for: { type: 'timestamptz', nullable: true } },
  },
  {
    kind: 'createIndex',
    table: 'crm_jobs',
    name: 'crm_jobs_scheduled',
    index: {
      kind: 'unique',
      keys: ['"organization_id"', '"resource"', '"action"', '"scheduled_for"'],
      where: '"scheduled_for" is not null',
    },
    distinct: true,
  },
];
