import { UserError } from '../errors.ts';
import {
  anyCurrency,
  constraintSql,
  type Field,
  type FieldType,
  fieldColumns,
  fieldTypes,
} from '../fields/index.ts';
import { defaultSql, quote } from '../sql/index.ts';
import { isMemberSql } from '../tables/index.ts';

/** Returns whether another type can represent every value of a type. */
export const isWider = (source: string, target: FieldType): boolean =>
  target.text !== undefined || typeNamed(source)?.wider?.some((name) => typeNamed(name) === target) === true;

/** Returns the suffixes of the columns that store fields of a type. */
export const storedSuffixes = (typeName: string): readonly string[] =>
  (typeNamed(typeName)?.columns?.({ readOnly: false }) ?? [{ suffix: '' }]).map(({ suffix }) => suffix);

/** Returns the field type with this name, or undefined if it does not exist. */
const typeNamed = (name: string): FieldType | undefined =>
  Object.hasOwn(fieldTypes, name) ? fieldTypes[name as keyof typeof fieldTypes] : undefined;

/** Returns the error for values that cannot be converted. */
const inconvertible = ({ location, name }: Field, from: string, to: string): UserError =>
  new UserError(`${location}  "${name}" cannot be converted from ${from} to ${to}. Declare a new field.`);

/**
 * Checks that a change keeps the currencies of stored amounts, which are not part of the column with the amounts.
 * @param before the field's previous type and currency
 * @throws UserError if it does not
 */
export function assertKeepsCurrency(
  field: Field,
  before: { readonly type: string; readonly currency?: string | undefined },
): void {
  const label = ({ type, currency }: typeof before) =>
    currency === undefined ? type : `${type} (currency: ${currency})`;
  const after = { type: field.typeName, currency: field.currency };
  const isConverted = field.type.text !== undefined || typeNamed(before.type)?.text !== undefined;
  const currencies = [before.currency, after.currency];
  // A number and an amount in a fixed currency are stored in the same way.
  const isNumber = currencies.includes(undefined) && !currencies.includes(anyCurrency);
  if (before.currency !== after.currency && !isConverted && !isNumber)
    throw inconvertible(field, label(before), label(after));
}

/** The conversion of a field's stored values. */
export interface FieldConversion {
  /** Completes "is not …". */
  readonly label: string;
  /** SQL condition that is true if the value can be converted and meets the field's rules. */
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
  const storedText = isText
    ? column
    : (type?.asText?.(columns) ?? type?.read?.(columns) ?? `(${column})::text`);
  const conversion = field.type.fromText;
  if (conversion === undefined || type?.element !== undefined || type?.nested === true)
    throw inconvertible(field, from, field.typeName);
  const target = {
    referredTable: quote(field.to ?? ''),
    organization,
    isMember: (user: string) => isMemberSql(organization, user),
  };
  const fits = (text: string): string => {
    const rules = constraintSql(field, `(${conversion.columns(text)[0]})`);
    const canConvert = conversion.fits(text, target);
    return rules === undefined
      ? canConvert
      : `case when ${canConvert} then (${rules}) is not false else false end`;
  };
  const text =
    instead === undefined
      ? storedText
      : `(case when ${fits(storedText)} then ${storedText} else (${instead})::text end)`;
  // An empty string counts as null unless the new type stores text.
  const isNone = isText && field.type.text === undefined ? `coalesce(${text}, '') = ''` : `${text} is null`;
  return {
    label: conversion.label,
    fits: fits(text),
    isNone,
    columns: conversion.columns(text),
  };
}

/**
 * Returns the SQL expression for the value given to records without a value, or undefined if the field has no
 * default and is not nullable.
 * @param index index of the column
 */
export function defaultOf(field: Field, index = 0): string | undefined {
  if (field.nullable) return 'null';
  return field.required || field.default === null ? undefined : defaultSql(field, index);
}

/** Returns whether a field's default consists of the values of several columns. */
export const hasDefaults = (field: Field): boolean =>
  field.type.priced === true && field.default !== null && fieldColumns(field).length > 1;
