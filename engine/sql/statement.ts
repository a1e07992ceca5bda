import type { ParameterText } from '../fields/index.ts';
import { identifier } from './names.ts';
import { type RecordWriter, recordWriter, type SelectedColumns } from './records.ts';

/** The value of one placeholder: text, null, or a list for `any(…)`. */
export type BoundValue = ParameterText | readonly ParameterText[];

/**
 * The cost class of a statement, known when it is compiled: `read` and `write` touch one record by its key, and a
 * `write` may wait for a lock, a `batch` writes up to a thousand; a `list` reads one of the first pages from an index, a
 * `deep` one a page further on; a `scan` grows with the organization's records; an `export` reads a part of a list that is
 * sent whole. Admission (engine/database/admission.ts) bounds the statements of each
 * lane that run at the same time; those that are always short, `read` and `list`, may share a connection.
 */
export type Lane = 'read' | 'write' | 'batch' | 'list' | 'deep' | 'scan' | 'export';

/** SQL with the values of one request. `name` lets the server keep its plan; an unnamed one is planned each time. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly lane: Lane;
  readonly values: readonly BoundValue[];
  /** How its rows become text; absent for rows that are taken as they are. */
  readonly records?: RecordWriter;
  /** The batch form of the statement, if any. */
  readonly many?: BatchStatement;
}

/**
 * A statement that does for many inputs what another one does for one. Its parameters are the ones of the other
 * one as arrays, with a value for each input; the first column of its rows is the number of the input, from 1.
 */
export interface BatchStatement {
  readonly name: string;
  readonly text: string;
  /** How many of the first values together must differ between the inputs: they identify a row to be changed. */
  readonly differ: number;
  /** Whether each input has any number of records, whose rows come together; otherwise each has at most one row. */
  readonly lists: boolean;
}

/**
 * Gives a value of the input its placeholder ("$1", "$2", …). The same function gives the same placeholder, so that
 * a value that is used twice is sent once.
 */
export type Placeholder<Input> = (value: (input: Input) => BoundValue) => string;

/** A statement prepared at boot; `bind` takes the values of one request from its input. */
export interface Prepared<Input> {
  readonly name: string;
  readonly text: string;
  readonly lane: Lane;
  readonly bind: (input: Input) => Statement;
}

/** The table of the inputs in a statement for many; its columns begin with "_". */
export const inputs = '_in';
/** The number of an input, as the first column of a row. */
export const inputIndex = `${inputs}."_number"::text`;

/** The batch form of a statement. */
export interface BatchForm<Input> {
  /**
   * Writes what comes after the expression of the inputs: further ones, each beginning with a comma, and the rest of the
   * statement. The first column of its rows is {@link inputIndex}. Placeholders are columns of the inputs; it takes the
   * same ones in the same order.
   */
  readonly write: (placeholder: Placeholder<Input>) => string;
  /** Further columns of the inputs, with a comma after each. */
  readonly columns?: string;
  /** See {@link BatchStatement}. */
  readonly differ: number;
  /** See {@link BatchStatement}; absent: no. */
  readonly lists?: boolean;
}

/**
 * Writes a statement. Text and parameters come from the same place, so that no position is counted anywhere else:
 * `prepare('user', 'read', ($) => `select … where id = ${$((input) => input.id)}::bigint`)`.
 * @param name unique for the text; empty for an unnamed statement
 * @param selectedColumns for a statement whose rows are records
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
    ...(many && { many: writeBatch(name, many, values.length) }),
  };
  return Object.freeze({
    ...base,
    bind: (input: Input) => ({ ...base, values: values.map((value) => value(input)) }),
  });
}

/** Writes a text, and collects what its placeholders stand for. */
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

/** Writes a statement for many inputs, which come as arrays of texts. */
function writeBatch<Input>(
  name: string,
  { write, columns = '', differ, lists = false }: BatchForm<Input>,
  count: number,
): BatchStatement {
  const { text, values } = writeText(write, (position) => `${inputs}."_${position}"`);
  if (values.length !== count) throw new Error(`${name} has other parameters for many inputs`);
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

/** A list of values as the text of an array. */
export const arrayText = (values: readonly (string | null)[]): string =>
  `{${values.map((value) => (value === null ? 'null' : `"${value.replace(/["\\]/g, '\\$&')}"`)).join()}}`;

/** Combines the values of single statements into the values of a batch. */
export function batchValues(statements: readonly Pick<Statement, 'values'>[]): BoundValue[] {
  const texts = statements.map(({ values }) =>
    values.map((value) => (value === null || typeof value === 'string' ? value : arrayText(value))),
  );
  return (texts[0] ?? []).map((_, index) => texts.map((values) => values[index] ?? null));
}
