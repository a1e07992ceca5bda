import type { ResourceDefinition } from '../definition/index.ts';
import {
  type Field,
  fieldColumns,
  isAssignable,
  isKeptIfAbsent,
  type ParameterText,
  type ServerValue,
} from '../fields/index.ts';
import { column, type Placeholder, quote, record } from '../sql/index.ts';
import type { Body } from './body.ts';
import { customDefaultsSql } from './custom-tables.ts';
import { type CallerScope, organizationOf } from './rows.ts';
import { allowedValue } from './transitions.ts';

/** Values bound by a write's statement. */
export interface WriteValues extends CallerScope {
  readonly body: Body;
}

/** A column and the SQL expression for its value. */
export interface Assignment {
  readonly column: string;
  readonly value: string;
}

const user = ({ caller }: CallerScope) => caller.principal.user;

/** SQL expressions for values set by the server, keyed by kind of value and by verb. */
const serverValues: Readonly<
  Record<ServerValue, Partial<Record<'create' | 'update', (placeholder: Placeholder<CallerScope>) => string>>>
> = {
  id: {},
  organization: { create: organizationOf },
  creator: { create: (placeholder) => `${placeholder(user)}::bigint` },
  editor: {
    create: (placeholder) => `${placeholder(user)}::bigint`,
    update: (placeholder) => `${placeholder(user)}::bigint`,
  },
  created: { create: () => 'now()' },
  updated: { create: () => 'now()', update: () => 'now()' },
};

/**
 * Returns the SQL expression for the value that the server sets for this verb, or undefined if it does not
 * set one.
 */
export const serverValue = (
  field: Field,
  verb: 'create' | 'update',
  placeholder: Placeholder<CallerScope>,
): string | undefined => (field.set === undefined ? undefined : serverValues[field.set][verb]?.(placeholder));

/**
 * Returns a field's columns with the SQL expressions for their values.
 * @param parameters returns the value's parameters, one per column
 */
export function assign<Input>(
  field: Field,
  placeholder: Placeholder<Input>,
  parameters: (input: Input) => readonly ParameterText[],
): Assignment[] {
  const columns = fieldColumns(field);
  const placeholders = columns.map((_, index) => placeholder((input) => parameters(input)[index] ?? null));
  // Values of read-only fields are sent as text for PostgreSQL to parse.
  const expressions = field.readOnly ? undefined : field.type.assign?.(placeholders);
  return columns.map((column, index) => ({
    column: quote(column.name),
    value: expressions?.[index] ?? `${placeholders[index]}::text::${column.type}`,
  }));
}

/** The fields to which a write can assign values, and the scopes to which their transitions can be limited. */
type WrittenResource = Pick<ResourceDefinition, 'name' | 'fields' | 'scopes'>;

/**
 * Returns the assignments for a POST or PUT, to all writable fields and to fields set by the server.
 * @param merge merges a field's new values with its stored values
 */
export const assignments = (
  resource: WrittenResource,
  verb: 'create' | 'update',
  placeholder: Placeholder<WriteValues>,
  merge: (field: Field, writes: readonly Assignment[]) => readonly Assignment[] = (_, writes) => writes,
): Assignment[] =>
  assignmentsOf(resource, verb, placeholder, (field) => {
    const writes = merge(field, assign(field, placeholder, bodyParameters(field)));
    if (!(verb === 'create' ? isAssignable : isKeptIfAbsent)(field)) return writes;
    // Null removes an owner, but stands for an absent list.
    const isPresent = `${placeholder(({ body }) => String(isAssignable(field) || field.isKept ? body[field.name] !== undefined : body[field.name] != null))}::text::boolean`;
    return verb === 'create' ? orCreator(field, placeholder, isPresent, writes) : assignIf(isPresent, writes);
  });

/**
 * Assigns the creator to an assignable field if the body does not contain the field.
 * @param isPresent SQL condition that the body contains the field
 */
export const orCreator = (
  field: Field,
  placeholder: Placeholder<CallerScope>,
  isPresent: string,
  writes: readonly Assignment[],
): readonly Assignment[] => {
  const creator = isAssignable(field) ? serverValue(field, 'create', placeholder) : undefined;
  return creator === undefined
    ? writes
    : writes.map(({ column, value }) => ({
        column,
        value: `case when ${isPresent} then ${value} else ${creator} end`,
      }));
};

/**
 * Returns the assignments for a write.
 * @param writable returns the assignments to a writable field's columns
 */
export const assignmentsOf = (
  { name, fields, scopes }: WrittenResource,
  verb: 'create' | 'update',
  placeholder: Placeholder<CallerScope>,
  writable: (field: Field) => readonly Assignment[],
): Assignment[] =>
  fields.flatMap((field) => {
    if (!field.readOnly) {
      const storedValue = () =>
        verb === 'update' ? column(field) : customDefaultsSql(name, organizationOf(placeholder));
      return onlyAllowed(field, merged(field, storedValue, writable(field)), { verb, scopes, placeholder });
    }
    const value = serverValue(field, verb, placeholder);
    return value === undefined ? [] : [{ column: quote(field.name), value }];
  });

/**
 * Merges the value assigned to a field's first column with the stored value, if the field's type does so.
 * @param storedValue returns the SQL expression for the stored value or, for a new record, for the values of absent keys
 */
const merged = (
  { type: { merge } }: Field,
  storedValue: () => string,
  writes: readonly Assignment[],
): readonly Assignment[] =>
  merge === undefined
    ? writes
    : writes.map(({ column, value }) => ({ column, value: merge(value, storedValue()) }));

/** Makes a write fail if a field's transitions do not allow the assigned value. */
const onlyAllowed = (
  field: Field,
  writes: readonly Assignment[],
  context: Parameters<typeof allowedValue>[2],
): readonly Assignment[] =>
  writes.map(({ column, value }) => ({ column, value: allowedValue(field, value, context) }));

/** Assigns the values if a condition is true, and otherwise keeps the stored values. */
export const assignIf = (condition: string, writes: readonly Assignment[]): Assignment[] =>
  writes.map(({ column, value }) => ({
    column,
    value: `case when ${condition} then ${value} else ${record}.${column} end`,
  }));

/**
 * Returns a function that extracts a field's parameters from a body. The field's default replaces absent and
 * null values.
 */
export function bodyParameters(field: Field): (input: Pick<WriteValues, 'body'>) => readonly ParameterText[] {
  const { name, type } = field;
  const absent =
    field.default === null ? fieldColumns(field).map(() => null) : (type.write?.(field.default) ?? []);
  return ({ body }) => {
    const value = body[name];
    return value === undefined || value === null ? absent : (type.write?.(value) ?? []);
  };
}
