import { createHash } from 'node:crypto';
import type { Parameter } from '../fields/index.ts';

/** The value of one placeholder: text, null, or a list for `any(…)`. */
export type Value = Parameter | readonly Parameter[];

/**
 * The cost class of a statement, known when it is compiled: `read` and `write` touch one record by its key, and a
 * `write` may wait for a lock; a `list` reads a page from an index; a `scan` grows with the organization's records.
 * Admission (engine/database/admission.ts) bounds the statements of each lane that run at the same time.
 */
export type Lane = 'read' | 'write' | 'list' | 'scan';

/** SQL with the values of one request. `name` lets the server keep its plan; an unnamed one is planned each time. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly lane: Lane;
  readonly values: readonly Value[];
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
 */
export function prepare<Input>(
  name: string,
  lane: Lane,
  write: (placeholder: Placeholder<Input>) => string,
): Prepared<Input> {
  const values: ((input: Input) => Value)[] = [];
  const text = write((value) => {
    const known = values.indexOf(value);
    return `$${known === -1 ? values.push(value) : known + 1}`;
  });
  return Object.freeze({
    name,
    text,
    lane,
    bind: (input: Input) => ({ name, text, lane, values: values.map((value) => value(input)) }),
  });
}

/** A quoted identifier. Names come from checked definitions only, so they hold no quote. */
export const quote = (name: string): string => `"${name}"`;

/** PostgreSQL truncates names to 63 bytes; two that differ only after that would collide. */
const maxIdentifier = 63;

/** A name that fits PostgreSQL's limit: one that is too long ends in a hash of the whole. */
export function identifier(name: string): string {
  if (name.length <= maxIdentifier) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return `${name.slice(0, maxIdentifier - 9)}_${hash}`;
}

/** A quoted text literal, for defaults in definitions. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;
