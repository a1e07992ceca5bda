import { type Field, type FieldType, fieldTypes } from '../fields/index.ts';
import { literal, quote } from '../sql/index.ts';

/** Returns whether another type can represent every value of a type. */
export const isWider = (source: string, target: FieldType): boolean =>
  target.text !== undefined || typeNamed(source)?.wider?.some((name) => typeNamed(name) === target) === true;

/** Returns the suffixes of the columns that store fields of a type. */
export const storedSuffixes = (typeName: string): readonly string[] =>
  (typeNamed(typeName)?.columns?.({ readOnly: false }) ?? [{ suffix: '' }]).map(({ suffix }) => suffix);

/** Returns the field type with this name, or undefined if it does not exist. */
const typeNamed = (name: string): FieldType | undefined =>
  Object.hasOwn(fieldTypes, name) ? fieldTypes[name as keyof typeof fieldTypes] : undefined;

/** The conversion of a field's stored values. */
export interface FieldConversion {
  /** Completes "is not …". */
  readonly label: string;
  /** SQL condition that is true if the value can be converted. */
  readonly fits: string;
  /** SQL condition that is true if the record does not have a value and therefore gets the default. */
  readonly isNone: string;
  /** SQL expressions for the new columns. */
  readonly columns: readonly string[];
}

/**
 * Returns the conversion of a field's values to its new type.
 * @param from the name of the previous type
 * @param columns SQL expressions for the previous columns
 * @param instead SQL expression of type text that replaces invalid values
 */
export function convertField(
  field: Field,
  from: string,
  columns: readonly string[],
  organization: string,
  instead: string | undefined,
): FieldConversion {
  const [column = ''] = columns;
  const type = typeNamed(from);
  const isText = type?.text !== undefined;
  const storedText = isText ? column : (type?.read?.(columns) ?? `(${column})::text`);
  const conversion = field.type.fromText;
  if (conversion === undefined) throw new Error(`values cannot be converted to ${field.typeName}`);
  const target = { referredTable: quote(field.to ?? ''), organization };
  const text =
    instead === undefined
      ? storedText
      : `(case when ${conversion.fits(storedText, target)} then ${storedText} else (${instead})::text end)`;
  // An empty string counts as null unless the new type stores text.
  const isNone = isText && field.type.text === undefined ? `coalesce(${text}, '') = ''` : `${text} is null`;
  return {
    label: conversion.label,
    fits: conversion.fits(text, target),
    isNone,
    columns: conversion.columns(text),
  };
}

/**
 * Returns the SQL expression for the value given to records without a value, or undefined if the field has no
 * default and is not nullable.
 */
export function defaultOf({ default: value, nullable, required }: Field): string | undefined {
  if (nullable) return 'null';
  if (required || value === null) return undefined;
  return typeof value === 'string' ? literal(value) : String(value);
}
