import type { Parameter } from '../fields/index.ts';
import { type Records, recordsOf, type Selected } from './records.ts';

/** The value of one placeholder: text, null, or a list for `any(…)`. */
export type Value = Parameter | readonly Parameter[];

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
  readonly values: readonly Value[];
  /** How its rows become text; absent for rows that are taken as they are. */
  readonly records?: Records;
}

/**
 * Gives a value of the input its placeholder ("$1", "$2", …). The same function gives the same placeholder, so that
 * a value that is used twice is sent once.
 */
export type Placeholder<Input> = (value: (input: Input) => Value) => string;

/** A statement prepared at boot; `bind` takes the values of one request from its input. */
export interface Prepared<Input> {
  readonly name: string;
  readonly text: string;
  readonly lane: Lane;
  readonly bind: (input: Input) => Statement;
}

/**
 * Writes a statement. Text and parameters come from the same place, so that no position is counted anywhere else:
 * `prepare('user', 'read', ($) => `select … where id = ${$((input) => input.id)}::bigint`)`.
 * @param name unique for the text; empty for an unnamed statement
 * @param selected for a statement whose rows are records
 */
export function prepare<Input>(
  name: string,
  lane: Lane,
  write: (placeholder: Placeholder<Input>) => string,
  selected?: Selected,
): Prepared<Input> {
  const values: ((input: Input) => Value)[] = [];
  const text = write((value) => {
    const known = values.indexOf(value);
    return `$${known === -1 ? values.push(value) : known + 1}`;
  });
  const fixed = { name, text, lane, ...(selected && { records: recordsOf(text, selected) }) };
  return Object.freeze({
    ...fixed,
    bind: (input: Input) => ({ ...fixed, values: values.map((value) => value(input)) }),
  });
}
