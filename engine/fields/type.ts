// The interface of field types. Validation, SQL, OpenAPI and migrations access types only through this interface.

import type { Expectation } from '../errors.ts';
import type { CsvFormat, Encoder } from './encode.ts';

/** How users write the values of a type. */
export type Notation =
  | { readonly kind: 'json' | 'lines' | 'reference' | 'timestamp' }
  | { readonly kind: 'example'; readonly example: string }
  | { readonly kind: 'amount'; readonly currency: string }
  | { readonly kind: 'recordOf'; readonly resource: string };

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
  /** Returns the key of a value, as `key` does. */
  readonly keyOf: (value: string) => string;
  /** Returns whether only a few records share the key for a value. Absent if this is true of every value. */
  readonly isSelective?: (value: string) => boolean;
}

/** Converts ASCII letters to lowercase, as PostgreSQL does with the collation "C". */
const lowercase = (value: string): string => value.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
const digitsOf = (value: string): string => value.replace(/\D/g, '').replace(/^00/, '');

/** All lookups, keyed by name. */
const lookups = {
  exact: { key: (text) => text, keyOf: (value) => value },
  /** Email addresses, ignoring case. */
  caseless: { key: (text) => `lower(${text})`, keyOf: lowercase },
  /** Phone numbers, compared by digits: "+1 (555) 010-0" equals "0015550100". */
  digits: {
    key: (text) => `regexp_replace(regexp_replace(${text}, '\\D', '', 'g'), '^00', '')`,
    // All records without a phone number share the empty key.
    keyOf: digitsOf,
    isSelective: (value) => digitsOf(value) !== '',
  },
  /** Codes such as IBANs, ignoring case and spaces. */
  compact: {
    key: (text) => `lower(replace(${text}, ' ', ''))`,
    keyOf: (value) => lowercase(value.replaceAll(' ', '')),
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

/** How a field's values are found and compared. */
export interface Comparisons {
  /** How partner endpoints find records by the field. Adds an index. */
  readonly lookup?: Lookup;
  /** How filters, unique fields and `match` compare values. Absent if they compare whole values. */
  readonly comparison?: Lookup;
}

/** Options of a field that its type can depend on. */
export interface FieldOptions {
  readonly readOnly: boolean;
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
  /** `suggestions` is an input with a list of records, and `checkboxes` has a checkbox for each of several records. */
  readonly control: 'line' | 'lines' | 'number' | 'checkbox' | 'checkboxes' | 'day' | 'suggestions';
  /** How values are written. Forms explain it. */
  readonly notation?: Notation;
  /**
   * Converts the submitted text to a JSON value. Returns undefined if the value is absent, or the original
   * text if it cannot be converted, so that validation rejects it.
   */
  readonly parse: (text: string) => unknown;
  /** Converts a value to the text in the form. Default: the value as text. */
  readonly format?: (value: unknown) => string;
}

/** SQL expressions that describe the field to which a migration converts text. */
interface ConversionTarget {
  /** The table to which the field refers. */
  readonly referredTable: string;
  /** The record's organization ID. */
  readonly organization: string;
  /** Returns an SQL condition that is true if a user, given as an SQL expression, is a member of the organization. */
  readonly isMember: (user: string) => string;
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

/** Type of a field's value in expressions. A reference and a user are IDs, which have no order. */
export type OperandType =
  | 'text'
  | 'integer'
  | 'number'
  | 'boolean'
  | 'timestamp'
  | 'date'
  | 'reference'
  | 'user';

/** A field type. An absent key means that the type does not support the feature. */
export interface FieldType {
  /** The type's name in error messages. Default: its name in YAML. */
  readonly label?: string;
  /** Completes "<field> must be …". */
  readonly expected: string;
  /** The same, for texts in other languages. If absent, these do not say which values are valid. */
  readonly expects?: Expectation;
  /** Replaces `expected` for required fields, for types whose text mentions null. */
  readonly expectedIfRequired?: string;
  /** Schema of values in responses and in the OpenAPI document. */
  readonly json: JsonSchema;
  /**
   * The elements of values that are lists: their schema, and the text that completes "<field>[0] must be …". Filters
   * compare elements. Absent if values are not lists.
   */
  readonly element?: {
    readonly schema: JsonSchema;
    readonly expected: string;
    readonly expects?: Expectation | undefined;
    /** PostgreSQL type. */
    readonly sql: string;
    readonly example: unknown;
  };
  /** Returns the schema that validates a non-null value in a body. Default: `json`. */
  readonly body?: (options: FieldOptions) => JsonSchema;
  /** Schema and description of values in query parameters. Default: `json`, `expected` and `expects`. */
  readonly parameter?: {
    readonly json: JsonSchema;
    readonly expected: string;
    readonly expects?: Expectation | undefined;
  };
  /** Returns the stored columns. The first has the field's name, except for references to one of several resources. Absent if the value is computed on read. */
  readonly columns?: (options: FieldOptions) => readonly ColumnDefinition[];
  /** Default for non-nullable fields. If absent, these fields must be required or declare a default. */
  readonly empty?: string | number | boolean | readonly never[] | Readonly<Record<string, never>>;
  /** Converts a validated JSON value to parameters, one per column. */
  readonly write?: (value: unknown) => readonly ParameterText[];
  /** Returns the SQL expression assigned to each column, built from the placeholders. Default: the placeholders. */
  readonly assign?: (placeholders: readonly string[]) => readonly string[];
  /** How hooks write read-only fields. Absent if these have the same columns as writable fields. */
  readonly readOnly?: Required<Pick<FieldType, 'columns' | 'write' | 'assign'>>;
  /**
   * Returns the SQL expression assigned to the first column, built from the new value and the stored value or, for a new record,
   * the defaults. Default: the new value.
   */
  readonly merge?: (value: string, stored: string) => string;
  /**
   * Returns an SQL expression for the value of two merged records, built from their first columns. The first record's value
   * takes precedence. Default: the second value if the first is null or empty, and otherwise the first.
   */
  readonly combine?: (value: string, other: string) => string;
  /** Returns an SQL expression for the value in responses, built from the columns. Default: the first column. */
  readonly read?: (columns: readonly string[]) => string;
  /** Encodes a non-null value selected by `read` as JSON. */
  readonly encode: Encoder;
  readonly csv: CsvFormat;
  readonly form: FormControl;
  /** Formats a value from a response for a page. Default: unchanged. @param locale BCP 47 language tag */
  readonly display?: (text: string, locale: string) => string;
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
   * Returns the condition "column equals placeholder", which uses the index of the field's comparison or lookup, if any.
   * Absent if values cannot be filtered.
   */
  readonly equals?: (column: string, placeholder: string, comparisons?: Comparisons) => string;
  /** Same as `equals`, but returns the condition "column is one of placeholder", whose value is an array. */
  readonly among?: (column: string, placeholder: string, comparisons?: Comparisons) => string;
  /** Returns the condition "column contains all of placeholder", whose value is an array. Absent unless values are lists. */
  readonly includes?: (column: string, placeholder: string) => string;
  /** Returns the condition "column starts with placeholder". Absent for types other than text. */
  readonly startsWith?: (column: string, placeholder: string) => string;
  /** Returns the condition "column contains placeholder". Absent for types other than text. */
  readonly contains?: (column: string, placeholder: string) => string;
  /** Returns the index keys that distinguish a value, given as an SQL expression. Absent if values cannot be unique. */
  readonly distinct?: (value: string) => Distinction;
  /** Converts the text of a query parameter to a parameter for conditions. Returns undefined if it is invalid. */
  readonly parse?: (text: string) => string | undefined;
  /**
   * Converts a date in a query parameter to a parameter for conditions: the first or the last moment of the day in UTC.
   * Returns undefined if it is not a date. Absent for types other than timestamps.
   */
  readonly parseDay?: (text: string, part: 'start' | 'end') => string | undefined;
  /** Returns an SQL expression for the value as text for conversions, built from the columns. Default: the value in responses. */
  readonly asText?: (columns: readonly string[]) => string;
  /**
   * Returns an SQL condition on the columns, which is not false for any value. A constraint of the table enforces it.
   * Absent if the columns can have any values of their types.
   * @param hasGroups whether the resource has field groups
   */
  readonly integrity?: (columns: readonly string[], hasGroups: boolean) => string;
  /** Completes "<field> …" for values that violate `integrity`. Default: generated from `expected`. */
  readonly integrityMessage?: string;
  /** Returns an SQL expression for the value as text, for `joined` fields of other resources. */
  readonly text?: (column: string) => string;
  /**
   * Returns an SQL expression for a calculated decimal number as a value of the type: rounded, or null if it is out of
   * range. Absent for types other than numbers and amounts.
   */
  readonly calculated?: (value: string) => string;
  /** Shifts a value by whole days, so that sample records look recent. */
  readonly shift?: (value: string, days: number) => string;
  /** Type of the values in expressions. Absent if expressions cannot read the values. */
  readonly operand?: OperandType;
  /**
   * Returns an SQL expression for the value of a group of records, whose size is bounded. Absent if records cannot be grouped
   * by single values.
   */
  readonly groupKey?: (column: string) => string;
  /**
   * Returns an SQL expression for a value as a timestamp without time zone, which aggregates round down to the start of a
   * period. Absent if values are not dates or timestamps.
   * @param zone returns an SQL expression for the name of a time zone
   */
  readonly localTime?: (column: string, zone: () => string) => string;
  /** Whether fields of the type refer to other resources, named by `to`. */
  readonly refers?: true;
  /** Whether fields of the type contain the IDs of users. */
  readonly users?: true;
  /** Whether fields of the type show a field of a referenced record, named by `through` and `show`. */
  readonly joins?: true;
  /** Whether fields of the type support `max_length`, `pattern` and other text options. */
  readonly bounded?: true;
  /** Whether fields of the type support `min` and `max`. */
  readonly ranged?: true;
  /** Whether fields of the type are lists of values, which support `of` and `max_items`. */
  readonly listed?: true;
  /** Whether fields of the type are amounts of money, which need `currency`. */
  readonly priced?: true;
  /** Type of the currency of each amount, by which lists can be filtered. Absent if all amounts have the same currency. */
  readonly currency?: FieldType;
  /** Whether fields of the type are JSON documents, which support `schema`. */
  readonly nested?: true;
  /** Whether the field contains the values of the organization's custom fields. */
  readonly custom?: true;
  /** A few valid values, used by the contract test and in OpenAPI examples. */
  readonly examples: readonly unknown[];
}
