import { booleanType } from './boolean.ts';
import { joinedType, referenceType } from './links.ts';
import { bigintType, integerType, numberType } from './numbers.ts';
import { stringType, textType } from './string.ts';
import { dateType, timestampType } from './temporal.ts';
import type { FieldType } from './type.ts';

/** All field types, keyed by their names in YAML. */
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

/**
 * The columns that types need in addition to a field's first column, keyed by suffix. Each function returns
 * an SQL expression that computes the column's value from the field's value as text.
 */
export const extraColumns: ReadonlyMap<string, (text: string) => string> = new Map(
  Object.values<FieldType>(fieldTypes).flatMap(({ columns, fromText }) =>
    (columns?.({ readOnly: false }) ?? [])
      .map(
        ({ suffix }, index) => [suffix, (text: string) => fromText?.columns(text)[index] ?? 'null'] as const,
      )
      .slice(1),
  ),
);

/**
 * Returns the first column of the stored field to which a column belongs.
 * @param names the names of all columns in the table
 */
export function firstColumn(column: string, names: readonly string[]): string {
  for (const suffix of extraColumns.keys()) {
    const name = column.slice(0, -suffix.length);
    if (column.endsWith(suffix) && names.includes(name)) return name;
  }
  return column;
}
