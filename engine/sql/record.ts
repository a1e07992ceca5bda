import { type Field, indexedPrefix, lookupOf } from '../fields/index.ts';
import { quote } from './names.ts';

// Names in YAML begin with a letter; generated names that could collide with them do not.
/** The alias of the record in every statement for records. */
export const record = 't';

/** The column that counts writes to a record. A trigger increments it on every write. */
export const versionColumn = '_version';

/** The quoted column of the record, or the first one of a field that has several. */
export const column = (field: Pick<Field, 'name'>): string => `${record}.${quote(field.name)}`;

/** The index key of a field: its first order key, which is of bounded size. */
export const indexKey = ({ name, type }: Field): string => type.order?.(quote(name))[0] ?? quote(name);

/** The index key that finds a field's value: that of its lookup, if it has one. */
export const lookupKey = (field: Field): string =>
  field.lookup === undefined ? indexKey(field) : indexedPrefix(lookupOf(field.lookup).key(quote(field.name)));
