export const changes = [
  {
    kind: 'raw',
    sql: 'create extension if not exists "btree_gin";',
    effects: { lock: 'none', touches: 'nothing', risks: [], says: 'does not read or write rows' },
  },
  {
    kind: 'raw',
    sql: 'create extension if not exists "pg_trgm";',
    effects: { lock: 'none', touches: 'nothing', risks: [], says: 'does not read or write rows' },
  },
  {
    kind: 'createIndex',
    table: 'accounts',
    name: 'accounts_owner_id_index',
    index: { keys: ['"organization_id"', '"owner_id"', 'left("name", 100)', '"id"'] },
  },
  {
    kind: 'createIndex',
    table: 'contacts',
    name: 'contacts_owner_id_index',
    index: { keys: ['"organization_id"', '"owner_id"', 'left("last_name", 100)', '"id"'] },
  },
  { kind: 'dropIndex', table: 'cases', name: 'cases_account_id_index' },
  { kind: 'dropIndex', table: 'cases', name: 'cases_contact_id_index' },
  {
    kind: 'createIndex',
    table: 'cases',
    name: 'cases_account_id_index',
    index: { keys: ['"organization_id"', '"account_id"', '"created_at"', '"id"'] },
  },
  {
    kind: 'createIndex',
    table: 'cases',
    name: 'cases_contact_id_index',
    index: { keys: ['"organization_id"', '"contact_id"', '"created_at"', '"id"'] },
  },
  {
    kind: 'createIndex',
    table: 'cases',
    name: 'cases_owner_id_index',
    index: { keys: ['"organization_id"', '"owner_id"', '"created_at"', '"id"'] },
  },
  {
    kind: 'createIndex',
    table: 'cases',
    name: 'cases_queue_id_index',
    index: { keys: ['"organization_id"', '"queue_id"', '"created_at"', '"id"'] },
  },
  {
    kind: 'createIndex',
    table: 'cases',
    name: 'cases_search_gin',
    index: { method: 'gin', keys: ['"organization_id"', '(("subject") collate "default") gin_trgm_ops'] },
  },
  {
    kind: 'createIndex',
    table: 'cases',
    name: 'cases_updated_at_index',
    index: { keys: ['"organization_id"', '"updated_at"', '"id"'] },
  },
  {
    kind: 'createIndex',
    table: 'opportunities',
    name: 'opportunities_owner_id_index',
    index: { keys: ['"organization_id"', '"owner_id"', '"created_at"', '"id"'] },
  },
  {
    kind: 'createIndex',
    table: 'opportunities',
    name: 'opportunities_search_gin',
    index: { method: 'gin', keys: ['"organization_id"', '(("name") collate "default") gin_trgm_ops'] },
  },
];
