import type { Field } from '../fields/index.ts';
import { quote } from './statement.ts';

// Names of YAML begin with a letter: those of the statements' own parts that may meet them do not.
/** The alias of the record in every statement for records. */
export const record = 't';

/** A column of the record; the first one of a field that has several. */
export const column = (field: Pick<Field, 'name'>): string => `${record}.${quote(field.name)}`;

/** What an index holds of a field: its first order key, which is of bounded size. */
export const indexKey = ({ name, type }: Field): string => type.order?.(quote(name))[0] ?? quote(name);
