import { boolean } from './boolean.ts';
import { joined, reference } from './links.ts';
import { bigint, integer, number } from './numbers.ts';
import { string, text } from './string.ts';
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
