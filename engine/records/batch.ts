import type { TextRows } from '../database/index.ts';
import { errors, type FieldIssue, HttpError } from '../errors.ts';
import { ExactNumber, integerText } from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import type { Statement } from '../sql/index.ts';
import type { Body } from './body.ts';
import { arrayTexts, type BatchItem, type ItemColumn, type ItemTable, type ItemValues } from './items.ts';
import type { OperationPlan, OperationRequest, OperationResponse, Parts } from './operation.ts';
import { commonParameters, planRequest, rejectRequest, unknownParameters } from './requests.ts';
import { createYield } from './yield.ts';

/** Maximum number of records in a batch, and of values in its body. */
export const maxItems = 1000;
const maxValues = 100_000;
/** Maximum size of a batch body, in bytes. */
export const batchBytes = 8 * 1024 * 1024;

/** A plan to write many records in one statement. */
export interface BatchPlan extends OperationPlan, ItemValues {
  /** Whether nothing is written if any item fails. */
  readonly stops: boolean;
  /** Number of records in the request. */
  readonly size: number;
  /** Returns the location of an item in the body, by its number. */
  readonly place: (number: number) => string;
  /** Errors of items by number, starting at 1. */
  readonly failures: ReadonlyMap<number, HttpError>;
  /** Returns the values of the items with these numbers. */
  readonly columnsOf: (numbers: readonly number[]) => Promise<readonly string[]>;
}

/** The body of a batch, before its items are validated. */
export interface BatchEnvelope {
  readonly items: readonly unknown[];
  readonly stops: boolean;
  /** Names of the fields that existing records are matched by. */
  readonly match: readonly string[] | undefined;
}

/** Parses the body of a batch. @throws HttpError 400 with all issues of the body itself */
export function envelopeOf(
  request: OperationRequest,
  list: 'records' | 'ids',
  hasMatch = false,
): BatchEnvelope {
  for (const name of ['If-Match', 'If-None-Match']) {
    if (request.headers[name.toLowerCase()] !== undefined)
      throw errors.malformedHeader(name, 'cannot be sent with a batch because it applies to a single record');
  }
  const body = request.body(undefined, maxValues);
  const { [list]: items, on_error: onError = 'stop', match, ...more } = body;
  const problems: FieldIssue[] = unknownParameters(request, commonParameters);
  if (!Array.isArray(items) || items.length === 0 || items.length > maxItems)
    problems.push(parameterIssue(list, `must be a list of 1 to ${maxItems}`));
  if (onError !== 'stop' && onError !== 'continue')
    problems.push(parameterIssue('on_error', 'must be stop or continue'));
  const isMatch = match === undefined || (hasMatch && isNames(match));
  if (hasMatch && !isMatch) problems.push(parameterIssue('match', 'must be a list of fields'));
  if (request.strict) {
    const unknown = [...Object.keys(more), ...(match !== undefined && !hasMatch ? ['match'] : [])];
    problems.push(...unknown.map((key) => parameterIssue(key, 'is not a property of this body')));
  }
  rejectRequest(problems);
  return {
    items: items as readonly unknown[],
    stops: onError === 'stop',
    match: hasMatch && isNames(match) ? match : undefined,
  };
}

const isNames = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string');

/** Returns the item if it is an object. @throws HttpError 400 otherwise */
export function objectOf(value: unknown): Body {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof ExactNumber) {
    throw errors.invalidItem('must be an object');
  }
  return value as Body;
}

/** Returns the ID of an item as decimal text, or undefined if the value is not an int64. */
export const idOf = integerText;

/** Describes how the items of a batch are parsed. */
export interface BatchItemRules {
  readonly table: ItemTable;
  readonly place: BatchPlan['place'];
  /** Parses an item. @throws HttpError with all of its issues */
  readonly read: (value: unknown) => BatchItem;
  /** Returns a key that must be unique within the batch. */
  readonly key?: (item: BatchItem) => string;
  /** The error of items with the same key. */
  readonly sameKey?: HttpError;
}

/**
 * Validates the items of a batch, yielding to other requests regularly.
 * @throws HttpError 400 naming the invalid items, if the batch stops at errors
 */
export async function batchPlan(
  request: OperationRequest,
  { items, stops }: BatchEnvelope,
  { table, place, read, key, sameKey = errors.duplicateInBatch(['id']) }: BatchItemRules,
): Promise<BatchPlan> {
  const pause = createYield();
  const failures = new Map<number, HttpError>();
  const valid: (BatchItem | undefined)[] = [];
  const byKey = new Map<string, number[]>();
  for (const [index, value] of items.entries()) {
    await pause();
    try {
      const item = read(value);
      valid.push(item);
      const same = key?.(item);
      if (same !== undefined) byKey.set(same, [...(byKey.get(same) ?? []), index]);
    } catch (cause) {
      if (!(cause instanceof HttpError)) throw cause;
      valid.push(undefined);
      failures.set(index + 1, cause);
    }
  }
  for (const same of byKey.values()) {
    if (same.length === 1) continue;
    for (const index of same) {
      valid[index] = undefined;
      failures.set(index + 1, sameKey);
    }
  }
  const columnsOf = async (numbers: Iterable<number>) => {
    const columns: ItemColumn[] = [];
    for (const number of numbers) {
      await pause();
      table.add(columns, valid[number - 1]);
    }
    return arrayTexts(columns);
  };
  const columns = await columnsOf(valid.map((_, index) => index + 1));
  const plan = { ...planRequest(request), stops, size: items.length, place, columns, columnsOf };
  return withFailures({ ...plan, failures: new Map(), skipped: [] }, failures);
}

/** Returns the batch without more failed items. @throws HttpError 400 if it stops at errors */
export function withFailures<P extends BatchPlan>(plan: P, more: ReadonlyMap<number, HttpError>): P {
  const failures = new Map([...plan.failures, ...more]);
  if (plan.stops && failures.size > 0) throw itemsRefused(plan, failures);
  return { ...plan, failures, skipped: [...failures.keys()].map(String) };
}

/** Returns how a batch is split. @param bind binds the statement that writes its items */
export const partsOf = <P extends BatchPlan>(bind: (plan: P) => Statement): Parts<P> => ({
  numbers: ({ size, failures }) =>
    Array.from({ length: size }, (_, index) => index + 1).filter((number) => !failures.has(number)),
  statement: async (plan, numbers) =>
    bind({
      ...plan,
      stops: false,
      size: numbers.length,
      columns: await plan.columnsOf(numbers),
      failures: new Map(),
      skipped: [],
    }),
  without: withFailures,
});

/** Failed items, as the cause of an error, so that imports can report each line. */
export class ItemFailures extends Error {
  readonly failures: ReadonlyMap<number, HttpError>;
  constructor(failures: ReadonlyMap<number, HttpError>) {
    super('items failed');
    this.failures = failures;
  }
}

const itemsRefused = ({ place }: BatchPlan, failures: ReadonlyMap<number, HttpError>): HttpError =>
  errors.itemsRejected(
    new Map([...failures].sort(([a], [b]) => a - b).map(([number, error]) => [place(number), error])),
    new ItemFailures(failures),
  );

/**
 * Returns the response to a batch whose statement returns the results and the numbers of the items with missing records.
 * @throws HttpError 400 if records are missing and the batch stops at errors
 */
export function batchResponse(plan: BatchPlan, [row = []]: TextRows): OperationResponse {
  const [results, missing] = row;
  if (plan.stops && typeof missing === 'string') {
    const numbers = missing.split(',').map(Number);
    throw itemsRefused(plan, new Map(numbers.map((number) => [number, errors.notFound()])));
  }
  return { body: String(results) };
}
