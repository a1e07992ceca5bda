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
   * Runs a statement that `takes` accepted.
   * @returns its rows; undefined if its group failed, for whatever reason: then nothing was written, and it has to run alone
   * @throws Error when the connection is lost: then nobody knows whether it was written
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
  /** Runs one compiled statement outside of a transaction, prepared if the driver supports it. */
  readonly run: (statement: Runnable) => Promise<TextRows>;
  /** Connections that short statements share; undefined if there are none. */
  readonly pipelines?: Pipelines | undefined;
}

/** Standbys of the database that reads may go to. */
export interface Replicas {
  /**
   * The replica for a read, if one is fit for it.
   * @param mayWrite whether the caller may write: then the replica must have everything that was acknowledged to
   *   anybody before this call, on any node; otherwise what the primary had at some moment within the configured lag
   */
  readonly find: (organization: string, mayWrite: boolean) => Promise<ReadServer | undefined>;
  /** Why each is left out, by its hosts and database; undefined for one that is used. */
  readonly status: () => Readonly<Record<string, string | undefined>>;
}

/** Connections of one kind. */
export interface ConnectionLoad {
  readonly pool: 'records' | 'lists' | 'shared' | 'writes';
  readonly inUse: number;
  readonly idle: number;
  /** Statements that wait for one of them. */
  readonly waiting: number;
  /** How many there may be. */
  readonly limit: number;
}

/** An open database. */
export interface Database extends ReadServer {
  readonly kind: 'embedded' | 'postgresql';
  /** Whether a running server has the embedded database, which is reached through that: its tables must not change. */
  readonly isServed?: boolean;
  /** MikroORM, for the platform's own tables and for migrations. */
  readonly orm: Orm;
  /** Schedules the statements of requests. */
  readonly admission: Admission;
  /** Connections for writes that are carried out together; undefined if there are none. */
  readonly groups?: WriteBatcher | undefined;
  /** How busy the connections to the primary are; absent where there are none. */
  readonly connections?: () => readonly ConnectionLoad[];
  /** Undefined where none are configured. */
  readonly replicas?: Replicas | undefined;
  /**
   * Called before records are created, with how many at least; undefined if nothing bounds them. A module may provide it.
   * @throws HttpError 403 if the organization may not have so many more
   */
  admitRecords?: (organization: string, count: number) => Promise<void> | undefined;
  /** Called with each reason why records of a batch were rejected by a rule of the operator's. A module may provide it. */
  reportRejection?: (requestId: string, cause: unknown) => void;
  /** Resolves when writes can no longer be stored, otherwise never. The process must end then. */
  readonly lost?: Promise<Error>;
  /**
   * Copies the embedded database, as it is at one moment, to a path where nothing is; whatever else wants the database waits as
   * long as copying its files takes. Undefined on PostgreSQL, where any transaction can see one moment.
   */
  readonly copyTo?: (folder: string) => Promise<void>;
  /** Closes every connection and releases the data folder. */
  readonly close: () => Promise<void>;
}
