import { createHash } from 'node:crypto';
import type { Field } from '../definition/index.ts';
import type { Parameter } from '../fields/index.ts';

/** SQL made at boot; `name` lets the server keep its plan. */
export interface Prepared {
  readonly name: string;
  readonly text: string;
}

/** SQL with the values of one request. */
export interface Statement extends Prepared {
  readonly values: readonly (Parameter | readonly Parameter[])[];
}

/** A quoted identifier. Names come from checked definitions only, so they hold no quote. */
export const quote = (name: string): string => `"${name}"`;

/** PostgreSQL cuts names after 63 bytes; two that differ only behind that would be one. */
const maxIdentifier = 63;

/** A name made of others, short enough for PostgreSQL; one that is too long ends in a hash of the whole. */
export function identifier(name: string): string {
  if (name.length <= maxIdentifier) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return `${name.slice(0, maxIdentifier - 9)}_${hash}`;
}

/** A quoted text literal, for defaults in definitions. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** The columns that store a field, qualified names first. */
export const columnsOf = (field: Field) =>
  (field.type.columns?.(field) ?? []).map((column) => ({ ...column, name: `${field.name}${column.suffix}` }));
