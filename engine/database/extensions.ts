import { btree_gin } from '@electric-sql/pglite/contrib/btree_gin';
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm';

/** Extensions of PostgreSQL that indexes for searching need, as the embedded database loads them. */
export const embeddedExtensions = { btree_gin, pg_trgm };

/** Statements that create them. Whoever may create objects in a database may create these. */
export const extensionStatements: readonly string[] = Object.keys(embeddedExtensions).map(
  (name) => `create extension if not exists "${name}";`,
);

/** Statements with those before them that create the extensions they need. */
export const withExtensions = (statements: string): string =>
  statements.includes('gin_trgm_ops') ? [...extensionStatements, statements].join('\n') : statements;
