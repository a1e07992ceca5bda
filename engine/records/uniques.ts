import type { Unique } from '../definition/index.ts';
import type { Distinction, Field } from '../fields/index.ts';
import { column } from '../sql/index.ts';
import type { Body } from './body.ts';
import type { ItemTable } from './items.ts';

/** Returns the names of fields that are unique together. */
export const namesOf = (unique: Unique): string[] => unique.map(({ name }) => name);

/** Returns the field names as part of an identifier. Field names cannot contain "+". */
export const joinedNames = (unique: Unique): string => namesOf(unique).join('+');

/**
 * Returns how a unique index distinguishes the values of a field.
 * @param value SQL expression for the value
 */
export const distinctionOf = ({ name, type }: Field, value: string): Distinction => {
  if (type.distinct === undefined) throw new Error(`${name} cannot be unique`);
  return type.distinct(value);
};

/** Returns an SQL condition that is true if all values of the unique fields are present. */
export const allPresentSql = (unique: Unique, values: readonly string[]): string =>
  unique.map((field, index) => distinctionOf(field, values[index] ?? '').presence).join(' and ');

/**
 * Returns an SQL condition that is true if a record has these values for unique fields and none of them is
 * absent.
 */
export const sameKeySql = (unique: Unique, values: readonly string[]): string =>
  unique
    .flatMap((field, index) => {
      const stored = distinctionOf(field, column(field));
      const expected = distinctionOf(field, values[index] ?? '');
      return [...stored.keys.map((key, part) => `${key} = ${expected.keys[part]}`), stored.presence];
    })
    .join(' and ');

/** Returns SQL expressions for an item's unique values. */
export const itemValues = (table: ItemTable, unique: Unique): string[] =>
  unique.map((field) => table.assignments(field)[0]?.value ?? 'null');

/** Returns whether a body contains no value for a field. */
export const isBlankValue = (body: Body, { name }: Field): boolean =>
  body[name] === undefined || body[name] === null || body[name] === '';

/** Returns a body's values for unique fields as text that is equal for equal values. */
export const uniqueKeyText = (unique: Unique, body: Body): string =>
  JSON.stringify(unique.map(({ name, type }) => type.write?.(body[name])));
