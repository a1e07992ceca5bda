// Database: opens PGlite or PostgreSQL, schedules statements, enforces time limits, locks the data folder,
// and classifies driver errors.
// May import errors, config, sql.

export { type Address, describeAddress, describeHost, isAddress, parseAddress } from './address.ts';
export { type Admission, admitted } from './admission.ts';
export { withAdvisoryLock, withAdvisoryLockIfFree } from './advisory-lock.ts';
export { clusterSetting } from './cluster.ts';
export type { Database, ReadServer, Replicas, TextRows } from './database.ts';
export { type SchemaPart, type TableShape, type TableShapes, tableSections, tableShape } from './differ.ts';
export { hasRunningOwner } from './embedded-owner.ts';
export {
  databaseFailure,
  failureReason,
  foreignKeyViolation,
  isDatabaseError,
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
export { type ModelTable, migrationsTable, openModel, tablesOfModel } from './orm.ts';
export { openProbe, type Probe } from './probe.ts';
export {
  boundToRequest,
  RequestScope,
  runInRequest,
  runOutsideRequests,
  runShared,
} from './requests.ts';
export { TimeoutError, withTimeout } from './timeout.ts';
export { cacheCounts, ttlCache } from './ttl-cache.ts';
export { type DatabaseConfig, databaseVariables } from './variables.ts';
