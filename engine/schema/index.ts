// Schema: migrations from the difference between two models; how a model is distributed on Citus.
// May import errors, fields, sql, definition, database, tables, compile.

export { type CitusKind, citusModel } from './citus.ts';
export {
  applyPending,
  assertMigrationsComplete,
  assertUpToDate,
  createMigration,
  entitiesOf,
  type Model,
  migrate,
} from './schema.ts';
