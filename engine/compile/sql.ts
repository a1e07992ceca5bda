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

/** A quoted text literal, for defaults in definitions. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** The columns that store a field, qualified names first. */
export const columnsOf = (field: Field) =>
  (field.type.columns?.(field) ?? []).map((column) => ({ ...column, name: `${field.name}${column.suffix}` }));
