// Tables: declares and queries module tables, including organizations.
// May import errors, fields, sql, database.

export {
  bigintColumn,
  booleanColumn,
  declaredIndexes,
  declaredTriggers,
  declareIndexes,
  declareTriggers,
  defineTable,
  groupColumns,
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
export {
  inSnapshot,
  runForId,
  statementOf,
  type Tables,
  tablesOf,
  transaction,
} from './handle.ts';
export {
  insertMembersSql,
  isMemberSql,
  memberTable,
  referencedUserSql,
  teamMemberTable,
  teamSql,
  userTable,
} from './members.ts';
export { displayName, NameError, singleLine } from './names.ts';
export {
  findOrganization,
  formerSlugs,
  organizationId,
  organizationSlugs,
  organizations,
  phoneRegionIn,
  slugsOf,
} from './organizations.ts';
export {
  countRows,
  findRow,
  listRows,
  type RowSource,
} from './rows.ts';
export * from './tables.ts';
