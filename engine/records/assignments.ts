import { columnsOf, type Field, type Parameter, type ServerValue } from '../fields/index.ts';
import { type Placeholder, quote } from '../sql/index.ts';
import type { Body } from './body.ts';
import { organizationOf, type Scope } from './rows.ts';

/** The values that a write binds. */
export interface Writing extends Scope {
  readonly body: Body;
  readonly caller: { readonly principal: { readonly user: string | null } };
}

/** A column and the SQL of its value. */
export interface Assignment {
  readonly column: string;
  readonly value: string;
}

const user = ({ caller }: Writing) => caller.principal.user;

/** The SQL that the server writes into each kind of field. */
const serverValues: Readonly<
  Record<ServerValue, Partial<Record<'create' | 'update', (placeholder: Placeholder<Writing>) => string>>>
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

/** The SQL of the value that the server sets for this verb; undefined if it sets none. */
export const serverValue = (
  field: Field,
  verb: 'create' | 'update',
  placeholder: Placeholder<Writing>,
): string | undefined => (field.set === undefined ? undefined : serverValues[field.set][verb]?.(placeholder));

/**
 * The columns of a field and the SQL of their values.
 * @param parameters the value's parameters, one for each column
 */
export function assign<Input>(
  field: Field,
  placeholder: Placeholder<Input>,
  parameters: (input: Input) => readonly Parameter[],
): Assignment[] {
  const columns = columnsOf(field);
  const placeholders = columns.map((_, index) => placeholder((input) => parameters(input)[index] ?? null));
  // PostgreSQL reads the text of a read-only field itself.
  const assigned = field.readOnly ? undefined : field.type.assign?.(placeholders);
  return columns.map((column, index) => ({
    column: quote(column.name),
    value: assigned?.[index] ?? `${placeholders[index]}::text::${column.type}`,
  }));
}

/** The columns that POST or PUT of a body writes: every writable field, and what the server sets. */
export function assignments(
  fields: readonly Field[],
  verb: 'create' | 'update',
  placeholder: Placeholder<Writing>,
): Assignment[] {
  return fields.flatMap((field) => {
    if (!field.readOnly) return assign<Writing>(field, placeholder, bodyParameters(field));
    const value = serverValue(field, verb, placeholder);
    return value === undefined ? [] : [{ column: quote(field.name), value }];
  });
}

/** A field's parameters from a body; absent and null mean the field's default. */
export function bodyParameters(field: Field): (input: Writing) => readonly Parameter[] {
  const { name, type } = field;
  const absent =
    field.default === null ? columnsOf(field).map(() => null) : (type.write?.(field.default) ?? []);
  return ({ body }) => {
    const value = body[name];
    return value === undefined || value === null ? absent : (type.write?.(value) ?? []);
  };
}
