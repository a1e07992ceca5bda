// Tables: how modules declare tables of their own and query them; organizations.
// May import errors, fields, sql, database.

export {
  bigintColumn,
  booleanColumn,
  defineTable,
  identity,
  integerColumn,
  link,
  now,
  personalDataTables,
  placementOf,
  resourceColumns,
  resourcePaths,
  tenant,
  tenantLink,
  textColumn,
  timestampColumn,
} from './columns.ts';
export { inSnapshot, runForId, type Tables, tablesOf, transaction } from './handle.ts';
export { displayName } from './names.ts';
export { findOrganization, organizationId, organizationSlugs, organizations } from './organizations.ts';
export * from './tables.ts';
