import { type Field, indexedPrefix, lookupOf } from '../fields/index.ts';
import { quote } from './names.ts';

/**
 * Alias of a resource's table in statements that read or write records. Other generated names start with an underscore.
 */
export const record = 't';

/**
 * Name of the column that counts writes to a record. A trigger increments it on every update. The name cannot collide
 * with a field.
 */
export const versionColumn = '_version';

/** Returns the qualified name of a field's first column. */
export const column = (field: Pick<Field, 'name'>): string => `${record}.${quote(field.name)}`;

/** Returns a field's index key: its first ORDER BY key, which is of bounded size. */
export const indexKey = ({ name, type }: Field): string => type.order?.(quote(name))[0] ?? quote(name);

/** Returns the index key that finds a field's value: the key of its lookup, if any, otherwise {@link indexKey}. */
export const lookupKey = (field: Field): string =>
  field.lookup === undefined ? indexKey(field) : indexedPrefix(lookupOf(field.lookup).key(quote(field.name)));
