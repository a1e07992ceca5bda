// Schema: migrations from the difference between two models.
// May import errors, fields, definition, database, compile.

export {
  applyPending,
  assertMigrationsComplete,
  assertUpToDate,
  createMigration,
  entitiesOf,
  type Model,
  migrate,
} from './schema.ts';
