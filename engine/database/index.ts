// Database: opens PGlite or PostgreSQL, schedules statements, enforces time limits, locks the data folder,
// and classifies driver errors.
// May import errors, config, sql.

export { type Address, describeAddress, describeHost, isAddress, parseAddress } from './address.ts';
export { withAdvisoryLock, withAdvisoryLockIfFree } from './advisory-lock.ts';
export { clusterSetting } from './cluster.ts';
export { coalesce } from './coalesce.ts';
export type {
  Database,
  DatabaseStatus,
  StatementContext,
  StatementRunner,
  TextRows,
  Trace,
} from './database.ts';
export { hasRunningOwner } from './embedded-owner.ts';
export { extensionStatements } from './extensions.ts';
export {
  databaseFailure,
  failureDetails,
  failureReason,
  foreignKeyViolation,
  framesOf,
  isDatabaseError,
  isDeadlock,
  isStatementTimeout,
  rejectingRule,
  sqlState,
  tooManyConnections,
  uniqueViolation,
  violatedConstraint,
} from './failures.ts';
export { createFolder } from './folder.ts';
export { connectionsOf, processShare } from './limits.ts';
export { isFolderLocked } from './lock.ts';
export { openDatabase } from './open.ts';
export { migrationsTable } from './orm.ts';
export { openProbe, type Probe } from './probe.ts';
export {
  boundToRequest,
  RequestScope,
  runInRequest,
  runOutsideRequests,
  runShared,
} from './requests.ts';
export {
  type CheckShape,
  type ColumnShape,
  type ForeignKeyShape,
  type StoredIndex,
  shapeSections,
  shapesOfEntities,
  type TableShape,
  type TableShapes,
  tableShape,
} from './shapes.ts';
export { TimeoutError, withTimeout } from './timeout.ts';
export { cacheCounts, type TtlCache, ttlCache } from './ttl-cache.ts';
export { type DatabaseConfig, databaseVariables } from './variables.ts';
