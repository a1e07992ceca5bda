// Schema: creates and applies migrations from the difference between two models, and distributes a model on Citus.
// May import errors, fields, yaml, sql, definition, database, tables, records, compile.

export { type ApiChange, type ApiField, type ApiResource, apiOf } from './api.ts';
export { applyPending, assertUpToDate, migrate } from './apply.ts';
export { type CitusKind, citusModel } from './citus.ts';
export { assertCompatible } from './compatibility.ts';
export { tablesAfter } from './contents.ts';
export { contract } from './contract.ts';
export { assertMigrationsComplete, createMigration } from './create.ts';
export { migrationNames, readMigrationLog } from './migration-log.ts';
export { entitiesOf, type Model } from './model.ts';
export type { Intent } from './model-change.ts';
export { heartbeatMs, registerNode, runningNodes, viewsOf } from './nodes.ts';
export {
  countMs,
  type DatabaseState,
  type MigrationPlan,
  type PlannedCheck,
  type PlannedDrop,
  type PlannedStatement,
  planChanges,
  stateOf,
} from './plan.ts';
export { type Execute, executeIn, withDatabase } from './session.ts';
