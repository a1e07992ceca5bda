import { customName, type Field, type FieldTypeName } from '../fields/index.ts';
import { column, literal, quote, record } from '../sql/index.ts';
import type { Filter, FilterParameter } from './filter.ts';
import { type Operand, type OperatorName, operatorOf, operatorsOf } from './operators.ts';

/** The table with the values of custom fields of all organizations, one row per record and field, for filters. */
export const customValuesTable = 'crm_custom_values';

/** Columns of {@link customValuesTable} that contain values, by the type of the custom field. */
export const customValueColumns: Readonly<Partial<Record<FieldTypeName, string>>> = {
  string: 'text_value',
  text: 'text_value',
  integer: 'number_value',
  int64: 'number_value',
  number: 'number_value',
  boolean: 'boolean_value',
  date: 'date_value',
  timestamp: 'time_value',
};

/** Filters for each set of custom fields. */
const filtersByFields = new WeakMap<readonly Field[], readonly Filter[]>();

/** Returns the filters of custom fields: each field has all operators of its type. */
export function customFilters(fields: readonly Field[]): readonly Filter[] {
  const cached = filtersByFields.get(fields);
  if (cached !== undefined) return cached;
  const filters = fields.map((field): Filter => {
    const operators = operatorsOf(field);
    const parameters = operators.map(
      (operator): FilterParameter => ({ name: `${field.name}[${operator}]`, operator }),
    );
    return {
      name: field.name,
      field,
      operators,
      parameters: [{ name: field.name, operator: 'eq' }, ...parameters],
    };
  });
  filtersByFields.set(fields, filters);
  return filters;
}

/** Returns declarations with the filters of custom fields. */
export const withCustomFilters = <T extends { readonly filters: readonly Filter[] }>(
  declarations: T,
  fields: readonly Field[],
): T =>
  fields.length === 0
    ? declarations
    : { ...declarations, filters: [...declarations.filters, ...customFilters(fields)] };

/** Operators that match records without a value: they exclude the records that the other operator finds. */
const excluding: ReadonlyMap<OperatorName, OperatorName> = new Map([['ne', 'eq']]);

/**
 * Returns the condition that a record's custom field has a value that an operator matches.
 * @param key SQL expression for the key of the custom field
 * @param organization SQL expression for the ID of the organization
 */
export function customCondition(
  { field, operator }: { readonly field: Field; readonly operator: OperatorName },
  operand: Operand,
  { key, organization }: { readonly key: string; readonly organization: string },
): string {
  const { custom: { resource } = { resource: '' }, typeName } = field;
  const valueField: Field = { ...field, name: customValueColumns[typeName] ?? '' };
  const [word] = operatorOf(operator).words === undefined ? [] : operand.values;
  const condition =
    word === undefined
      ? ` and ${operatorOf(excluding.get(operator) ?? operator).where(valueField, operand)}`
      : '';
  // Inside the subquery, the alias stands for the row with the value, so that the operators' conditions apply to it.
  const rows = `select ${record}."record_id" from ${quote(customValuesTable)} ${record} where ${record}."organization_id" = ${organization} and ${record}."resource" = ${literal(resource)} and ${record}."field" = ${key}${condition}`;
  const found = `(${record}."id" in (${rows}) and jsonb_exists(${column({ name: customName })}, ${key}))`;
  const isExcluded = word === undefined ? excluding.has(operator) : word === 'true';
  return isExcluded ? `not ${found}` : found;
}
