// The interface of field types. Validation, SQL, OpenAPI and migrations access types only through this interface.
import type { Encoder } from './encode.ts';
import type { Lookup } from './lookups.ts';

/**
 * A parameter in PostgreSQL's text format, or null for SQL NULL. It is never a JavaScript number, so that values are
 * not rounded.
 */
export type ParameterText = string | null;

/** A JSON Schema (2020-12) fragment. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** SQL expressions by which a unique index distinguishes values. */
export interface Distinction {
  /** Keys of bounded size. Two values are equal if all of their keys are equal. */
  readonly keys: readonly string[];
  /** Condition that the value is not empty. Any number of records can have an empty value. */
  readonly presence: string;
}

/** Field options that its type can depend on. */
export interface FieldOptions {
  readonly readOnly: boolean;
  readonly maxLength?: number;
  readonly pattern?: string;
}

/** A column that stores all or part of a field. */
export interface ColumnDefinition {
  /** Suffix of the column name. Empty for the first column. */
  readonly suffix: string;
  /** PostgreSQL type. */
  readonly type: string;
  readonly collation?: string;
}

/** A field type. An absent key means that the type does not have the ability. */
export interface FieldType {
  /** Completes "<field> must be …". */
  readonly expected: string;
  /** Schema of values in responses and in the OpenAPI document. */
  readonly json: JsonSchema;
  /** Returns the schema that validates a non-null value in a body. Default: `json`. */
  readonly body?: (options: FieldOptions) => JsonSchema;
  /** Returns the stored columns. Absent if the value is computed on read. */
  readonly columns?: (options: FieldOptions) => readonly ColumnDefinition[];
  /** Default of fields that are not nullable. If absent, such fields must be required or declare a default. */
  readonly empty?: string | number | boolean;
  /** Converts a validated JSON value to parameters, one per column. */
  readonly write?: (value: unknown) => readonly ParameterText[];
  /** Returns the SQL expression assigned to each column, built from the placeholders. Default: the placeholders. */
  readonly assign?: (placeholders: readonly string[]) => readonly string[];
  /** Returns an SQL expression for the value in responses, built from the columns. Default: the first column. */
  readonly read?: (columns: readonly string[]) => string;
  /** Encodes a non-null value selected by `read` as JSON. */
  readonly encode: Encoder;
  /**
   * Returns the ORDER BY keys. The first one is the index key and must be of bounded size. Absent if values cannot be
   * sorted.
   */
  readonly order?: (column: string) => readonly string[];
  /**
   * Returns SQL expressions that convert a parameter for comparison with each ORDER BY key. Absent if ranges are not
   * supported.
   */
  readonly bounds?: (placeholder: string) => readonly string[];
  /** Converts a value from a response to a parameter for `bounds`. Default: unchanged. */
  readonly toBound?: (value: string) => string;
  /**
   * Returns the condition "column equals placeholder", which uses the index of the lookup, if any. Absent if values
   * cannot be filtered.
   */
  readonly equals?: (column: string, placeholder: string, lookup?: Lookup) => string;
  /** Returns the condition "column is one of placeholder", an array. Otherwise like `equals`. */
  readonly among?: (column: string, placeholder: string, lookup?: Lookup) => string;
  /** Returns the condition "column starts with placeholder". Absent for types other than text. */
  readonly startsWith?: (column: string, placeholder: string) => string;
  /** Returns the condition "column contains placeholder". Absent for types other than text. */
  readonly contains?: (column: string, placeholder: string) => string;
  /** Returns the index keys that distinguish a value, given as an SQL expression. Absent if values cannot be unique. */
  readonly distinct?: (value: string) => Distinction;
  /** Converts the text of a query parameter to a parameter for conditions. Returns undefined if it is invalid. */
  readonly parse?: (text: string) => string | undefined;
  /** Returns an SQL expression for the value as text, for `joined` fields of other resources. */
  readonly text?: (column: string) => string;
  /** Shifts the value by whole days, so that sample records look recent. */
  readonly shift?: (value: string, days: number) => string;
  /** Whether fields of the type refer to another resource, named by `to`. */
  readonly refers?: true;
  /** Whether fields of the type show a field of a referenced record, named by `through` and `show`. */
  readonly joins?: true;
  /** Whether fields of the type support `max_length`, `pattern` and other text options. */
  readonly bounded?: true;
  /** A few valid values, for the contract test and OpenAPI examples. */
  readonly examples: readonly unknown[];
}
