// The interface of field types. Validation, SQL, OpenAPI and migrations access types only through this interface.

import type { CsvFormat, Encoder } from './encode.ts';

/** Returns a form's text without surrounding spaces, or undefined if it is blank. */
export const trimmedText = (text: string): string | undefined =>
  text.trim() === '' ? undefined : text.trim();

// Index keys for text columns.

/** Number of characters in an indexed prefix. PostgreSQL limits B-tree entries to about 2,700 bytes. */
export const indexedLength = 100;
/** Returns an SQL expression for the indexed prefix of a string. */
export const indexedPrefix = (column: string) => `left(${column}, ${indexedLength})`;

/** A method of finding records by text. */
interface LookupKind {
  /** Returns an SQL expression that is equal for equivalent strings. Must be immutable for indexing. */
  readonly key: (text: string) => string;
  /** Returns whether only a few records share the key for a value. Absent if this is true of every value. */
  readonly isSelective?: (value: string) => boolean;
}

/** All lookups, keyed by name. */
const lookups = {
  exact: { key: (text) => text },
  /** Email addresses, ignoring case. */
  caseless: { key: (text) => `lower(${text})` },
  /** Phone numbers, compared by digits: "+1 (555) 010-0" equals "0015550100". */
  digits: {
    key: (text) => `regexp_replace(regexp_replace(${text}, '\\D', '', 'g'), '^00', '')`,
    // All records without a phone number share the empty key.
    isSelective: (value) => value.replace(/\D/g, '').replace(/^00/, '') !== '',
  },
} as const satisfies Readonly<Record<string, LookupKind>>;

/** The name of a lookup. */
export type Lookup = keyof typeof lookups;

/** Returns the lookup with this name. */
export const lookupOf = (name: Lookup): LookupKind => lookups[name];

/**
 * A parameter in PostgreSQL's text format, or null for SQL NULL. It is never a JavaScript number, so that values are
 * not rounded.
 */
export type ParameterText = string | null;

/** A JSON Schema (2020-12) fragment. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** SQL expressions that a unique index uses to distinguish values. */
export interface Distinction {
  /** Keys of bounded size. Two values are equal if all of their keys are equal. */
  readonly keys: readonly string[];
  /** SQL condition that the value is not empty. Any number of records can have an empty value. */
  readonly presence: string;
}

/** Options of a field that its type can depend on. */
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
  /** SQL expression that generates a value from a record's sequence number `n`, for query plan analysis. */
  readonly sample: string;
}

/** How a type's values are edited in a form. */
interface FormControl {
  /** `suggestions` is an input with a list of records. */
  readonly control: 'line' | 'lines' | 'number' | 'checkbox' | 'day' | 'suggestions';
  readonly help?: string;
  /**
   * Converts the submitted text to a JSON value. Returns undefined if the value is absent, or the original
   * text if it cannot be converted, so that validation rejects it.
   */
  readonly parse: (text: string) => unknown;
}

/** SQL expressions that describe the field to which a migration converts text. */
interface ConversionTarget {
  /** The table to which the field refers. */
  readonly referredTable: string;
  /** The record's organization ID. */
  readonly organization: string;
}

/** SQL that converts text to a value when a migration changes a field's type. */
export interface TextConversion {
  /** Completes "is not …". */
  readonly label: string;
  /** Returns an SQL condition that is true if the text is a valid value. Evaluating it never fails. */
  readonly fits: (text: string, target: ConversionTarget) => string;
  /** Returns SQL expressions for the value's columns, computed from a valid text. */
  readonly columns: (text: string) => readonly string[];
}

/** A field type. An absent key means that the type does not support the feature. */
export interface FieldType {
  /** Completes "<field> must be …". */
  readonly expected: string;
  /** Schema of values in responses and in the OpenAPI document. */
  readonly json: JsonSchema;
  /** Returns the schema that validates a non-null value in a body. Default: `json`. */
  readonly body?: (options: FieldOptions) => JsonSchema;
  /** Returns the stored columns. The first has the field's name. Absent if the value is computed on read. */
  readonly columns?: (options: FieldOptions) => readonly ColumnDefinition[];
  /** Default for non-nullable fields. If absent, these fields must be required or declare a default. */
  readonly empty?: string | number | boolean;
  /** Converts a validated JSON value to parameters, one per column. */
  readonly write?: (value: unknown) => readonly ParameterText[];
  /** Returns the SQL expression assigned to each column, built from the placeholders. Default: the placeholders. */
  readonly assign?: (placeholders: readonly string[]) => readonly string[];
  /** Returns an SQL expression for the value in responses, built from the columns. Default: the first column. */
  readonly read?: (columns: readonly string[]) => string;
  /** Encodes a non-null value selected by `read` as JSON. */
  readonly encode: Encoder;
  readonly csv: CsvFormat;
  readonly form: FormControl;
  /** Formats a value from a response for a page. Default: unchanged. */
  readonly display?: (text: string) => string;
  /** Converts text to values during migrations. Absent if the value is computed on read. */
  readonly fromText?: TextConversion;
  /** Types that can represent every value of this type, in addition to the text types. */
  readonly wider?: readonly string[];
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
   * Returns the condition "column equals placeholder", which uses the lookup's index, if any. Absent if
   * values cannot be filtered.
   */
  readonly equals?: (column: string, placeholder: string, lookup?: Lookup) => string;
  /** Same as `equals`, but returns the condition "column is one of placeholder", whose value is an array. */
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
  /** Shifts a value by whole days, so that sample records look recent. */
  readonly shift?: (value: string, days: number) => string;
  /** Whether fields of the type refer to another resource, named by `to`. */
  readonly refers?: true;
  /** Whether fields of the type show a field of a referenced record, named by `through` and `show`. */
  readonly joins?: true;
  /** Whether fields of the type support `max_length`, `pattern` and other text options. */
  readonly bounded?: true;
  /** A few valid values, used by the contract test and in OpenAPI examples. */
  readonly examples: readonly unknown[];
}
