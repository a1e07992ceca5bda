import type { MikroORM } from '@mikro-orm/core';
import type { AbstractSqlDriver, SqlEntityManager } from '@mikro-orm/postgresql';
import type { Cell, Lane, Statement } from '../sql/index.ts';
import type { Admission, AdmissionLane } from './admission.ts';

/**
 * Rows as arrays of strings. If the rows are records, they are combined into one row, or none if there are no
 * records. This row contains the records' JSON, separated by commas, then optionally the number of records
 * and values from the last record, and then additional columns.
 */
export type TextRows = readonly (readonly Cell[])[];

/** MikroORM with either driver. */
export type Orm = MikroORM<AbstractSqlDriver, SqlEntityManager>;

/** A statement to run. Without a lane, it is scheduled like a statement for one record. */
export type Runnable = Omit<Statement, 'lane'> & { readonly lane?: Lane };

/** Connections for short statements. Statements that fail or do not finish on them run in a pool. */
export interface Pipelines {
  /** Returns the lane of a statement, or undefined if it cannot be pipelined at the moment. */
  readonly laneOf: (statement: Runnable, organization: string) => AdmissionLane | undefined;
  /**
   * Runs a statement. Returns undefined if the statement failed or timed out, or the connection was lost.
   * Never rejects.
   */
  readonly run: (statement: Runnable, organization: string) => Promise<TextRows | undefined>;
  /** Returns the current load. */
  readonly load: () => ConnectionLoad;
  /** Closes each connection when it becomes idle, and opens no new ones for `ms` milliseconds. */
  readonly yieldFor: (ms: number) => void;
  /** Drops all connections. Later statements open new ones. */
  readonly renew: () => void;
  /** Closes all connections permanently. */
  readonly close: () => void;
}

/**
 * Executes concurrent writes of the same kind in batches, which costs the database far less than separate
 * writes.
 */
export interface WriteBatcher {
  /** Returns whether a statement can join a batch at the moment. */
  readonly accepts: (statement: Runnable, organization: string) => boolean;
  /**
   * Runs an accepted statement.
   * @returns its rows, or undefined if the batch failed without writing anything, in which case the statement
   * must run on its own
   * @throws Error if the connection was lost, in which case the outcome is unknown
   */
  readonly run: (statement: Runnable) => Promise<TextRows | undefined>;
  /**
   * Runs a write outside batches. If it fails or is slow, the organization's writes are excluded from batches
   * for a second.
   */
  readonly runAlone: (organization: string, work: () => Promise<TextRows>) => Promise<TextRows>;
  /** Returns the load of the batch connections. */
  readonly load: () => ConnectionLoad;
  /** Closes each connection when it becomes idle, and opens no new ones for `ms` milliseconds. */
  readonly yieldFor: (ms: number) => void;
  /** Drops all connections. Later statements open new ones. */
  readonly renew: () => void;
  /** Closes all connections permanently. */
  readonly close: () => void;
}

/** A server that runs statements for requests. */
export interface ReadServer {
  /** Runs a compiled statement without a transaction, prepared if the driver supports it. */
  readonly run: (statement: Runnable) => Promise<TextRows>;
  /** Pipelined connections for short statements, if any. */
  readonly pipelines?: Pipelines | undefined;
}

/** The replicas used for reads. */
export interface Replicas {
  /**
   * Returns a suitable replica for a read, or undefined if no replica is suitable.
   * @param canWrite whether the caller can write; if so, the replica must have every change that any node
   * acknowledged before this call, otherwise it can lag behind the primary up to the configured limit
   */
  readonly find: (organization: string, canWrite: boolean) => Promise<ReadServer | undefined>;
  /**
   * Returns the reason each replica is not in use, keyed by its hosts and database. The reason is undefined
   * for replicas in use.
   */
  readonly status: () => Readonly<Record<string, string | undefined>>;
}

/** Load of one kind of connection. */
export interface ConnectionLoad {
  readonly pool: 'records' | 'lists' | 'shared' | 'writes';
  readonly inUse: number;
  readonly idle: number;
  /** Statements waiting for a connection. */
  readonly waiting: number;
  /** Maximum number of connections. */
  readonly limit: number;
}

/** An open database. */
export interface Database extends ReadServer {
  readonly kind: 'embedded' | 'postgresql';
  /**
   * Whether the embedded database is accessed through a running server. If so, its tables must not be
   * changed.
   */
  readonly isServed?: boolean;
  /** MikroORM, for the platform's own tables and for migrations. */
  readonly orm: Orm;
  /** Schedules statements for requests. */
  readonly admission: Admission;
  /** Executes writes in batches; undefined if this is not supported. */
  readonly writeBatcher?: WriteBatcher | undefined;
  /** Returns the load of the connections to the primary; absent on PGlite. */
  readonly connections?: () => readonly ConnectionLoad[];
  /** Replicas for reads; undefined if none are configured. */
  readonly replicas?: Replicas | undefined;
  /**
   * Called for each operator-defined constraint or trigger that rejected records in a batch. Modules can set
   * this callback.
   */
  reportRejection?: (requestId: string, cause: unknown) => void;
  /**
   * Resolves if writes can no longer be stored, in which case the process must exit. Otherwise never settles.
   */
  readonly lost?: Promise<Error>;
  /**
   * Copies a snapshot of the embedded database to a path that must not exist. Other work waits while the
   * files are copied. Undefined on PostgreSQL, where a transaction provides a snapshot.
   */
  readonly copyTo?: (folder: string) => Promise<void>;
  /** Closes every connection and releases the data folder. */
  readonly close: () => Promise<void>;
}
