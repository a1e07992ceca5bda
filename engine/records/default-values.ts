import type { ResourceDefinition } from '../definition/index.ts';
import { copiedField, type Expression, expressionSql } from '../expressions/index.ts';
import { type Field, fieldColumns } from '../fields/index.ts';
import { type Placeholder, quote } from '../sql/index.ts';
import type { Assignment, WriteValues } from './assignments.ts';
import { type CallerScope, callerColumns } from './rows.ts';

/**
 * Completes the assignments of an INSERT statement: a field with `default_from` gets the value of its expression, unless
 * the record contains the field. The expression reads the values that the statement assigns to the other fields.
 * @param isPresent returns the SQL condition that the record contains a field
 */
export function withDefaults(
  { fields, defaults }: ResourceDefinition,
  assignments: readonly Assignment[],
  placeholder: Placeholder<CallerScope>,
  isPresent: (field: Field) => string,
): readonly Assignment[] {
  if (defaults.size === 0) return assignments;
  const assigned = new Map(assignments.map(({ column, value }) => [column, value]));
  const assignedValue = (column: string) => `(${assigned.get(quote(column)) ?? 'null'})`;
  const calculated = new Map(
    fields.flatMap((field) => {
      const expression = defaults.get(field.name);
      if (expression === undefined || field.aliasOf !== undefined) return [];
      const condition = isPresent(field);
      const values = defaultValues(field, expression, placeholder, assignedValue);
      return fieldColumns(field).map(({ name }, index) => {
        const value = `case when ${condition} then ${assignedValue(name)} else ${values[index] ?? 'null'} end`;
        return [quote(name), value] as const;
      });
    }),
  );
  return assignments.map(({ column, value }) => ({ column, value: calculated.get(column) ?? value }));
}

/** Returns the condition that a request's body contains a field. */
export const isInBody =
  (placeholder: Placeholder<WriteValues>) =>
  ({ name }: Field): string =>
    `${placeholder(({ body }) => String(body[name] !== undefined))}::text::boolean`;

/** Returns SQL expressions for the values of a field's columns. */
function defaultValues(
  field: Field,
  expression: Expression,
  placeholder: Placeholder<CallerScope>,
  assignedValue: (column: string) => string,
): readonly string[] {
  const copied = copiedField(expression);
  // A copied timestamp keeps its offset.
  const isCopied = copied !== undefined && expression.type !== 'integer';
  if (isCopied) return fieldColumns(field).map(({ suffix }) => assignedValue(`${copied}${suffix}`));
  const value = expressionSql(expression, { column: assignedValue, ...callerColumns(placeholder) });
  return [
    field.type.calculated?.(value) ?? value,
    // A calculated timestamp is in UTC.
    ...(field.typeName === 'timestamp' ? [`case when ${value} is not null then 'Z' end`] : []),
  ];
}
