import type { MikroORM } from '@mikro-orm/core';
import type { AbstractSqlDriver, SqlEntityManager } from '@mikro-orm/postgresql';
import type { Cell, Lane, Statement } from '../sql/index.ts';
import type { Admission, AdmissionLane, AdmissionLimits, AdmissionLoad } from './admission.ts';

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

/** Measurements of a request's statements. */
export interface Trace {
  /** Lane of the last statement. */
  lane: Lane | undefined;
  /** Total duration of all statements, including time spent waiting for a slot, in milliseconds. */
  statementMs: number;
  /** The first statements, in order; absent if tracing is disabled. */
  readonly statements?: TracedStatement[] | undefined;
}

/** A statement executed for a request, including its wait for a slot. */
interface TracedStatement {
  /** The statement's name; empty if it is unnamed and therefore planned on each execution. */
  readonly name: string;
  readonly lane: Lane;
  /** Start time in milliseconds since the Unix epoch, and duration in milliseconds. */
  readonly at: number;
  readonly ms: number;
}

/** The caller of a statement that accesses records. */
export interface StatementContext {
  /** ID of the organization whose limits apply. */
  readonly organization: string;
  /**
   * `write` uses the primary. A `read` can use a replica that has every change that any node acknowledged
   * before the call, and a `delayed read` one that lags behind the primary up to the configured limit.
   */
  readonly access: 'write' | 'read' | 'delayed read';
  /** The trace to which the statement is added, if any. */
  readonly trace?: Trace | undefined;
}

/** The organization and lane in which work is scheduled. */
export interface WorkContext {
  readonly organization: string;
  readonly lane: 'batch' | 'scan' | 'export' | 'stream';
}

/** The state of a database's connections. */
export interface DatabaseStatus extends AdmissionLoad {
  /** Load of the connections to the primary; empty on PGlite. */
  readonly connections: readonly ConnectionLoad[];
  /**
   * The reason each replica is not in use, by its hosts and database. The reason is undefined for replicas in
   * use. Undefined if no replicas are configured.
   */
  readonly replicas: Readonly<Record<string, string | undefined>> | undefined;
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

/** An open database, which schedules statements and chooses their servers and connections. */
export interface Database extends Pick<Admission, 'hold'> {
  readonly kind: 'embedded' | 'postgresql';
  /**
   * Whether the embedded database is accessed through a running server. If so, its tables must not be
   * changed.
   */
  readonly isServed?: boolean;
  /** MikroORM, for the platform's own tables and for migrations. */
  readonly orm: Orm;
  /**
   * Runs a compiled statement without a transaction, prepared if the driver supports it. Without a context,
   * it is scheduled like other work without one.
   * @throws HttpError see {@link Admission.run}; otherwise the driver's error
   */
  readonly run: (statement: Runnable, context?: StatementContext) => Promise<TextRows>;
  /**
   * Runs other work, for example a transaction. Without a context, the work belongs to the organization of
   * the current request. Work outside requests, and work that already has a slot, then runs immediately.
   * @throws HttpError see {@link Admission.run}
   */
  readonly schedule: <T>(work: () => Promise<T>, context?: WorkContext) => Promise<T>;
  /**
   * Runs compiled statements in one transaction on the primary, on a single connection. The transaction is rolled back
   * if the work rejects.
   * @throws HttpError see {@link Admission.run}; otherwise the error of the work or the driver
   */
  readonly atomically: <T>(
    work: (run: StatementRunner) => Promise<T>,
    context: StatementContext & { readonly lane: 'write' | 'batch' },
  ) => Promise<T>;
  /** Returns the current state. */
  readonly status: () => DatabaseStatus;
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

/** An open database before its statements are scheduled. */
export interface Servers
  extends Omit<Database, 'run' | 'schedule' | 'atomically' | 'hold' | 'status' | 'reportRejection'> {
  /** Limits for the scheduling of statements. */
  readonly limits: AdmissionLimits;
  readonly primary: Primary;
  /**
   * Connections that run concurrent writes of the same kind in batches, which costs the primary far less than
   * separate writes; undefined if this is not supported.
   */
  readonly writeBatcher?: SharedConnections | undefined;
  /** Replicas for reads; undefined if none are configured. */
  readonly replicas?: Replicas | undefined;
  readonly connections?: () => readonly ConnectionLoad[];
}

/** Runs a statement. */
export type StatementRunner = (statement: Runnable) => Promise<TextRows>;

/** A server that runs statements. */
export interface Server {
  /** Runs a statement on a pooled connection. */
  readonly run: StatementRunner;
  /** Pipelined connections for short reads, if any. */
  readonly pipelines?: SharedConnections | undefined;
}

/** The server that accepts writes. */
export interface Primary extends Server {
  /** Runs work in a transaction on one connection, and rolls it back if the work rejects. */
  readonly transaction: <T>(work: (run: StatementRunner) => Promise<T>) => Promise<T>;
}

/** Connections that run several statements at a time. Statements that fail on them run in a pool. */
export interface SharedConnections {
  /** Returns the lane of a statement, or undefined if it must run in a pool at the moment. */
  readonly laneOf: (statement: Runnable, organization: string) => AdmissionLane | undefined;
  /**
   * Runs a statement.
   * @returns its rows, or undefined if nothing was written and the statement must run in a pool
   * @throws Error if the connection was lost during a write, whose outcome is unknown
   */
  readonly run: (statement: Runnable, organization: string) => Promise<TextRows | undefined>;
  /** Runs a statement that failed on these connections in a pool. */
  readonly runAlone: (organization: string, runInPool: () => Promise<TextRows>) => Promise<TextRows>;
  /** Returns the current load. */
  readonly load: () => ConnectionLoad;
  /** Closes each connection when it becomes idle, and opens no new ones for `ms` milliseconds. */
  readonly yieldFor: (ms: number) => void;
  /** Drops all connections. Later statements open new ones. */
  readonly renew: () => void;
  /** Closes all connections permanently. */
  readonly close: () => void;
}

/** The replicas used for reads. */
export interface Replicas {
  /**
   * Returns a suitable replica for a read, or undefined if no replica is suitable.
   * @param access see {@link StatementContext}
   */
  readonly find: (organization: string, access: StatementContext['access']) => Promise<Server | undefined>;
  /** See {@link DatabaseStatus}. */
  readonly status: () => NonNullable<DatabaseStatus['replicas']>;
}
