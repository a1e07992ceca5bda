import type { TextRows } from '../database/index.ts';
import { errorJson, errors, type FieldIssue, fieldLimiter, formatCount, HttpError } from '../errors.ts';
import { ExactNumber, integerText } from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import {
  cell,
  type Placeholder,
  type Prepared,
  prepare,
  record,
  rowDecoder,
  type Statement,
} from '../sql/index.ts';
import type { Assignment } from './assignments.ts';
import type { Body } from './body.ts';
import type { BatchItem, ItemColumn, ItemTable, ItemValues } from './items.ts';
import type {
  BatchSplitter,
  BodyInput,
  CreateInput,
  ExplainRejection,
  OperationContext,
  OperationInput,
  OperationPlan,
} from './operation.ts';
import type { RejectionFinder } from './rejections.ts';
import { basePlan, commonParameters, rejectRequest, unknownParameters } from './requests.ts';
import type { BatchResult } from './results.ts';
import { returningSql, visibleSql } from './rows.ts';
import { effectsOf, tableOf, updateOf } from './statements.ts';
import { unknownProperty } from './unknown-names.ts';
import { createYield } from './yield.ts';

/** Maximum number of records in a batch. */
export const maxItems = 1000;
/** Size limits for a batch request's body. */
export const batchLimits = { maxBytes: 8 * 1024 * 1024, maxValues: 100_000 } as const;

/** Sentence with the limits of a batch of records, for API descriptions. */
export const batchLimitText = `Up to ${formatCount(maxItems)} records and ${batchLimits.maxBytes / 1024 / 1024} MiB.`;

/** A plan that writes many records in one statement. */
export interface BatchPlan extends OperationPlan, ItemValues {
  /** Whether a single failed item prevents all items from being written. */
  readonly stops: boolean;
  /** Number of records in the request. */
  readonly size: number;
  /** Returns an item's location in the body. Item numbers start at 1. */
  readonly location: (number: number) => string;
  /** Errors by item index. Indexes start at 1. */
  readonly failures: ReadonlyMap<number, HttpError>;
  /** See {@link CreateInput}. */
  readonly itemErrors?: CreateInput['itemErrors'];
  /** Returns the column values of the items at these indexes. */
  readonly columnsOf: (numbers: readonly number[]) => Promise<ItemValues['columns']>;
}

/** The body of a batch, before its items are validated. */
interface BatchEnvelope {
  readonly items: readonly unknown[];
  readonly stops: boolean;
  /** Names of the fields that identify existing records. */
  readonly match: readonly string[] | undefined;
}

/** Parses the body of a batch. @throws HttpError 400 with all issues found outside the items */
export function envelopeOf(
  input: BodyInput,
  list: 'records' | 'ids',
  { hasMatch = false, max = maxItems }: { readonly hasMatch?: boolean; readonly max?: number } = {},
): BatchEnvelope {
  const { [list]: items, on_error: onError = 'stop', match, ...rest } = input.body;
  const issues: FieldIssue[] = unknownParameters(input, commonParameters);
  if (!Array.isArray(items) || items.length === 0 || items.length > max)
    issues.push(parameterIssue(list, `must be a list of 1 to ${max}`));
  if (onError !== 'stop' && onError !== 'continue')
    issues.push(parameterIssue('on_error', 'must be stop or continue'));
  const isValidMatch = match === undefined || (hasMatch && isNames(match));
  if (hasMatch && !isValidMatch) issues.push(parameterIssue('match', 'must be a list of fields'));
  if (input.strict) {
    const unknownKeys = [...Object.keys(rest), ...(match !== undefined && !hasMatch ? ['match'] : [])];
    issues.push(...unknownKeys.map(unknownProperty([list, 'on_error', ...(hasMatch ? ['match'] : [])])));
  }
  rejectRequest(issues);
  return {
    items: items as readonly unknown[],
    stops: onError === 'stop',
    match: hasMatch && isNames(match) ? match : undefined,
  };
}

const isNames = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.length > 0 && value.every((name) => typeof name === 'string');

/** Returns the item if it is an object. @throws HttpError 400 otherwise */
export function objectOf(value: unknown): Body {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof ExactNumber) {
    throw errors.invalidItem('must be an object');
  }
  return value as Body;
}

/** Returns the ID of an item as a decimal string, or undefined if the value is not an int64. */
export const idOf = integerText;

/** Rules for parsing and validating the items of a batch. */
interface BatchItemRules {
  readonly table: ItemTable;
  readonly location: BatchPlan['location'];
  /** Parses an item. @throws HttpError with all issues found in the item */
  readonly read: (value: unknown) => BatchItem;
  /** Returns a key that must be unique within the batch. */
  readonly key?: (item: BatchItem) => string;
  /** The error for items that share a key. */
  readonly sameKey?: HttpError;
}

/**
 * Validates a batch's items, regularly pausing so that other requests can run.
 * @throws HttpError 400 naming the invalid items if the batch stops on errors
 */
export async function batchPlan(
  input: OperationInput & Pick<CreateInput, 'itemErrors'>,
  { items, stops }: BatchEnvelope,
  { table, location, read, key, sameKey = errors.duplicateInBatch(['id']) }: BatchItemRules,
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
      const itemKey = key?.(item);
      if (itemKey !== undefined) byKey.set(itemKey, [...(byKey.get(itemKey) ?? []), index]);
    } catch (cause) {
      if (!(cause instanceof HttpError)) throw cause;
      valid.push(undefined);
      failures.set(index + 1, cause);
    }
  }
  for (const indexes of byKey.values()) {
    if (indexes.length === 1) continue;
    for (const index of indexes) {
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
    return columns;
  };
  const columns = await columnsOf(valid.map((_, index) => index + 1));
  const { itemErrors } = input;
  const base = { ...basePlan(input), ...(itemErrors && { itemErrors }) };
  const plan = { ...base, stops, size: items.length, location, columns, columnsOf };
  return withFailures({ ...plan, failures: new Map(), skipped: [] }, failures);
}

/** Returns the plan with additional failed items. @throws HttpError 400 if the batch stops on errors */
export function withFailures<P extends BatchPlan>(plan: P, newFailures: ReadonlyMap<number, HttpError>): P {
  const failures = new Map([...plan.failures, ...newFailures]);
  for (const [number, error] of newFailures) plan.itemErrors?.set(number, error);
  if (plan.stops && failures.size > 0) throw itemsError(plan, failures);
  return { ...plan, failures, skipped: [...failures.keys()].map(String) };
}

/**
 * Explains which items of a batch were rejected. The batch continues without them.
 * @param finderOf returns the search for a plan's items
 */
export const explainItems = <P extends BatchPlan>(
  finderOf: (plan: P) => RejectionFinder,
): ExplainRejection<P> => ({
  statement: (plan) => finderOf(plan).statement(plan),
  remaining: (plan, rows) => withFailures(plan, finderOf(plan).errors(plan, rows)),
});

/**
 * Returns a splitter that divides a batch into smaller statements.
 * @param bind returns the statement that writes a plan's items
 */
export const splitterOf = <P extends BatchPlan>(bind: (plan: P) => Statement): BatchSplitter<P> => ({
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

/** The failed items of a batch. Used as the cause of an error, so that imports can report each line. */
export class ItemFailures extends Error {
  readonly failures: ReadonlyMap<number, HttpError>;
  constructor(failures: ReadonlyMap<number, HttpError>) {
    super('items failed');
    this.failures = failures;
  }
}

const itemsError = ({ location }: BatchPlan, failures: ReadonlyMap<number, HttpError>): HttpError =>
  errors.itemsRejected(
    new Map([...failures].sort(([a], [b]) => a - b).map(([number, error]) => [location(number), error])),
    new ItemFailures(failures),
  );

const decodeResults = rowDecoder({ json: cell.text, missingIndexes: cell.nullableText });

/**
 * Returns a batch's result from its statement's row, which contains the results of all items and the indexes
 * of items whose records do not exist.
 * @throws HttpError 400 if a record does not exist and the batch stops on errors
 */
export function batchResult(plan: BatchPlan, [row = []]: TextRows): BatchResult {
  const { json, missingIndexes } = decodeResults(row);
  if (plan.stops && missingIndexes !== null) {
    const numbers = missingIndexes.split(',').map(Number);
    throw itemsError(plan, new Map(numbers.map((number) => [number, errors.notFound()])));
  }
  return { kind: 'batch', json, isReplayed: false };
}

/**
 * Prepares a statement for many records. The statement is unnamed and therefore planned on every execution,
 * because a plan cached while the table was small would compare every record with every item.
 */
export const prepareBatch = <Input>(write: (placeholder: Placeholder<Input>) => string): Prepared<Input> =>
  prepare('', 'batch', write);

const failureJson = (error: Pick<HttpError, 'status' | 'message' | 'code' | 'extra'>): string =>
  `{"status":${error.status},${errorJson(error, {}).slice(1)}`;
/** The result of an item whose record does not exist, as JSON. */
export const absentItem = failureJson(errors.notFound());

/**
 * Returns an SQL expression for the response, with one result per item, in order.
 * @param results SELECT statements that return `_n` and the result's JSON
 */
export const resultsSql = ($: Placeholder<BatchPlan>, results: readonly string[]): string =>
  `'{"results":[' || (select string_agg(_r._json, ',' order by _r._n) from (${[
    ...results,
    `select * from unnest(${$(skippedOf)}::bigint[], ${$(failuresOf)}::text[]) _f`,
  ].join(' union all ')}) _r(_n, _json)) || ']}'`;

const skippedOf = ({ skipped }: BatchPlan) => skipped;
const failuresOf = ({ failures }: BatchPlan) => {
  const limitFields = fieldLimiter();
  return [...failures.values()].map(({ status, message, code, extra }) =>
    failureJson({ status, message, code, extra: limitFields(extra) }),
  );
};

/**
 * Returns an SQL expression for the result of a successful write.
 * @param id SQL expression for the record's ID
 */
export const successSql = (status: 200 | 201, id: string): string =>
  `'{"status":${status},"id":' || ${id} || '}'`;

/** Returns an SQL expression for the result of an item whose record does not exist. */
const missingSql = ($: Placeholder<BatchPlan>): string => `${$(notFoundOf)}::text`;
const notFoundOf = () => absentItem;

/**
 * Returns the common table expression `_found`, which contains the items and the IDs of their records, and
 * locks these records in a consistent order. It includes all item columns, because with another join to
 * `_items`, PostgreSQL would underestimate the row counts and compare every item with every record.
 * @param where the condition that matches an item's record
 * @param lock the lock mode; `update` for records that will be deleted
 */
export const lockedItemsSql = (context: OperationContext, where: string, lock = 'no key update'): string =>
  `_found as materialized (select _i.*, ${record}."id" from _items _i join ${tableOf(context)} ${record} on ${where} order by ${record}."id" for ${lock} of ${record})`;

/**
 * Returns the common table expressions that update the records in `_found` and run the effects of the update.
 * @param where an additional condition
 */
export const updateItems = (
  context: OperationContext,
  assignments: readonly Assignment[],
  $: Placeholder<BatchPlan>,
  name: string,
  where = '',
): string => {
  const condition = `${visibleSql(context, 'update', $)} and ${record}."id" = _i."id"${where}`;
  const update = updateOf(context, assignments, condition, ' from _found _i');
  return `${name} as (${update} ${returningSql(context, 'update', $)})${effectsOf(context, 'update', $, { name, isMany: true })}`;
};

/** Returns an SQL condition that is true if all required records were found. */
export const allFoundSql = ($: Placeholder<BatchPlan>): string =>
  ` and (select count(*) from _found) >= ${$(requiredCount)}::int`;
const requiredCount = ({ stops, size }: BatchPlan) => (stops ? String(size) : '0');

/** Returns a SELECT statement for the results of items whose records do not exist. */
export const missingResults = ($: Placeholder<BatchPlan>): string =>
  `select _i._n, ${missingSql($)} from _items _i where not exists (select from _found _f where _f._n = _i._n)`;

/**
 * SQL expression for the indexes of items whose records do not exist, starting at 1 and separated by commas.
 * Null if every record exists.
 */
export const missingIndexes =
  "(select string_agg(_i._n::text, ',' order by _i._n) from _items _i where not exists (select from _found _f where _f._n = _i._n))";
