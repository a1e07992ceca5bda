import { parseOwnJson } from '../fields/index.ts';
import type { Query } from '../query/index.ts';

/** JSON, as text or bytes. */
export type EncodedJson = string | Buffer;

/** A record. */
export interface RecordResult {
  readonly kind: 'record';
  readonly json: EncodedJson;
  /** Entity tag, without quotes; undefined for a partial record. */
  readonly tag?: string | undefined;
  /**
   * Whether the input's `noneMatch` contains the entity tag, in which case the caller already has this
   * version.
   */
  readonly isKnown?: boolean;
}

/** A created record. */
export interface CreatedResult {
  readonly kind: 'created';
  readonly json: EncodedJson;
  /** Entity tag, without quotes. */
  readonly tag: string;
  /** ID as a decimal string. */
  readonly id: string;
  /** Whether an earlier request with the same idempotency key created the record. */
  readonly isReplayed: boolean;
}

/** Confirms that a record was deleted. */
export interface DeletedResult {
  readonly kind: 'deleted';
}

/** A page of a list. */
export interface PageResult {
  readonly kind: 'page';
  /** The records as JSON, separated by commas. */
  readonly json: EncodedJson;
  /** Page number. */
  readonly page: bigint;
  /** Cursor of the next page; undefined on the last page. */
  readonly next: string | undefined;
  /** Cursor of the previous page; undefined on the first page, and on a page requested by its number. */
  readonly previous: string | undefined;
  /** Number of records on all pages; undefined if they were not counted. */
  readonly total: number | undefined;
  /** The list's parameters, with current field names. */
  readonly query: Query;
}

/** A page of the records that meet the conditions in a body. */
export interface QueryResult extends Omit<PageResult, 'kind'> {
  readonly kind: 'query';
}

/** The groups of an aggregate. */
export interface AggregateResult {
  readonly kind: 'aggregate';
  /** The groups as JSON, separated by commas. */
  readonly json: EncodedJson;
}

/** A page of a record's changes. */
export interface HistoryResult {
  readonly kind: 'history';
  /** The changes as JSON, newest first. */
  readonly changes: readonly EncodedJson[];
  /** Cursor of the next page; undefined on the last page. */
  readonly next: string | undefined;
}

/** The results of a batch. */
export interface BatchResult {
  readonly kind: 'batch';
  /** The results of all items, in order. */
  readonly json: EncodedJson;
  /** Whether an earlier request with the same idempotency key wrote the records. */
  readonly isReplayed: boolean;
}

/** The result of a bulk change. */
export interface BulkResult {
  readonly kind: 'bulk';
  /** Number of records that match or, if the caller confirmed them, were written. */
  readonly count: number;
  /** Confirms this number of records; undefined if the records were written. */
  readonly confirm: string | undefined;
}

/** The result of an operation. */
export type OperationResult =
  | RecordResult
  | CreatedResult
  | DeletedResult
  | PageResult
  | QueryResult
  | AggregateResult
  | HistoryResult
  | BatchResult
  | BulkResult;

/** A record's values by field name. Numbers that JavaScript would round are `ExactNumber` objects. */
export type RecordValues = Readonly<Record<string, unknown>>;

/** Returns a record's values. */
export const recordValues = ({ json }: { readonly json: EncodedJson }): RecordValues =>
  parseOwnJson(String(json)) as RecordValues;

/** Returns the values of a page's records. */
export const pageValues = ({ json }: PageResult): readonly RecordValues[] =>
  parseOwnJson(`[${String(json)}]`) as readonly RecordValues[];

/** The values of a change to a record. */
export interface ChangeValues {
  /** Identifies the change. */
  readonly position: string;
  readonly at: string;
  readonly actor: { readonly kind: string; readonly id: number | null; readonly name: string | null };
  /** The request that made the change. */
  readonly request_id: string | null;
  readonly action: 'create' | 'update' | 'delete' | 'trash' | 'restore' | 'purge';
  /** Names of the changed fields. */
  readonly changed: readonly string[];
  readonly before: RecordValues | null;
  readonly after: RecordValues | null;
}

/** Returns the values of changes. */
export const changeValues = ({ changes }: HistoryResult): readonly ChangeValues[] =>
  parseOwnJson(`[${changes.join(',')}]`) as readonly ChangeValues[];

// Response headers that several operations share, for the OpenAPI document and CORS.

/** Path of a created record. */
export const locationHeader = {
  Location: { description: 'Path of the new record.', schema: { type: 'string' } },
};

/** Marks a stored response to a request with `Idempotency-Key`. */
export const replayedHeader = {
  'Idempotency-Replayed': {
    description: '`true` if the `Idempotency-Key` was used before and this is the stored response.',
    schema: { type: 'string', const: 'true' },
  },
};

/** Entity tag of a record. */
export const etagHeader = {
  ETag: {
    description: 'Entity tag of this version of the record, for `If-Match` and `If-None-Match`.',
    schema: { type: 'string' },
  },
};
