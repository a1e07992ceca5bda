// Schema: migrations from the difference between the compiled model and the one they were last made for.
// May import errors, config, definition, fields, compile, database, the platform's entities.

export {
  applyPending,
  assertMigrationsComplete,
  assertUpToDate,
  createMigration,
  entitiesOf,
  type Model,
  migrate,
} from './schema.ts';
