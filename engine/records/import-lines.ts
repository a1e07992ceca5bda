import type { Database } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import {
  type ErrorReason,
  errors,
  type FieldIssue,
  fieldLimiter,
  HttpError,
  hintOf,
  reasonKey,
} from '../errors.ts';
import { type Field, lookupOf } from '../fields/index.ts';
import { ItemFailures } from './batch.ts';
import type { Body } from './body.ts';
import type { CreateBatchPlan } from './create.ts';
import { execute } from './execute.ts';
import { isBlankValue } from './indexes.ts';
import type { LineReader, ParsedLine } from './line-parsers.ts';
import type { Caller, OperationInput } from './operation.ts';
import type { CompiledOperations } from './operations.ts';
import { createYield } from './yield.ts';

/** Reason a record was not written. */
interface RejectedRecord {
  readonly error: string;
  readonly hint?: string;
  readonly code: string;
  readonly fields?: readonly FieldIssue[] | undefined;
  /** The constraint or trigger function that rejected the record. */
  readonly constraint?: string;
  /** Number of issues that were omitted from `fields`. */
  readonly more?: number | undefined;
  /** ID of the conflicting record, as a JSON number. */
  readonly existing_id?: object;
  readonly [reasonKey]?: ErrorReason | undefined;
}

/** The result of processing a record. */
type WriteOutcome = 'created' | 'updated' | RejectedRecord;

/** Writes records and returns the outcome of each. */
type WriteMany = (bodies: readonly Body[]) => Promise<readonly WriteOutcome[]>;

/** Options for an import's writes. */
export interface ImportWrites {
  readonly caller: Caller;
  readonly strict: boolean;
  /** Names of the unique fields that identify existing records; undefined if all records are new. */
  readonly match: readonly string[] | undefined;
  /** Whether a single failed record prevents all records from being written. */
  readonly stops: boolean;
  /** Whether records are only validated. */
  readonly isDryRun: boolean;
  /** See {@link OperationInput}. */
  readonly customFields?: OperationInput['customFields'];
}

/** Writes up to 1,000 records of an import in one statement, as a batch does. */
export const writeMany =
  (database: Database, { createBatch }: CompiledOperations, writes: ImportWrites): WriteMany =>
  async (bodies) => {
    const { caller, strict, match, stops, isDryRun, customFields } = writes;
    const itemErrors = new Map<number, HttpError>();
    const plan = await createBatch.plan({
      ...{ caller, strict, customFields, itemErrors },
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
      const { results } = JSON.parse(String(json)) as { results: Result[] };
      return results.map((result, index) => outcomeOf(result, itemErrors.get(index + 1)));
    } catch (cause) {
      if (!(cause instanceof HttpError && cause.cause instanceof ItemFailures)) throw cause;
      return resultsOf({ ...plan, failures: cause.cause.failures });
    }
  };

/** A batch's result for one record. */
interface Result {
  readonly status: number;
}

/** Returns the outcome of a batch's item. @param failure the item's error, if it failed */
function outcomeOf({ status }: Result, failure: HttpError | undefined): WriteOutcome {
  if (status === 201) return 'created';
  if (status === 200) return 'updated';
  if (failure === undefined) throw errors.internal(undefined);
  return toRejectedRecord(failure);
}

/** Returns the expected outcomes for a plan that was not executed. */
const resultsOf = ({ size, failures }: CreateBatchPlan): readonly WriteOutcome[] =>
  Array.from({ length: size }, (_, index) => {
    const failure = failures.get(index + 1);
    return failure === undefined ? 'created' : toRejectedRecord(failure);
  });

/** Converts an error to an entry of the import report. */
function toRejectedRecord(error: HttpError): RejectedRecord {
  const { message, code, extra } = error;
  const { fields, more, existingId, constraint } = extra;
  const hint = hintOf(extra);
  return {
    error: message,
    [reasonKey]: error[reasonKey],
    ...(hint !== undefined && { hint }),
    code,
    ...(fields && { fields }),
    ...(constraint !== undefined && { constraint }),
    ...(more !== undefined && { more }),
    ...(existingId !== undefined && { existing_id: JSON.rawJSON(existingId) }),
  };
}

/** A failed line of an import. */
interface FailedLine extends RejectedRecord {
  readonly line: number;
}

/** The result of an import. */
export interface ImportSummary {
  readonly created: number;
  readonly updated: number;
  readonly failed: number;
  /** Whether the import stopped at a failed line. If so, only the lines before it were written. */
  readonly stopped: boolean;
  readonly dry_run: boolean;
  /** CSV columns that do not name a writable field. */
  readonly ignored: readonly string[];
  /** The first failed lines, up to {@link maxReported}. */
  readonly lines: readonly FailedLine[];
  /** Whether more lines failed than `lines` contains. */
  readonly truncated: boolean;
}

/** Maximum number of lines per statement, and their maximum total size in bytes. */
const [maxLines, maxBytes] = [1000, 4 * 1024 * 1024];
/** Maximum number of failed lines in a report. */
const maxReported = 1000;
/**
 * Returns a record's unique keys as strings, one for each set of unique fields whose values are all present.
 */
export const keysOf = ({ uniques }: ResourceDefinition, record: Body): readonly string[] =>
  uniques.flatMap((unique) =>
    unique.some((field) => isBlankValue(record, field))
      ? []
      : [JSON.stringify(unique.map((field) => [field.name, comparableValue(field, record[field.name])]))],
  );

/** Returns a value that is equal for equal values of a unique field. */
const comparableValue = ({ comparison }: Field, value: unknown): unknown =>
  comparison !== undefined && typeof value === 'string' ? lookupOf(comparison).keyOf(value) : value;

/** The dependencies of {@link importLines}. */
interface ImportDependencies {
  readonly write: WriteMany;
  readonly keysOf: (record: Body) => readonly string[];
  readonly onProgress: (lines: number, summary: ImportSummary) => void;
}

/** Writes lines in order, as many per statement as possible. */
export async function importLines(
  lines: LineReader,
  { stops, isDryRun }: ImportWrites,
  { write, keysOf, onProgress }: ImportDependencies,
): Promise<ImportSummary> {
  const counts = { created: 0, updated: 0, failed: 0 };
  const failures: FailedLine[] = [];
  let batch: ParsedLine[] = [];
  let keys = new Set<string>();
  let size = 0;
  let lineCount = 0;
  let stopped = false;
  const pause = createYield();
  const limitFields = fieldLimiter();

  const flush = async (): Promise<void> => {
    const batchLines = batch;
    batch = [];
    keys = new Set();
    size = 0;
    const results = await (stops ? writeUntilFailure(batchLines, write) : writeEach(batchLines, write));
    for (const [index, result] of results.entries()) {
      lineCount++;
      if (result === 'created' || result === 'updated') {
        counts[result]++;
        continue;
      }
      counts.failed++;
      stopped = stops;
      const { number = 0 } = batchLines[index] ?? {};
      if (failures.length < maxReported) failures.push({ line: number, ...limitFields(result) });
    }
    onProgress(lineCount, report());
  };
  /** Adds a line to the batch and writes the batch if it is full or already contains the line's keys. */
  const add = async (line: ParsedLine): Promise<void> => {
    const lineKeys = line.record instanceof HttpError ? [] : keysOf(line.record);
    // A second record with the same key updates the first one, which must therefore be written first.
    if (lineKeys.some((key) => keys.has(key))) await flush();
    for (const key of lineKeys) keys.add(key);
    batch.push(line);
    size += line.size;
    if (batch.length === maxLines || size >= maxBytes) await flush();
  };
  const report = (): ImportSummary => ({
    ...counts,
    stopped,
    dry_run: isDryRun,
    ignored: lines.ignored,
    lines: failures,
    truncated: failures.length < counts.failed,
  });

  try {
    for await (const chunk of lines) {
      for (const line of chunk) {
        await pause();
        await add(line);
        if (stopped) return report();
      }
    }
    if (batch.length > 0) await flush();
    return report();
  } catch (cause) {
    if (!(cause instanceof HttpError) || lineCount === 0) throw cause;
    const { status, code, text, extra, [reasonKey]: reason } = cause;
    throw new HttpError(status, code, text, { ...extra, report: report() }, { cause: cause.cause, reason });
  }
}

const isValidLine = (line: ParsedLine): line is ParsedLine & { readonly record: Body } =>
  !(line.record instanceof HttpError);

/** Writes all valid lines. @returns the result of each line */
async function writeEach(lines: readonly ParsedLine[], write: WriteMany): Promise<readonly WriteOutcome[]> {
  const bodies = lines.filter(isValidLine).map(({ record }) => record);
  const outcomes = bodies.length === 0 ? [] : await write(bodies);
  let next = 0;
  return lines.flatMap(({ record }) =>
    record instanceof HttpError ? toRejectedRecord(record) : (outcomes[next++] ?? []),
  );
}

/** Writes the lines before the first failed line. @returns their results, followed by the failure, if any */
async function writeUntilFailure(
  lines: readonly ParsedLine[],
  write: WriteMany,
): Promise<readonly WriteOutcome[]> {
  const firstInvalid = lines.findIndex((line) => !isValidLine(line));
  const validLines = firstInvalid === -1 ? lines : lines.slice(0, firstInvalid);
  const results = await writeEach(validLines, write);
  const firstFailure = results.findIndex((result) => typeof result === 'object');
  if (firstFailure === -1) {
    const failure = lines[firstInvalid]?.record;
    return failure instanceof HttpError ? [...results, toRejectedRecord(failure)] : results;
  }
  // Nothing was written, but the lines before the failed one are valid, unless a concurrent write made
  // another line fail.
  const outcomes = await writeUntilFailure(validLines.slice(0, firstFailure), write);
  return outcomes.some((result) => typeof result === 'object')
    ? outcomes
    : [...outcomes, ...results.slice(firstFailure, firstFailure + 1)];
}
