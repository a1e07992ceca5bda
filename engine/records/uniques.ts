import type { Unique } from '../definition/index.ts';
import type { Distinction, Field } from '../fields/index.ts';
import { column } from '../sql/index.ts';
import type { Body } from './body.ts';
import type { ItemTable } from './items.ts';

/** The names of fields that are unique together. */
export const namesOf = (unique: Unique): string[] => unique.map(({ name }) => name);

/** A part of identifiers; no field has a + in its name. */
export const joinedNames = (unique: Unique): string => namesOf(unique).join('+');

/** How a unique index tells the values of a field apart. @param value SQL of the value */
export const distinctionOf = ({ name, type }: Field, value: string): Distinction => {
  if (type.distinct === undefined) throw new Error(`${name} cannot be unique`);
  return type.distinct(value);
};

/** The condition that values of unique fields are all there. */
export const allPresentSql = (unique: Unique, values: readonly string[]): string =>
  unique.map((field, index) => distinctionOf(field, values[index] ?? '').presence).join(' and ');

/** The condition that the record has these values of unique fields, and all of them. */
export const sameKeySql = (unique: Unique, values: readonly string[]): string =>
  unique
    .flatMap((field, index) => {
      const stored = distinctionOf(field, column(field));
      const given = distinctionOf(field, values[index] ?? '');
      return [...stored.keys.map((key, part) => `${key} = ${given.keys[part]}`), stored.presence];
    })
    .join(' and ');

/** SQL of the items' values of unique fields. */
export const itemValues = (table: ItemTable, unique: Unique): string[] =>
  unique.map((field) => table.assigned(field)[0]?.value ?? 'null');

/** Whether a body has no value of a field. */
export const isBlankValue = (body: Body, { name }: Field): boolean =>
  body[name] === undefined || body[name] === null || body[name] === '';

/** The values that a body has of unique fields, as a text that is the same for the same values. */
export const uniqueKeyText = (unique: Unique, body: Body): string =>
  JSON.stringify(unique.map(({ name, type }) => type.write?.(body[name])));
