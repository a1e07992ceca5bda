// Database: opens PGlite or PostgreSQL; whose turn it is; time limits; the lock of the data folder; what a driver's error means.
// May import errors, config, sql.

export { type Address, describeAddress, describeHost, isAddress, parseAddress } from './address.ts';
export type { Admission } from './admission.ts';
export { connectionsOf, shareOf } from './bounds.ts';
export { clusterSetting } from './cluster.ts';
export type { Database, ReadingServer, Replicas, Rows } from './database.ts';
export { type Part, sections, shapeOf, type TableShape, type TableShapes } from './differ.ts';
export { exclusively, ifFree } from './exclusive.ts';
export {
  databaseFailure,
  failureReason,
  foreignKeyViolation,
  isDatabaseError,
  ranTooLong,
  rejectingRule,
  sqlState,
  uniqueViolation,
  violatedConstraint,
} from './failures.ts';
export { makeFolder } from './folder.ts';
export { isInUse } from './lock.ts';
export { openDatabase } from './open.ts';
export { type ModelTable, migrationsTable, openModel, tablesOfModel } from './orm.ts';
export { openProbe, type Probe } from './probe.ts';
export {
  admitted,
  boundToRequest,
  RequestScope,
  runInRequest,
  runOutsideRequests,
  runShared,
} from './requests.ts';
export { isServed } from './served.ts';
export { cacheCounts, ttlCache } from './ttl-cache.ts';
export { type DatabaseConfig, databaseVariables } from './variables.ts';
export { TooLong, within } from './within.ts';
