import type { MikroORM } from '@mikro-orm/core';
import type { AbstractSqlDriver, SqlEntityManager } from '@mikro-orm/postgresql';
import type { Lane, Statement } from '../sql/index.ts';
import type { Admission, AdmissionLane } from './admission.ts';

/**
 * Rows as arrays of text. A statement whose rows are records yields one row: their JSON separated by commas, then, if
 * requested, the number of rows and values of the last one, then additional columns; or no row without records.
 */
export type TextRows = readonly (readonly (string | Buffer | null)[])[];

/** MikroORM on either driver. */
export type Orm = MikroORM<AbstractSqlDriver, SqlEntityManager>;

/** A statement to run. Without a lane, it counts as touching one record. */
export type Runnable = Omit<Statement, 'lane'> & { readonly lane?: Lane };

/** Connections for statements known to be short. Statements that they do not accept or finish run in a pool. */
export interface Pipelines {
  /** Returns the lane that a statement needs, or undefined if it is not accepted at the moment. */
  readonly turn: (statement: Runnable, organization: string) => AdmissionLane | undefined;
  /** Runs a statement. Returns undefined if it failed, was late or lost its connection. Never rejects. */
  readonly run: (statement: Runnable, organization: string) => Promise<TextRows | undefined>;
  /** Returns the current load. */
  readonly load: () => ConnectionLoad;
  /** Closes each connection when it is idle, and opens none for this time, in milliseconds. */
  readonly yieldFor: (ms: number) => void;
  /** Drops all connections; the next statements open new ones. */
  readonly renew: () => void;
  /** Closes all connections permanently. */
  readonly close: () => void;
}

/** Executes concurrent writes of the same kind in batches, which costs the database a fraction. */
export interface WriteBatcher {
  /** Whether a statement can join a batch at the moment. */
  readonly takes: (statement: Runnable, organization: string) => boolean;
  /**
   * Runs a statement accepted by `takes`.
   * @returns its rows, or undefined if its batch failed; nothing was written then, and the statement must run alone
   * @throws Error if the connection is lost, so that it is unknown whether the write happened
   */
  readonly run: (statement: Runnable) => Promise<TextRows | undefined>;
  /** Runs a write that must run alone. If it fails or is slow, its organization's writes join no batches for a second. */
  readonly alone: (organization: string, work: () => Promise<TextRows>) => Promise<TextRows>;
  /** Returns the connections' load. */
  readonly load: () => ConnectionLoad;
  /** Closes each connection when it is idle, and opens none for this time, in milliseconds. */
  readonly yieldFor: (ms: number) => void;
  /** Drops all connections; the next statements open new ones. */
  readonly renew: () => void;
  /** Closes all connections permanently. */
  readonly close: () => void;
}

/** A server on which statements of requests run. */
export interface ReadServer {
  /** Runs one compiled statement without a transaction, prepared if the driver supports it. */
  readonly run: (statement: Runnable) => Promise<TextRows>;
  /** Pipelined connections for short statements, if any. */
  readonly pipelines?: Pipelines | undefined;
}

/** Replicas that can serve reads. */
export interface Replicas {
  /**
   * Returns a suitable replica for a read, if there is one.
   * @param mayWrite whether the caller can write: the replica must then have everything acknowledged to any client before
   *   this call, on any node; otherwise a state of the primary within the configured lag suffices
   */
  readonly find: (organization: string, mayWrite: boolean) => Promise<ReadServer | undefined>;
  /** Why each replica is not used, by its hosts and database; undefined if it is used. */
  readonly status: () => Readonly<Record<string, string | undefined>>;
}

/** Load of one kind of connections. */
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
  /** Whether the embedded database is reached through a running server; its tables must not change then. */
  readonly isServed?: boolean;
  /** MikroORM, for the platform's own tables and for migrations. */
  readonly orm: Orm;
  /** Schedules the statements of requests. */
  readonly admission: Admission;
  /** Executes writes in batches; undefined if this is not supported. */
  readonly groups?: WriteBatcher | undefined;
  /** Load of the connections to the primary; absent on PGlite. */
  readonly connections?: () => readonly ConnectionLoad[];
  /** Replicas; undefined if none are configured. */
  readonly replicas?: Replicas | undefined;
  /**
   * Called before records are created, with their minimum number. A module can provide it; undefined without quotas.
   * @throws HttpError 403 if the organization's quota would be exceeded
   */
  admitRecords?: (organization: string, count: number) => Promise<void> | undefined;
  /** Called with each reason why records of a batch were rejected by a rule of the operator's. A module may provide it. */
  reportRejection?: (requestId: string, cause: unknown) => void;
  /** Resolves when writes can no longer be stored, and the process must end. Otherwise it never settles. */
  readonly lost?: Promise<Error>;
  /**
   * Copies a snapshot of the embedded database to a path that must not exist. Other work waits while the files are copied.
   * Undefined on PostgreSQL, where a transaction can provide a snapshot.
   */
  readonly copyTo?: (folder: string) => Promise<void>;
  /** Closes every connection and releases the data folder. */
  readonly close: () => Promise<void>;
}
