import type { Field } from '../fields/index.ts';
import { column, indexKey } from '../sql/index.ts';
import { suggestion } from '../yaml/index.ts';
import { type OperatorName, operators } from './operators.ts';
import { type QueryPart, wrong } from './part.ts';

/** The maximum number of values of one filter. */
export const maxFilterValues = 50;

/** A field that callers may filter by, and how. */
export interface Filter {
  readonly field: Field;
  readonly operators: readonly OperatorName[];
}

/** A filter of a request; values as parameters of the field's type, at least one. */
export interface Condition {
  readonly field: Field;
  readonly operator: OperatorName;
  readonly values: readonly string[];
}

/** Filters by the fields that the YAML lists, each with an index. Filters of several fields must all hold. */
export const filters: QueryPart<readonly Filter[], readonly Condition[]> = {
  yaml: {
    description: 'Fields that callers may filter by, each a query parameter with an index.',
    type: 'array',
    items: { type: 'string' },
    uniqueItems: true,
  },
  declare: ({ yaml, fields, reserved, report }) =>
    ((yaml ?? []) as readonly string[]).flatMap((name, index) => {
      const field = fields.get(name);
      const names: readonly OperatorName[] = ['eq'];
      if (field === undefined) {
        report([index], `no field "${name}" here${suggestion(name, [...fields.keys()])}`);
      } else if (names.some((operator) => field.type[operators[operator].needs] === undefined)) {
        report([index], `a ${field.typeName} field cannot be filtered by`);
      }
      if (reserved.includes(name)) report([index], `"${name}" has another meaning`);
      return field === undefined ? [] : [{ field, operators: names }];
    }),
  parameters: (declared) => declared.flatMap(parametersOf).map(({ parameter }) => parameter),
  parse: (declared, query, problems) =>
    declared.flatMap(parametersOf).flatMap(({ field, operator, parameter }) => {
      const given = [query[parameter] ?? []].flat().filter((text) => text !== '');
      const values = given.map((text) => field.type.parse?.(text));
      if (values.length > maxFilterValues) {
        problems.push(wrong(parameter, `must be given at most ${maxFilterValues} times`));
      } else if (values.includes(undefined)) {
        problems.push(wrong(parameter, `must be ${field.type.expected}`));
      }
      return values.length === 0
        ? []
        : [{ field, operator, values: values.filter((value) => value !== undefined) }];
    }),
  shape: (asked) =>
    asked
      .map(({ field, operator, values }) => `${field.name} ${operator}${values.length > 1 ? '*' : ''}`)
      .join(),
  cost: (asked) => ({
    equal: asked.map(({ field }) => field),
    scan: asked.some(({ values }) => values.length > 1),
  }),
  clauses: (_, asked, placeholder) => ({
    where: asked.map(({ field, operator, values: { length } }, index) => {
      const value = placeholder((conditions) => {
        const values = conditions[index]?.values ?? [];
        return length > 1 ? values : (values[0] ?? null);
      });
      return operators[operator].where(field.type, column(field), value, length > 1);
    }),
  }),
  describe: (declared) =>
    declared.flatMap(parametersOf).map(({ field, operator, parameter }) => ({
      name: parameter,
      in: 'query',
      description: operators[operator].describe(field),
      schema: {
        ...field.type.json,
        ...(field.values && { examples: field.values.list, 'x-extensible-enum': field.values.list }),
      },
    })),
  // A filtered list is served in the default order.
  indexes: (declared, sort) =>
    declared.map(({ field }) => ({ field, keys: [indexKey(field), indexKey(sort)] })),
};

const parametersOf = ({ field, operators: names }: Filter) =>
  names.map((operator) => ({ field, operator, parameter: operators[operator].parameter(field.name) }));
