import { booleanType } from './boolean.ts';
import { documentType } from './documents.ts';
import { joinedType, referenceType } from './links.ts';
import { type ElementName, listType } from './lists.ts';
import { anyCurrency, moneyType } from './money.ts';
import { bigintType, integerType, numberType } from './numbers.ts';
import { referencesType } from './references.ts';
import { stringType, textType } from './string.ts';
import { dateType, timestampType } from './temporal.ts';
import type { FieldType, JsonSchema } from './type.ts';
import { userType } from './user.ts';

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
  references: referencesType,
  user: userType,
  list: listType('string'),
  money: moneyType(anyCurrency),
  json: documentType(undefined),
  joined: joinedType,
} as const satisfies Readonly<Record<string, FieldType>>;

/** Returns the type with a name, or undefined if it does not exist. */
export const fieldTypeNamed = (name: string | undefined): FieldType | undefined =>
  Object.entries<FieldType>(fieldTypes).find(([typeName]) => typeName === name)?.[1];

/** The name of a field type. */
export type FieldTypeName = keyof typeof fieldTypes;

/** The keys of a field that determine its type in addition to the type's name. */
export interface TypeOptions {
  /** The type of a list's values. */
  readonly of?: ElementName;
  /** The ISO 4217 code of an amount's currency, or `any`. */
  readonly currency?: string;
  /** The JSON Schema of a document. */
  readonly schema?: JsonSchema;
}

/** Returns the type of a field. */
export function fieldTypeOf(name: FieldTypeName, { of, currency, schema }: TypeOptions): FieldType {
  const type: FieldType = fieldTypes[name];
  if (type.listed === true && of !== undefined) return listType(of);
  if (type.priced === true && currency !== undefined) return moneyType(currency);
  return type.nested === true && schema !== undefined ? documentType(schema) : type;
}

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
