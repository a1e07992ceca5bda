import { btree_gin } from '@electric-sql/pglite/contrib/btree_gin';
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm';

/** PostgreSQL extensions required by search indexes, as loaded by the embedded database. */
export const embeddedExtensions = { btree_gin, pg_trgm };

/** Statements that create the extensions. They require the CREATE privilege on the database. */
export const extensionStatements: readonly string[] = Object.keys(embeddedExtensions).map(
  (name) => `create extension if not exists "${name}";`,
);
