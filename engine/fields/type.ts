// The shape of a field type: one object per type holds everything that the engine knows of its values.
import type { Encoder } from './encode.ts';
import type { Lookup } from './lookups.ts';

/** A value that goes to PostgreSQL as text; null is SQL NULL. Never a JavaScript number, so nothing is rounded. */
export type ParameterText = string | null;

/** A JSON Schema (2020-12) fragment. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** How a unique index tells values apart, as SQL. */
export interface Distinction {
  /** Keys of bounded size; two values are equal if all of them are. */
  readonly keys: readonly string[];
  /** The condition that there is a value: any number of records may have none. */
  readonly presence: string;
}

/** The parts of a field's definition that its type may use. */
export interface FieldOptions {
  readonly readOnly: boolean;
  readonly maxLength?: number;
  readonly pattern?: string;
}

/** A column that stores a field, or a part of it. */
export interface ColumnDefinition {
  /** Appended to the field's name; empty for the first column. */
  readonly suffix: string;
  /** PostgreSQL type. */
  readonly type: string;
  readonly collation?: string;
}

/** A field type. Absent keys are absent abilities. */
export interface FieldType {
  /** Completes "<field> must be …". */
  readonly expected: string;
  /** The value in responses and in the OpenAPI document. */
  readonly json: JsonSchema;
  /** The schema that validates a non-null value in a body; absent: `json`. */
  readonly body?: (options: FieldOptions) => JsonSchema;
  /** Stored columns; absent if the value is computed on read. */
  readonly columns?: (options: FieldOptions) => readonly ColumnDefinition[];
  /** The value of an absent field that is not "or null"; types without one must be nullable or required. */
  readonly empty?: string | number | boolean;
  /** A validated JSON value as parameters, one for each column. */
  readonly write?: (value: unknown) => readonly ParameterText[];
  /** SQL for each column from its parameters' placeholders; absent: the placeholders themselves. */
  readonly assign?: (placeholders: readonly string[]) => readonly string[];
  /** SQL of the value in the response, from SQL of each column; absent: the first column. */
  readonly read?: (columns: readonly string[]) => string;
  /** Writes a value that is not null, as `read` selects it, as JSON. */
  readonly encode: Encoder;
  /** ORDER BY keys; absent: not sortable. The first is the index key, so it must be of bounded size. */
  readonly order?: (column: string) => readonly string[];
  /** SQL of a parameter for each ORDER BY key, to compare with; absent: has no ranges. */
  readonly bounds?: (placeholder: string) => readonly string[];
  /** A value as responses have it, as a parameter for `bounds`; absent: unchanged. */
  readonly toBound?: (value: string) => string;
  /** WHERE condition "column equals placeholder"; absent: not filterable. Uses the index of a lookup if there is one. */
  readonly equals?: (column: string, placeholder: string, lookup?: Lookup) => string;
  /** WHERE condition "column is one of placeholder" (an array), likewise. */
  readonly among?: (column: string, placeholder: string, lookup?: Lookup) => string;
  /** WHERE condition "column starts with placeholder". Absent for types other than text. */
  readonly startsWith?: (column: string, placeholder: string) => string;
  /** WHERE condition "column contains placeholder". Absent for types other than text. */
  readonly contains?: (column: string, placeholder: string) => string;
  /** What makes a value unique, from SQL of the value; absent: cannot be unique. */
  readonly distinct?: (value: string) => Distinction;
  /** A query parameter's text as a parameter for conditions; undefined if it is not a value of this type. */
  readonly parse?: (text: string) => string | undefined;
  /** SQL text of the value, for fields that other resources show through a reference. */
  readonly text?: (column: string) => string;
  /** The value shifted by whole days, for sample records that should look recent. */
  readonly shift?: (value: string, days: number) => string;
  /** Must name a resource that it refers to. */
  readonly refers?: true;
  /** Must name the reference and the fields that it shows. */
  readonly joins?: true;
  /** Takes `max_length` and `pattern`. */
  readonly bounded?: true;
  /** A few valid values, for the contract test and OpenAPI examples. */
  readonly examples: readonly unknown[];
}
