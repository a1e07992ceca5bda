import type { Database } from '../database/index.ts';
import { type FieldIssue, HttpError } from '../errors.ts';
import { parseExactJson } from '../fields/index.ts';
import { ItemFailures } from './batch.ts';
import type { Body } from './body.ts';
import type { CreateBatchPlan } from './create-batch.ts';
import { execute } from './execute.ts';
import type { Caller } from './operation.ts';
import type { CompiledOperations } from './operations.ts';

/** The reason why a record was not written. */
export interface RejectedRecord {
  readonly error: string;
  readonly code: string;
  readonly fields?: readonly FieldIssue[] | undefined;
  /** The constraint or trigger function that rejected the record. */
  readonly constraint?: string;
  /** Number of issues that were omitted from `fields`. */
  readonly more?: number | undefined;
  /** ID of the conflicting record, as a JSON number. */
  readonly existing_id?: object;
}

/** The result of processing a record. */
export type WriteOutcome = 'created' | 'updated' | RejectedRecord;

/** Writes records and returns the outcome of each. */
export type WriteMany = (bodies: readonly Body[]) => Promise<readonly WriteOutcome[]>;

/** Options for an import's writes. */
export interface ImportWrites {
  readonly caller: Caller;
  readonly strict: boolean;
  /** Names of the unique fields that identify existing records; undefined if all records are new. */
  readonly match: readonly string[] | undefined;
  /** Whether one failed record prevents all records from being written. */
  readonly stops: boolean;
  /** Whether records are only validated. */
  readonly isDryRun: boolean;
}

/** Writes up to 1,000 records of an import in one statement, like a batch. */
export const writeMany =
  (database: Database, { createBatch }: CompiledOperations, writes: ImportWrites): WriteMany =>
  async (bodies) => {
    const { caller, strict, match, stops, isDryRun } = writes;
    const plan = await createBatch.plan({
      caller,
      strict,
      body: { records: bodies, on_error: 'continue', match },
    });
    if (isDryRun) {
      const { rejection } = createBatch;
      if (rejection?.statement(plan) === undefined) return resultsOf(plan);
      const rows = await execute(database, { statement: rejection.statement }, plan);
      return resultsOf(rejection.remaining(plan, rows));
    }
    if (stops && plan.failures.size > 0) return resultsOf(plan);
    try {
      const rows = await execute(database, createBatch, { ...plan, stops });
      const { json } = createBatch.result(plan, rows);
      const { results } = parseExactJson(String(json), Number.POSITIVE_INFINITY) as { results: Result[] };
      return results.map(outcomeOf);
    } catch (cause) {
      if (!(cause instanceof HttpError && cause.cause instanceof ItemFailures)) throw cause;
      return resultsOf({ ...plan, failures: cause.cause.failures });
    }
  };

/** A batch's result for one record. */
type Result = { readonly status: number; readonly id?: unknown } & RejectedRecord;

function outcomeOf({ status, id: _, existing_id: existing, ...rejection }: Result): WriteOutcome {
  if (status === 201) return 'created';
  if (status === 200) return 'updated';
  return { ...rejection, ...(existing !== undefined && { existing_id: JSON.rawJSON(String(existing)) }) };
}

/** Returns the expected outcomes for a plan that was not executed. */
const resultsOf = ({ size, failures }: CreateBatchPlan): readonly WriteOutcome[] =>
  Array.from({ length: size }, (_, index) => {
    const failure = failures.get(index + 1);
    return failure === undefined ? 'created' : toRejectedRecord(failure);
  });

/** Converts an error to an entry of the import report. */
export function toRejectedRecord({
  message,
  code,
  extra: { fields, more, existingId, constraint },
}: HttpError): RejectedRecord {
  return {
    error: message,
    code,
    ...(fields && { fields }),
    ...(constraint !== undefined && { constraint }),
    ...(more !== undefined && { more }),
    ...(existingId !== undefined && { existing_id: JSON.rawJSON(existingId) }),
  };
}
