import type { MikroORM } from '@mikro-orm/core';
import type { AbstractSqlDriver, SqlEntityManager } from '@mikro-orm/postgresql';
import type { Lane, Statement } from '../sql/index.ts';
import type { Admission } from './admission.ts';

/**
 * Rows as arrays of text. For a statement whose rows are records, one row: their JSON, with commas between, then the
 * further columns of the last one; no row if there is no record.
 */
export type Rows = readonly (readonly (string | Buffer | null)[])[];

/** MikroORM on either driver. */
export type Orm = MikroORM<AbstractSqlDriver, SqlEntityManager>;

/** A statement to run; without a lane it counts as one that touches one record. */
export type Runnable = Omit<Statement, 'lane'> & { readonly lane?: Lane };

/** An open database. */
export interface Database {
  readonly kind: 'embedded' | 'postgresql';
  /** MikroORM, for the platform's own tables and for migrations. */
  readonly orm: Orm;
  /** Schedules the statements of requests. */
  readonly admission: Admission;
  /** Runs one compiled statement outside of a transaction, prepared if the driver supports it. */
  readonly run: (statement: Runnable) => Promise<Rows>;
  /** Resolves when writes can no longer be stored, otherwise never. The process must end then. */
  readonly lost?: Promise<Error>;
  /** Closes every connection and releases the data folder. */
  readonly close: () => Promise<void>;
}
