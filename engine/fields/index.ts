// Fields: what a value is, one plain object per type (column, JSON schema, how it is read, written, compared).
// May import nothing local.
import { boolean } from './boolean.ts';
import { joined, reference } from './links.ts';
import { bigint, integer, number } from './numbers.ts';
import { head, isStorable, type Lookup, lookups, string, text } from './string.ts';
import { date, timestamp } from './temporal.ts';
import type { FieldType } from './type.ts';

/** Every field type by the name that YAML uses. */
export const fieldTypes = {
  string,
  text,
  integer,
  int64: bigint,
  number,
  boolean,
  timestamp,
  date,
  reference,
  joined,
} as const satisfies Readonly<Record<string, FieldType>>;

/** The name of a field type. */
export type FieldTypeName = keyof typeof fieldTypes;

export { ExactNumber, int64, isRowId, parseExactJson } from './exact.ts';
export { judgeValue, sentence, validator, valueSchema } from './judge.ts';
export { isDate, parseTimestamp } from './temporal.ts';
export type { Column, FieldOptions, FieldType, Parameter, Schema } from './type.ts';
export { head, isStorable, type Lookup, lookups };
