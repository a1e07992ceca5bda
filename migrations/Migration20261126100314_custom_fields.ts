export const changes = [
  {
    kind: 'createTable',
    table: 'crm_custom_values',
    columns: {
      organization_id: { type: 'bigint' },
      resource: { type: 'text', collation: 'C' },
      record_id: { type: 'bigint' },
      field: { type: 'text', collation: 'C' },
      text_value: { type: 'text', collation: 'C', nullable: true },
      number_value: { type: 'numeric', nullable: true },
      boolean_value: { type: 'boolean', nullable: true },
      date_value: { type: 'date', nullable: true },
      time_value: { type: 'timestamptz', nullable: true },
    },
    primaryKey: { name: 'crm_custom_values_pkey', columns: ['organization_id', 'resource', 'record_id', 'field'] },
  },
  {
    kind: 'createIndex',
    table: 'crm_custom_values',
    name: 'crm_custom_values_boolean',
    index: {
      keys: ['"organization_id"', '"resource"', '"field"', '"boolean_value"', '"record_id"'],
      where: '"boolean_value" is not null',
    },
  },
  {
    kind: 'createIndex',
    table: 'crm_custom_values',
    name: 'crm_custom_values_date',
    index: {
      keys: ['"organization_id"', '"resource"', '"field"', '"date_value"', '"record_id"'],
      where: '"date_value" is not null',
    },
  },
  {
    kind: 'createIndex',
    table: 'crm_custom_values',
    name: 'crm_custom_values_number',
    index: {
      keys: ['"organization_id"', '"resource"', '"field"', '"number_value"', '"record_id"'],
      where: '"number_value" is not null',
    },
  },
  {
    kind: 'createIndex',
    table: 'crm_custom_values',
    name: 'crm_custom_values_text',
    index: {
      keys: ['"organization_id"', '"resource"', '"field"', 'left("text_value", 100)', '"record_id"'],
      where: '"text_value" is not null',
    },
  },
  {
    kind: 'createIndex',
    table: 'crm_custom_values',
    name: 'crm_custom_values_time',
    index: {
      keys: ['"organization_id"', '"resource"', '"field"', '"time_value"', '"record_id"'],
      where: '"time_value" is not null',
    },
  },
  {
    kind: 'createTable',
    table: 'crm_custom_fields',
    columns: {
      organization_id: { type: 'bigint' },
      id: { type: 'bigint', identity: true },
      resource: { type: 'text', collation: 'C' },
      name: { type: 'text', collation: 'C' },
      type: { type: 'text', collation: 'C' },
      options: { type: 'text', collation: 'C' },
      created_at: { type: 'timestamptz', default: 'now()' },
      deleted_at: { type: 'timestamptz', nullable: true },
    },
    primaryKey: { name: 'crm_custom_fields_pkey', columns: ['organization_id', 'id'] },
  },
  {
    kind: 'createIndex',
    table: 'crm_custom_fields',
    name: 'crm_custom_fields_name',
    index: { keys: ['"organization_id"', '"resource"', '"name"'], kind: 'unique constraint' },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_custom_values',
    name: 'crm_custom_values_organization_id_foreign',
    key: { columns: ['organization_id'], to: 'crm_organizations', toColumns: ['id'] },
  },
  {
    kind: 'addForeignKey',
    table: 'crm_custom_fields',
    name: 'crm_custom_fields_organization_id_foreign',
    key: { columns: ['organization_id'], to: 'crm_organizations', toColumns: ['id'] },
  },
];
