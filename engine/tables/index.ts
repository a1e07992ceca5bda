// Tables: how modules declare tables of their own and query them; organizations.
// May import errors, fields, sql, database.

export {
  bigint,
  boolean,
  identity,
  integer,
  link,
  now,
  placementOf,
  resourceColumns,
  resourcePaths,
  table,
  tablesOfPeople,
  tenant,
  tenantLink,
  text,
  time,
} from './columns.ts';
export { atOneMoment, runForId, type Tables, tablesOf, transaction } from './handle.ts';
export { displayName, singleLine } from './names.ts';
export { findOrganization, organizationId, organizationSlugs, organizations } from './organizations.ts';
export * from './tables.ts';
