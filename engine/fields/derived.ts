import type { Field, RollupFunction } from './field.ts';
import { fieldTypeOf } from './field-types.ts';
import type { FieldType } from './type.ts';

/** Returns the type of a computed field: the type of its values without the properties of stored values. */
export function computedType(type: FieldType): FieldType {
  const {
    columns: _columns,
    write: _write,
    assign: _assign,
    distinct: _distinct,
    fromText: _fromText,
    integrity: _integrity,
    wider: _wider,
    ...values
  } = type;
  return values;
}

/** Returns the type of a rollup, by which lists cannot be filtered or sorted, because its values are in other tables. */
export function rollupType(type: FieldType): FieldType {
  const {
    columns: _columns,
    order: _order,
    bounds: _bounds,
    equals: _equals,
    among: _among,
    groupKey: _groupKey,
    localTime: _localTime,
    ...values
  } = storedRollupType(type);
  return values;
}

/** Returns the type of a stored rollup, whose values are in a column that only the database writes. */
export function storedRollupType(type: FieldType): FieldType {
  const { operand: _operand, calculated: _calculated, ...values } = computedType(type);
  return { ...values, ...(type.columns && { columns: type.columns }), label: 'rollup' };
}

/** Returns whether computed fields can have a type. */
export const isComputable = ({ operand, calculated }: FieldType): boolean =>
  operand === 'boolean' || calculated !== undefined;

/** Returns whether rollups can have a type. */
export const canRollUp = ({ operand, calculated }: FieldType): boolean =>
  operand === 'date' || operand === 'timestamp' || calculated !== undefined;

/**
 * Returns an SQL expression for the value of a computed field, which is null if it is out of range.
 * @param value SQL expression for the unrounded value
 */
export function computedSql(field: Pick<Field, 'typeName' | 'currency'>, value: string): string {
  const { operand, calculated, columns } = fieldTypeOf(field.typeName, field);
  if (calculated === undefined) return value;
  const number = `(${value})::numeric`;
  if (operand === 'integer') return `((${calculated(number)})::${columns?.({ readOnly: true })[0]?.type})`;
  // Request bodies cannot contain larger numbers either. The limit bounds the size of index entries.
  return `(case when abs(${number}) < 1e308 then ${calculated(number)} end)`;
}

/**
 * Returns an SQL expression for the value of a rollup. Counts and sums of no values are 0, other functions return null.
 * @param values SQL expression for the values; undefined for `count`
 */
export function rollupSql(
  { typeName, currency, rollup }: Pick<Field, 'typeName' | 'currency' | 'rollup'>,
  values: string | undefined,
): string {
  if (rollup === undefined || values === undefined) return 'count(*)';
  const type = fieldTypeOf(typeName, { ...(currency !== undefined && { currency }) });
  const result = `${rollup.function}(${values})`;
  const isCalculated = rollup.function === 'sum' || rollup.function === 'avg';
  if (!isCalculated) return result;
  const number = rollup.function === 'sum' ? `coalesce(${result}, 0)` : result;
  return type.calculated?.(number) ?? number;
}

/** Returns whether a rollup can be null: without any value, or if a sum is out of range. */
export const isNullableRollup = (name: RollupFunction, { operand }: FieldType): boolean =>
  name !== 'count' && (name !== 'sum' || operand === 'integer');
