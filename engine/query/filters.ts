import type { FieldIssue } from '../errors.ts';
import { type Field, type JsonSchema, lookupOf, refersToUser } from '../fields/index.ts';
import { indexKey, lookupKey } from '../sql/index.ts';
import { implies, oneOfSchema, suggestion } from '../yaml/index.ts';
import { type OperatorName, operatorOf, operators } from './operators.ts';
import {
  type DeclarationContext,
  type NamedField,
  parameterIssue,
  type Query,
  type QueryPart,
} from './part.ts';

/** Maximum number of values per filter. */
export const maxFilterValues = 50;

/** Maximum number of unknown filters named in a response. */
const maxUnknown = 5;

/** A filterable field and its operators. */
interface Filter {
  readonly field: Field;
  readonly operators: readonly OperatorName[];
  readonly parameters: readonly FilterParameter[];
}

/** A query parameter of a filter. */
interface FilterParameter {
  readonly name: string;
  readonly operator: OperatorName;
}

/** A filter in a request, with at least one value. Values are parameters of the field's type. */
interface Condition {
  readonly field: Field;
  readonly operator: OperatorName;
  readonly values: readonly string[];
}

/** A filter's YAML entry. */
type Entry = string | { readonly field: string; readonly operators: readonly OperatorName[] };

/** Filters by the fields listed in the YAML. Several filters are combined with AND. */
export const filters: QueryPart<readonly Filter[], readonly Condition[]> = {
  yaml: {
    description:
      'Filterable fields: a name for ?field=value, or { field, operators } for ?field[operator]=value. Indexes are created for them.',
    type: 'array',
    items: {
      type: ['string', 'object'],
      required: ['field', 'operators'],
      additionalProperties: false,
      properties: {
        field: { type: 'string' },
        operators: {
          type: 'array',
          minItems: 1,
          items: { enum: Object.keys(operators) },
          uniqueItems: true,
          'x-expected': 'a list of operators, such as [ eq, in ]',
        },
      },
      'x-expected': 'a field, or { field: …, operators: [ … ] }',
    },
    uniqueItems: true,
    'x-expected': 'a list, such as [ status, { field: created_at, operators: [ gte, lt ] } ]',
    examples: [['status', { field: 'created_at', operators: ['gte', 'lt'] }]],
  },
  yamlOf: (fields, reserved) => {
    const filterableFields = fields.filter(
      (field) => !reserved.includes(field.name) && operatorsOf(field).length > 0,
    );
    const groups = Object.entries(Object.groupBy(filterableFields, (field) => operatorsOf(field).join()));
    const fieldGroups = groups.map(([names, members = []]) => ({
      operators: names.split(','),
      field: oneOfSchema(members.map(({ name }) => name)),
    }));
    return {
      items: {
        anyOf: [
          {
            type: 'string',
            anyOf: [
              false,
              ...fieldGroups.flatMap((group) => (group.operators.includes('eq') ? [group.field] : [])),
            ],
          },
          {
            type: 'object',
            properties: { field: oneOfSchema(filterableFields.map(({ name }) => name)) },
            allOf: [
              true,
              ...fieldGroups.map(({ field, operators }) =>
                implies(
                  { required: ['field'], properties: { field } },
                  { properties: { operators: { items: oneOfSchema(operators) } } },
                ),
              ),
            ],
          },
        ],
      },
    };
  },
  declare: (context) => {
    const seen = new Set<string>();
    return ((context.yaml ?? []) as readonly Entry[]).flatMap((entry, index) => {
      const name = typeof entry === 'string' ? entry : entry.field;
      if (seen.has(name)) context.report([index], `"${name}" is declared twice`);
      seen.add(name);
      return declareFilter(context, entry, index);
    });
  },
  parameters: (declaration) => parametersOf(declaration).map(({ name }) => name),
  parse: (declaration, query, issues) => {
    rejectUnknownOperators(declaration, query, issues);
    const conditions: Condition[] = [];
    for (const { field, parameters } of declaration) {
      for (const { name, operator } of parameters) {
        const input = query[name];
        // The most common case is checked first, because this code runs for every list.
        if (input === undefined) continue;
        const values = parseValues(name, field, operator, input, issues);
        if (values.length > 0) conditions.push({ field, operator, values });
      }
    }
    return conditions;
  },
  shape: (conditions) =>
    conditions
      .map((condition) => {
        const { field, operator, values } = condition;
        const form = operatorOf(operator).words === undefined ? (values.length > 1 ? '*' : '') : values[0];
        return `${field.name} ${operator}${form}${isSelective(condition) ? '' : '~'}`;
      })
      .join(),
  cost: (conditions) => {
    const fieldsWith = (index: string) =>
      conditions.filter(({ operator }) => operatorOf(operator).index === index);
    return {
      equal: fieldsWith('order').map(({ field }) => field),
      find: fieldsWith('find').map(({ field }) => field),
      scan:
        fieldsWith('none').length > 0 ||
        fieldsWith('order').some((condition) => condition.values.length > 1 || !isSelective(condition)),
    };
  },
  clauses: (_, conditions, placeholder) => ({
    where: conditions.map(({ field, operator, values }, index) =>
      operatorOf(operator).where(field, {
        values,
        placeholder: () =>
          placeholder((conditions) => {
            const input = conditions[index]?.values ?? [];
            return values.length > 1 ? input : (input[0] ?? null);
          }),
      }),
    ),
  }),
  describe: (declaration) =>
    parametersOf(declaration).map(({ field, name, operator }) => describeParameter(field, name, operator)),
  // The indexes support filtered lists in the default order.
  indexes: (declaration, sort) =>
    declaration.flatMap(({ field, operators: names }) => {
      const serves = (index: string) => names.some((name) => operatorOf(name).index === index);
      if (serves('order')) return [{ field, keys: [lookupKey(field), indexKey(sort)] }];
      return serves('find') ? [{ field, keys: [indexKey(field)] }] : [];
    }),
};

/** Returns the operators supported by a field. */
const operatorsOf = ({ type, nullable }: NamedField): readonly OperatorName[] =>
  (Object.keys(operators) as OperatorName[]).filter((name) => {
    const { needs, nullable: needsNull } = operatorOf(name);
    return type[needs] !== undefined && (needsNull !== true || nullable);
  });

/**
 * Returns whether most of the records found through an index match the condition. Some values share their
 * lookup key with many other records.
 */
const isSelective = ({ field: { lookup }, values }: Condition): boolean => {
  const selects = lookup && lookupOf(lookup).isSelective;
  return selects === undefined || values.every(selects);
};

/** Parses a filter's YAML entry. Returns an empty list if the field is unknown. */
function declareFilter(
  { fields, reserved, report }: DeclarationContext,
  entry: Entry,
  index: number,
): readonly Filter[] {
  const [name, names]: readonly [string, readonly OperatorName[]] =
    typeof entry === 'string' ? [entry, ['eq']] : [entry.field, entry.operators];
  const path = typeof entry === 'string' ? [index] : [index, 'field'];
  const field = fields.get(name);
  if (reserved.includes(name)) report(path, `"${name}" is a reserved query parameter`);
  if (field === undefined) {
    report(path, `unknown field "${name}"${suggestion(name, [...fields.keys()])}`);
    return [];
  }
  for (const [position, operator] of names.entries()) {
    const { needs, nullable } = operatorOf(operator);
    if (field.type[needs] === undefined) {
      const message = `${field.typeName} fields cannot be used as filters`;
      if (typeof entry === 'string') report(path, message);
      else report([index, 'operators', position], `${message} with "${operator}"`);
    } else if (nullable && !field.nullable) {
      report([index, 'operators', position], `"${operator}" requires a field with "nullable: true"`);
    }
  }
  const operatorParameters = names.map((operator) => ({ name: `${name}[${operator}]`, operator }));
  const parameters = names.includes('eq') ? [{ name, operator: 'eq' } as const] : [];
  return [
    {
      field,
      operators: names,
      parameters: [...parameters, ...(typeof entry === 'string' ? [] : operatorParameters)],
    },
  ];
}

/** Returns the query parameters for all filters. */
const parametersOf = (declaration: readonly Filter[]) =>
  declaration.flatMap(({ field, parameters }) => parameters.map((parameter) => ({ field, ...parameter })));

/** Rejects undeclared filters with an operator. All other unknown parameters are ignored. */
function rejectUnknownOperators(declaration: readonly Filter[], query: Query, issues: FieldIssue[]): void {
  const names = Object.keys(query).filter((name) => name.includes('['));
  if (names.length === 0) return;
  const operatorFilters = parametersOf(declaration).filter((parameter) => parameter.name.includes('['));
  const knownNames = new Set(operatorFilters.map((parameter) => parameter.name));
  // Each message lists the available filters, so the first few are enough.
  for (const name of names.filter((name) => !knownNames.has(name)).slice(0, maxUnknown)) {
    const fieldFilters = operatorFilters.filter(({ field }) => name.startsWith(`${field.name}[`));
    const available = (fieldFilters.length > 0 ? fieldFilters : operatorFilters)
      .map((parameter) => parameter.name)
      .join(', ');
    const hint =
      available === ''
        ? 'This list does not support filters with operators'
        : `Available filters: ${available}`;
    issues.push(parameterIssue(name, `is not a filter of this list. ${hint}`));
  }
}

/** Parses a filter's values. Ignores empty values. */
function parseValues(
  name: string,
  field: Field,
  operator: OperatorName,
  input: string | readonly string[],
  issues: FieldIssue[],
): readonly string[] {
  const texts = [input].flat().filter((text) => text !== '');
  const { repeatable, words } = operatorOf(operator);
  const values = texts.map((text) =>
    words === undefined ? field.type.parse?.(text) : words.find((word) => word === text),
  );
  if (!repeatable && values.length > 1) issues.push(parameterIssue(name, 'must not be repeated'));
  else if (values.length > maxFilterValues) {
    issues.push(parameterIssue(name, `must not be repeated more than ${maxFilterValues} times`));
  } else if (values.includes(undefined)) {
    issues.push(parameterIssue(name, `must be ${words?.join(' or ') ?? field.type.expected}`));
  }
  return values.filter((value) => value !== undefined);
}

/** Returns the OpenAPI description of a filter parameter. */
function describeParameter(field: Field, name: string, operator: OperatorName): JsonSchema {
  const { describe, repeatable, words } = operatorOf(operator);
  const value = words === undefined ? field.type.json : { type: 'string', enum: words };
  const suggestions = field.values && {
    examples: field.values.list,
    'x-extensible-enum': field.values.list,
  };
  const acceptsMe = words === undefined && refersToUser(field);
  const schema = acceptsMe
    ? { ...value, type: ['integer', 'string'] }
    : { ...value, ...(words === undefined && suggestions) };
  return {
    name,
    in: 'query',
    description: `${describe(field)}${acceptsMe ? ' `me` stands for the calling user.' : ''} An empty value is ignored.`,
    ...(repeatable
      ? { style: 'form', explode: true, schema: { type: 'array', maxItems: maxFilterValues, items: schema } }
      : { schema }),
  };
}
