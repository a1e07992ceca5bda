import type { ParameterText } from '../fields/index.ts';
import { identifier } from './names.ts';
import { type RecordWriter, recordWriter, type SelectedColumns } from './records.ts';

/** A placeholder's value: text, null, or a list for `any(…)`. */
export type BoundValue = ParameterText | readonly ParameterText[];

/**
 * A statement's scheduling class, determined when it is compiled. Admission (engine/database/admission.ts)
 * limits the number of concurrent statements per lane. Statements in `read` and `list` are always short and
 * can share a connection.
 * - `read`: reads one record by its key.
 * - `write`: writes one record by its key, and can wait for a lock.
 * - `batch`: writes up to a thousand records.
 * - `list`: reads one of the first pages of a list from an index.
 * - `deep`: reads a later page of a list, which takes too long to share a connection.
 * - `scan`: takes time proportional to the organization's number of records.
 * - `aggregate`: counts and combines records, in time proportional to their number.
 * - `export`: reads a batch of a complete list.
 */
export type Lane = 'read' | 'write' | 'batch' | 'list' | 'deep' | 'scan' | 'aggregate' | 'export';

/**
 * SQL with the values from a request. PostgreSQL caches the plan of a named statement, but plans an unnamed
 * statement for each execution.
 */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly lane: Lane;
  readonly values: readonly BoundValue[];
  /** Converts the statement's rows to text. Absent if the caller uses the unconverted rows. */
  readonly records?: RecordWriter;
  /** The statement's batch form for several inputs, if available. */
  readonly many?: BatchStatement;
}

/**
 * The batch form of a statement, which processes several inputs. Each parameter is an array of values, one
 * per input. The first column of each result row is the input's index, starting at 1.
 */
interface BatchStatement {
  readonly name: string;
  readonly text: string;
  /**
   * Number of leading values that identify the row to change. No two inputs in a batch can identify the same
   * row.
   */
  readonly differ: number;
  /**
   * Whether an input can produce several consecutive rows. Otherwise, each input produces at most one row.
   */
  readonly lists: boolean;
}

/**
 * Returns the placeholder ("$1", "$2", …) for an input value. Returns the same placeholder for the same
 * function, so a value that is used twice is sent only once.
 */
export type Placeholder<Input> = (value: (input: Input) => BoundValue) => string;

/** A statement prepared at startup. `bind` adds the values from a request. */
export interface Prepared<Input> {
  readonly name: string;
  readonly text: string;
  readonly lane: Lane;
  readonly bind: (input: Input) => Statement;
}

/** Name of the common table expression with a batch's inputs. Column names start with an underscore. */
export const inputs = '_in';
/** SQL expression for an input's index, which must be the first column of each row. */
export const inputIndex = `${inputs}."_number"::text`;

/** Functions and options for building a statement's batch form. */
export interface BatchForm<Input> {
  /**
   * Returns the SQL that follows the common table expression with the inputs: additional expressions, each
   * preceded by a comma, and the main statement. The first column it returns must be {@link inputIndex}.
   * Placeholders refer to columns of the inputs. The batch form must use the same functions for placeholders as the single
   * form. Functions that it creates itself must be in the same order.
   */
  readonly write: (placeholder: Placeholder<Input>) => string;
  /** Additional columns for the inputs, each followed by a comma. */
  readonly columns?: string;
  /** See `differ` in {@link BatchStatement}. */
  readonly differ: number;
  /** See `lists` in {@link BatchStatement}. Default: false. */
  readonly lists?: boolean;
}

/**
 * Prepares a statement. Its text and parameters are written together, so that their positions always match,
 * for example:
 * `prepare('user', 'read', ($) => `select … where id = ${$((input) => input.id)}::bigint`)`.
 * @param name a name that is unique to this SQL text, or an empty string for an unnamed statement
 * @param selectedColumns the selected columns, if the rows are records
 * @param many builds the batch form, if the statement has one
 */
export function prepare<Input>(
  name: string,
  lane: Lane,
  write: (placeholder: Placeholder<Input>) => string,
  selectedColumns?: SelectedColumns,
  many?: BatchForm<Input>,
): Prepared<Input> {
  const { text, values } = writeText(write, (position) => `$${position}`);
  const base = {
    name,
    text,
    lane,
    ...(selectedColumns && { records: recordWriter(text, selectedColumns) }),
    ...(many && { many: writeBatch(name, many, values) }),
  };
  return Object.freeze({
    ...base,
    bind: (input: Input) => ({ ...base, values: values.map((value) => value(input)) }),
  });
}

/** Returns a statement's text and the functions that return the values for its placeholders. */
function writeText<Input>(
  write: (placeholder: Placeholder<Input>) => string,
  placeholder: (position: number) => string,
) {
  const values: ((input: Input) => BoundValue)[] = [];
  const text = write((value) => {
    const index = values.indexOf(value);
    return placeholder(index === -1 ? values.push(value) : index + 1);
  });
  return { text, values };
}

/**
 * Returns the batch form of a statement. Its parameters have the positions of the single form, even if it mentions them in
 * another order.
 * @param values functions that return the single form's values
 */
function writeBatch<Input>(
  name: string,
  { write, columns = '', differ, lists = false }: BatchForm<Input>,
  values: readonly ((input: Input) => BoundValue)[],
): BatchStatement {
  const positions = positionsIn(values, writeText(write, String).values);
  if (positions === undefined) throw new Error(`${name} has other parameters for many inputs`);
  const { text } = writeText(write, (position) => `${inputs}."_${positions[position - 1]}"`);
  const arrays = values.map((_, index) => `$${index + 1}::text[]`).join(', ');
  const names = values.map((_, index) => `"_${index + 1}"`).join(', ');
  const source = `unnest(${arrays}) with ordinality as _i(${names}, "_number")`;
  return {
    name: identifier(`${name}_many`),
    text: `with ${inputs} as materialized (select ${columns}_i.* from ${source})${text}`,
    differ,
    lists,
  };
}

/**
 * Returns the positions of functions in a list, starting at 1. Functions that were created for one of the two lists only are
 * matched in order. Returns undefined if the lists do not match.
 */
function positionsIn<Value>(values: readonly Value[], others: readonly Value[]): number[] | undefined {
  const unshared = values.filter((value) => !others.includes(value)).values();
  const positions = others.map((other) => {
    const value = values.includes(other) ? other : unshared.next().value;
    return value === undefined ? 0 : values.indexOf(value) + 1;
  });
  const isComplete = positions.length === values.length && !positions.includes(0);
  return isComplete ? positions : undefined;
}

/** Formats a list as the text of a PostgreSQL array. */
export const arrayText = (values: readonly (string | null)[]): string =>
  `{${values.map((value) => (value === null ? 'null' : `"${value.replace(/["\\]/g, '\\$&')}"`)).join()}}`;

/** Combines the values of single statements into the values of their batch form. */
export function batchValues(statements: readonly Pick<Statement, 'values'>[]): BoundValue[] {
  const texts = statements.map(({ values }) =>
    values.map((value) => (value === null || typeof value === 'string' ? value : arrayText(value))),
  );
  return (texts[0] ?? []).map((_, index) => texts.map((values) => values[index] ?? null));
}
