import { booleanType } from './boolean.ts';
import { joinedType, referenceType } from './links.ts';
import { bigintType, integerType, numberType } from './numbers.ts';
import { stringType, textType } from './string.ts';
import { dateType, timestampType } from './temporal.ts';
import type { FieldType } from './type.ts';

/** All field types by their name in YAML. */
export const fieldTypes = {
  string: stringType,
  text: textType,
  integer: integerType,
  int64: bigintType,
  number: numberType,
  boolean: booleanType,
  timestamp: timestampType,
  date: dateType,
  reference: referenceType,
  joined: joinedType,
} as const satisfies Readonly<Record<string, FieldType>>;

/** The name of a field type. */
export type FieldTypeName = keyof typeof fieldTypes;
