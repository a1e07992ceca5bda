import type { ResourceDefinition } from '../definition/index.ts';
import { currencyField, type Field, fieldTypes, type JsonSchema } from '../fields/index.ts';
import type { SelectedColumns } from '../sql/index.ts';

/** Periods by which dates and timestamps can be grouped. PostgreSQL uses the same names. */
const periods = ['day', 'week', 'month', 'quarter', 'year'] as const;
type Period = (typeof periods)[number];

/** A field by whose values, or by whose periods, an aggregate groups records. */
export interface Group {
  /** The name in requests and responses, for example `stage` or `created_at.month`. */
  readonly name: string;
  readonly field: Field;
  /** Absent if each value forms a group. */
  readonly period?: Period;
}

/** Functions that combine the values of a field. PostgreSQL uses the same names. */
const functions = ['sum', 'avg', 'min', 'max'] as const;

/** The number of records in a group, or a value that combines their values in a field. */
export interface Measure {
  /** The name in requests and responses, for example `count()` or `sum(amount)`. */
  readonly name: string;
  readonly function: 'count' | (typeof functions)[number];
  /** Absent for `count`. */
  readonly field?: Field;
}

/** The number of records. Every aggregate can return it. */
export const countMeasure: Measure = { name: 'count()', function: 'count' };

/** The parts of a definition on which the names depend. */
type Definition = Pick<ResourceDefinition, 'aggregates'>;

/** Which names to return: all names, or only the names that the API description lists. */
interface NameOptions {
  readonly includesFormer?: boolean;
}

const isIncluded =
  ({ includesFormer = false }: NameOptions) =>
  ({ isFormer = false }: { readonly isFormer?: boolean }): boolean =>
    includesFormer || !isFormer;

/** Returns the groups that callers can request. */
export function groupsOf({ aggregates }: Definition, options: NameOptions = {}): readonly Group[] {
  const { groupBy = [], measures = [] } = aggregates ?? {};
  const declared = groupBy
    .filter(isIncluded(options))
    .flatMap(({ name, field }): Group[] => [
      ...(field.type.groupKey !== undefined ? [{ name, field }] : []),
      ...(field.type.localTime === undefined
        ? []
        : periods.map((period) => ({ name: `${name}.${period}`, field, period }))),
    ]);
  const currencies = measures
    .filter(isIncluded(options))
    .flatMap(({ name, field }) => currencyGroup(name, field) ?? [])
    .filter(({ name }) => !declared.some((group) => group.name === name));
  return [...declared, ...currencies];
}

/** Returns the group by the currency of amounts, or undefined if all amounts have the same currency. */
function currencyGroup(name: string, amounts: Field): Group | undefined {
  const field = currencyField(amounts);
  return field && { name: `${name}.currency`, field };
}

/** Returns the measures that callers can request. */
export const measuresOf = ({ aggregates }: Definition, options: NameOptions = {}): readonly Measure[] => [
  countMeasure,
  ...(aggregates?.measures ?? [])
    .filter(isIncluded(options))
    .flatMap(({ name, field }): Measure[] =>
      functions
        .filter((name) => field.type.calculated !== undefined || name === 'min' || name === 'max')
        .map((combination) => ({ name: `${combination}(${name})`, function: combination, field })),
    ),
];

/** Returns the group by currency that a measure of amounts in different currencies needs, or undefined for other measures. */
export const groupOfMeasure = ({ name, function: combination, field }: Measure): Group | undefined =>
  field && currencyGroup(name.slice(combination.length + 1, -1), field);

/** A type of values in groups. */
type ValueType = Pick<Field['type'], 'json' | 'examples'> & SelectedColumns['fields'][number]['type'];

/** Returns the type of a group's values. */
export const typeOfGroup = ({ field, period }: Group): ValueType =>
  period === undefined ? field.type : fieldTypes.date;

/** Returns the type of a measure's values. Sums of integers can exceed 64 bits. */
export function typeOfMeasure({ function: combination, field }: Measure): ValueType {
  if (field === undefined) return fieldTypes.int64;
  const isInteger = field.type.operand === 'integer';
  if (isInteger && combination === 'sum') return { ...fieldTypes.int64, json: { type: 'integer' } };
  return isInteger && combination === 'avg' ? fieldTypes.number : field.type;
}

/** Returns whether a measure of a group has no value if no record of the group has one. */
const isNullable = ({ function: combination, field }: Measure): boolean =>
  field !== undefined && (combination !== 'sum' || field.type.currency !== undefined);

/** Returns the schemas of the values in a group by their names. */
export const valueSchemas = (definition: Definition): Readonly<Record<string, JsonSchema>> =>
  Object.fromEntries([
    ...groupsOf(definition).map((group) => {
      const { field, period } = group;
      const description =
        period === undefined ? field.description : `First day of the ${period} of \`${field.name}\`.`;
      const values = period === undefined && field.values && { 'x-extensible-enum': field.values.list };
      const json = { ...typeOfGroup(group).json, ...values };
      return [group.name, describeValue(json, field.nullable, description)] as const;
    }),
    ...measuresOf(definition).map(
      (measure) =>
        [
          measure.name,
          describeValue(typeOfMeasure(measure).json, isNullable(measure), descriptionOf(measure)),
        ] as const,
    ),
  ]);

const descriptionOf = ({ function: combination, field }: Measure): string =>
  field === undefined
    ? 'Number of records.'
    : `${{ count: 'Number', sum: 'Sum', avg: 'Average', min: 'Minimum', max: 'Maximum' }[combination]} of \`${field.name}\`.`;

/** Returns the schema of a value that can be null. */
function describeValue(
  { examples: _, ...json }: JsonSchema,
  canBeNull: boolean,
  description: string,
): JsonSchema {
  const type = canBeNull ? [json.type, 'null'].flat() : json.type;
  return { ...json, type, ...(description !== '' && { description }) };
}
