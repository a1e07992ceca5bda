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
export {
  atOneMoment,
  attempts,
  readTransaction,
  runForId,
  type Tables,
  tablesOf,
  transaction,
} from './handle.ts';
export { displayName, singleLine } from './names.ts';
export {
  findOrganization,
  formerSlugs,
  organizationId,
  organizationSlugs,
  organizations,
  slugsOf,
} from './organizations.ts';
export * from './tables.ts';
