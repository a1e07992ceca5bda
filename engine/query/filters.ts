import { type Expectation, type FieldIssue, reasonKey } from '../errors.ts';
import {
  currencyField,
  type Field,
  type FieldType,
  type JsonSchema,
  lookupOf,
  phoneVariants,
  refersToUser,
  splitReference,
  typeLabel,
} from '../fields/index.ts';
import { indexKey, lookupKey, type Placeholder, quote } from '../sql/index.ts';
import { implies, oneOfSchema, suggestion } from '../yaml/index.ts';
import { customCondition, customFilters } from './custom-filters.ts';
import type { Filter, FilterParameter } from './filter.ts';
import { type OperatorName, operatorOf, operators, operatorsOf, visibleValues } from './operators.ts';
import {
  type CallerSql,
  type DeclarationContext,
  type Index,
  parameterIssue,
  type Query,
  type QueryPart,
} from './part.ts';

/** Maximum number of values per filter. */
export const maxFilterValues = 50;

/** Maximum number of unknown filters named in a response. */
const maxUnknown = 5;

/** A condition in a request, with at least one value. Values are parameters of the field's type. */
export interface Condition {
  readonly field: Field;
  readonly operator: OperatorName;
  readonly values: readonly string[];
  /** All notations of the values, if these are phone numbers with several. The condition compares them instead of the values. */
  readonly variants?: readonly string[];
  /** See {@link FilterParameter}. */
  readonly source?: FilterParameter['source'];
}

/** Conditions of which a record must meet all or any, or none (`not`). */
export interface ConditionGroup {
  readonly combination: 'all' | 'any' | 'not';
  readonly members: readonly ConditionNode[];
}

/** A condition, or a group of conditions. */
export type ConditionNode = Condition | ConditionGroup;

/** Returns whether a node is a group. */
export const isGroup = (node: ConditionNode): node is ConditionGroup => 'members' in node;

/** A filter's YAML entry. */
type Entry =
  | string
  | { readonly field: string; readonly operators: readonly OperatorName[]; readonly index?: boolean };

/** Operators that match records with a value, or with one of several values. The first one has the shortest parameter. */
const equalities: readonly OperatorName[] = ['eq', 'in', 'any'];

/**
 * Filters by the fields listed in the YAML, and by references. Several filters are combined with AND. URLs contain only
 * conditions; see `where.ts` for groups.
 */
export const filters: QueryPart<readonly Filter[], readonly ConditionNode[]> = {
  yaml: {
    description:
      'Filterable fields: a name for ?field=value, or { field, operators } for ?field[operator]=value. Indexes are created for them. References can always be filtered by ?field[in]=value.',
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
        index: {
          description:
            "Whether an index is created for the filter. Without one, lists read all of the organization's records. Default: true.",
          type: 'boolean',
        },
      },
      'x-expected': 'a field, or { field: …, operators: [ … ] }',
    },
    uniqueItems: true,
    'x-expected': 'a list, such as [ status, { field: created_at, operators: [ gte, lt ] } ]',
    examples: [['status', { field: 'created_at', operators: ['gte', 'lt'] }]],
  },
  list: {
    fieldOf: (entry) => (typeof entry === 'string' ? entry : (entry as { field: string }).field),
    isAdded: true,
  },
  yamlOf: (allFields, reserved) => {
    const fields = allFields.flatMap(({ name, type, nullable }) => [
      { name, type, nullable },
      ...(type.currency === undefined
        ? []
        : [{ name: `${name}${currencyPath}`, type: type.currency, nullable }]),
    ]);
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
    const declared = ((context.yaml ?? []) as readonly Entry[]).flatMap((entry, index) => {
      const name = typeof entry === 'string' ? entry : entry.field;
      if (seen.has(name)) context.report([index], `"${name}" is declared twice`);
      seen.add(name);
      return declareFilter(context, entry, index);
    });
    return withReferences(declared, context.fields);
  },
  parameters: (declaration) => parametersOf(declaration).map(({ name }) => name),
  parse: (declaration, query, issues, phoneRegion) => {
    rejectUnknownOperators(declaration, query, issues);
    const conditions: Condition[] = [];
    for (const { field, parameters } of declaration) {
      for (const { name, operator, source } of parameters) {
        const input = query[name];
        // The most common case is checked first, because this code runs for every list.
        if (input === undefined) continue;
        // Empty values are ignored, because forms submit blank inputs.
        const texts = [input].flat().filter((text) => text !== '');
        const values = parseValues(name, field, operator, texts, issues);
        if (values.length > 0) conditions.push(conditionOf(field, { operator, source }, values, phoneRegion));
      }
    }
    return conditions;
  },
  shape: (nodes) => nodes.map(shapeOf).join(),
  cost: (nodes) => {
    const conditions = nodes.filter((node): node is Condition => !isGroup(node));
    const fieldsWith = (index: string) =>
      conditions.filter(
        (condition) =>
          operatorOf(condition.operator).index === index &&
          condition.source === undefined &&
          !isGathered(condition),
      );
    const gathered = conditions.filter(isGathered);
    return {
      equal: fieldsWith('order').map(({ field }) => field),
      find: fieldsWith('find').map(({ field }) => field),
      ...(gathered.length > 0 && { gather: true }),
      scan:
        gathered.length > 0 ||
        conditions.length < nodes.length ||
        conditions.some(({ source }) => source === 'scan') ||
        fieldsWith('none').length > 0 ||
        fieldsWith('order').some((condition) => condition.values.length > 1 || !isSelective(condition)),
    };
  },
  clauses: (_, nodes, placeholder, caller) => ({
    where: nodes.map((node, index) => nodeSql(node, [index], placeholder, caller)),
  }),
  describe: (declaration) =>
    parametersOf(declaration).map(({ filter, field, name, operator }) =>
      describeParameter({ ...field, name: filter }, name, operator),
    ),
  // The indexes support filtered lists in the default order.
  indexes: (declaration, sort) =>
    declaration.flatMap(({ field, parameters }): Index[] => {
      const names = parameters.flatMap(({ operator, source }) => (source === undefined ? [operator] : []));
      // The primary key finds IDs.
      if (names.length === 0 || field.set === 'id') return [];
      // An index of the elements finds the records in no particular order.
      if (field.type.element !== undefined)
        return [{ name: `${field.name}_gin`, method: 'gin', keys: [quote(field.name)] }];
      const serves = (index: string) => names.some((name) => operatorOf(name).index === index);
      return (field.alternatives ?? [field]).flatMap((stored) => {
        if (serves('order')) return [{ field: stored, keys: [lookupKey(stored), indexKey(sort)] }];
        return serves('find') ? [{ field: stored, keys: [indexKey(stored)] }] : [];
      });
    }),
};

/** Returns the fields in conditions and groups. */
export const conditionFields = (nodes: readonly ConditionNode[]): readonly Field[] =>
  nodes.flatMap((node) => (isGroup(node) ? conditionFields(node.members) : [node.field]));

/**
 * Returns a condition with a parameter's operator.
 * @param phoneRegion see {@link withVariants}
 */
export const conditionOf = (
  field: Field,
  { operator, source }: Pick<Condition, 'operator'> & { readonly source?: Condition['source'] | undefined },
  values: readonly string[],
  phoneRegion: string | undefined,
): Condition =>
  withVariants(ofSingleResource({ field, operator, values, ...(source && { source }) }), phoneRegion);

/** Returns a key for everything in a node that affects the statement's text. */
function shapeOf(node: ConditionNode): string {
  if (isGroup(node)) return `${node.combination}(${node.members.map(shapeOf).join()})`;
  const { field, operator, values, variants } = node;
  const list = `${values.length > 1 ? '*' : ''}${variants === undefined ? '' : '+'}`;
  const form = operatorOf(operator).words === undefined ? list : values[0];
  // Custom fields of the same type share a statement, whose parameters include their keys, unless they are compared differently.
  const name = field.custom === undefined ? field.name : `custom.${field.typeName} ${field.comparison ?? ''}`;
  return `${name} ${operator}${form}${isSelective(node) ? '' : '~'}`;
}

/** Returns the condition at a path of indexes, or undefined for nodes of another shape. */
function conditionAt(
  nodes: readonly ConditionNode[],
  [index = 0, ...path]: readonly number[],
): Condition | undefined {
  const node = nodes[index];
  if (node === undefined || !isGroup(node)) return node;
  return conditionAt(node.members, path);
}

/**
 * Returns the SQL condition for a node. Only the result of `not` is never null: a record matches it unless it matches the
 * condition.
 * @param path the node's position, as indexes of nodes
 */
function nodeSql(
  node: ConditionNode,
  path: readonly number[],
  placeholder: Placeholder<readonly ConditionNode[]>,
  caller: CallerSql,
): string {
  if (isGroup(node)) {
    const members = node.members.map(
      (member, index) => `(${nodeSql(member, [...path, index], placeholder, caller)})`,
    );
    return node.combination === 'not'
      ? `(${members.join(' or ')}) is not true`
      : `(${members.join(node.combination === 'all' ? ' and ' : ' or ')})`;
  }
  const { field, operator, source } = node;
  const values = comparedValues(node);
  const operand = {
    values,
    visibleIds: (ids: () => string) => caller.visibleIds(field, ids),
    placeholder: () =>
      placeholder((nodes) => {
        const condition = conditionAt(nodes, path);
        const input = condition === undefined ? [] : comparedValues(condition);
        return values.length > 1 ? input : (input[0] ?? null);
      }),
  };
  if (source === 'references' && field.type.element !== undefined)
    return caller.refersToAny(field, visibleValues(field, operand));
  if (field.custom === undefined) return operatorOf(operator).where(field, operand);
  const key = `${placeholder((nodes) => conditionAt(nodes, path)?.field.custom?.key ?? null)}::text`;
  return customCondition(node, operand, { key, organization: caller.organization() });
}

/** Returns the OpenAPI description of the filters of custom fields. */
export const describeCustomFilters = (fields: readonly Field[]): readonly JsonSchema[] =>
  filters.describe(customFilters(fields));

/**
 * Returns whether an index finds the matching records in no particular order: those with an ID, an element in a list, a value
 * in a custom field, a phone number in one of several notations, or a reference without a declared filter.
 */
const isGathered = ({ field: { type, custom, set }, operator, source, variants }: Condition): boolean =>
  source === 'references' ||
  type.element !== undefined ||
  custom !== undefined ||
  ((set === 'id' || (variants !== undefined && source === undefined)) &&
    operatorOf(operator).index === 'order');

/**
 * Adds a parameter for each reference without a filter for its value, so that the records that refer to a record can always
 * be listed.
 */
function withReferences(
  declared: readonly Filter[],
  fields: DeclarationContext['fields'],
): readonly Filter[] {
  const implied = [...fields.values()].filter(
    (field) =>
      field.type.refers === true &&
      !declared.some((filter) => filter.field === field && equalityOf(filter) !== undefined),
  );
  const parameterOf = ({ name }: Field): FilterParameter => ({
    name: `${name}[in]`,
    operator: 'in',
    source: 'references',
  });
  return [
    ...declared.map((filter) =>
      implied.includes(filter.field)
        ? {
            ...filter,
            operators: [...filter.operators, 'in' as const],
            parameters: [...filter.parameters, parameterOf(filter.field)],
          }
        : filter,
    ),
    ...implied
      .filter((field) => !declared.some((filter) => filter.field === field))
      .map(
        (field): Filter => ({
          name: field.name,
          field,
          operators: ['in'],
          parameters: [parameterOf(field)],
        }),
      ),
  ];
}

/** Returns the parameter that finds the records with a value in a field, or undefined if no filter has one. */
export const equalityParameter = (filters: readonly Filter[], field: string): FilterParameter | undefined =>
  filters.flatMap((filter) => (filter.field.name === field ? (equalityOf(filter) ?? []) : []))[0];

/** Returns the parameter that finds the records with a value, or undefined if the filter has none. */
const equalityOf = ({ parameters }: Pick<Filter, 'parameters'>): FilterParameter | undefined =>
  equalities.flatMap((equality) => parameters.find(({ operator }) => operator === equality) ?? [])[0];

/**
 * Returns a condition on a reference to one of several resources as a condition on the column of one resource, which an
 * index serves, if all values belong to this resource. Returns other conditions unchanged.
 */
function ofSingleResource(condition: Condition): Condition {
  const references = condition.field.alternatives && condition.values.map(splitReference);
  const resource = references?.[0]?.resource;
  const field = condition.field.alternatives?.find(({ to }) => to === resource);
  if (field === undefined || references?.some((reference) => reference?.resource !== resource))
    return condition;
  return { ...condition, field, values: (references ?? []).flatMap((reference) => reference?.id ?? []) };
}

/**
 * Returns whether most of the records found through an index match the condition. Some values share their
 * lookup key with many other records.
 */
const isSelective = ({ field: { lookup, comparison = lookup }, values }: Condition): boolean => {
  const selects = comparison && lookupOf(comparison).isSelective;
  return selects === undefined || values.every(selects);
};

/** Returns the values that a condition compares with the field. */
const comparedValues = ({ values, variants = values }: Condition): readonly string[] => variants;

/**
 * Returns a condition that also finds other notations of its phone numbers.
 * @param region the country of numbers without a country code; if undefined, numbers are compared only by their digits
 */
function withVariants(condition: Condition, region: string | undefined): Condition {
  const { field, operator, values } = condition;
  const { needs, words } = operatorOf(operator);
  if (region === undefined || field.comparison !== 'digits' || needs !== 'equals' || words !== undefined)
    return condition;
  const digits = lookupOf('digits').keyOf;
  const given = new Set(values.map(digits));
  const variants = [...new Set(values.flatMap((value) => phoneVariants(value, region)))];
  return variants.some((variant) => !given.has(digits(variant))) ? { ...condition, variants } : condition;
}

/** Follows the name of an amount of money in the name of a filter by its currency. */
const currencyPath = '.currency';

/** Returns the field for which a name in a definition stands: a field of the resource, or the currency of one. */
export function comparedField(fields: DeclarationContext['fields'], name: string): Field | undefined {
  if (!name.endsWith(currencyPath)) return fields.get(name);
  const amount = fields.get(name.slice(0, -currencyPath.length));
  return amount && currencyField(amount);
}

/** Returns the reason that a name does not stand for a field or for the currency of one. */
export function unknownFieldMessage(fields: DeclarationContext['fields'], name: string): string {
  const amount = name.endsWith(currencyPath) ? fields.get(name.slice(0, -currencyPath.length)) : undefined;
  if (amount?.currency !== undefined) return `all amounts of "${amount.name}" are in ${amount.currency}`;
  const currencies = [...fields.values()].flatMap((field) =>
    field.type.currency === undefined ? [] : [`${field.name}${currencyPath}`],
  );
  return `unknown field "${name}"${suggestion(name, [...fields.keys(), ...currencies])}`;
}

/** Parses a filter's YAML entry. Returns an empty list if the field is unknown. */
function declareFilter(
  { fields, reserved, report }: DeclarationContext,
  entry: Entry,
  index: number,
): readonly Filter[] {
  const [name, names]: readonly [string, readonly OperatorName[]] =
    typeof entry === 'string' ? [entry, ['eq']] : [entry.field, entry.operators];
  const isScan = typeof entry !== 'string' && entry.index === false;
  const path = typeof entry === 'string' ? [index] : [index, 'field'];
  const field = comparedField(fields, name);
  if (reserved.includes(name)) report(path, `"${name}" is a reserved query parameter`);
  if (field === undefined) {
    report(path, unknownFieldMessage(fields, name));
    return [];
  }
  for (const [position, operator] of names.entries()) {
    const { needs, nullable } = operatorOf(operator);
    if (field.type[needs] === undefined) {
      const message = `${typeLabel(field)} fields cannot be used as filters`;
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
      name,
      field,
      operators: names,
      parameters: [...parameters, ...(typeof entry === 'string' ? [] : operatorParameters)].map(
        (parameter) => ({
          ...parameter,
          ...(isScan && { source: 'scan' as const }),
        }),
      ),
    },
  ];
}

/** Returns the query parameters for all filters. */
const parametersOf = (declaration: readonly Filter[]) =>
  declaration.flatMap(({ name: filter, field, parameters }) =>
    parameters.map((parameter) => ({ filter, field, ...parameter })),
  );

/** Rejects undeclared filters with an operator. All other unknown parameters are ignored. */
function rejectUnknownOperators(declaration: readonly Filter[], query: Query, issues: FieldIssue[]): void {
  const names = Object.keys(query).filter((name) => name.includes('['));
  if (names.length === 0) return;
  const operatorFilters = parametersOf(declaration).filter((parameter) => parameter.name.includes('['));
  const knownNames = new Set(operatorFilters.map((parameter) => parameter.name));
  // Each message lists the available filters, so the first few are enough.
  for (const name of names.filter((name) => !knownNames.has(name)).slice(0, maxUnknown)) {
    const fieldFilters = operatorFilters.filter(({ filter }) => name.startsWith(`${filter}[`));
    const available = (fieldFilters.length > 0 ? fieldFilters : operatorFilters)
      .map((parameter) => parameter.name)
      .join(', ');
    const hint =
      available === ''
        ? 'This list does not support filters with operators'
        : `Available filters: ${available}`;
    issues.push(parameterIssue(name, 'is not a filter of this list', hint));
  }
}

/** Parses a filter's values, and adds at most one issue. */
function parseValues(
  name: string,
  field: Field,
  operator: OperatorName,
  texts: readonly string[],
  issues: FieldIssue[],
): readonly string[] {
  const { repeatable } = operatorOf(operator);
  const reject = (message: string) => {
    issues.push(parameterIssue(name, message));
    return [];
  };
  if (!repeatable && texts.length > 1) return reject('must not be repeated');
  if (texts.length > maxFilterValues)
    return reject(`must not be repeated more than ${maxFilterValues} times`);
  const values = texts.map((text) => conditionValue(field, operator, text));
  if (values.includes(undefined)) {
    const issue = parameterIssue(name, `must be ${expectedValue(field, operator)}`);
    issues.push({ ...issue, [reasonKey]: { kind: 'expected', expects: expectation(field, operator) } });
    return [];
  }
  return values.filter((value) => value !== undefined);
}

/** Parses a value of a condition: a value of the field's type, or one of the operator's keywords. */
export const conditionValue = ({ type }: Field, operator: OperatorName, text: string): string | undefined => {
  const { words } = operatorOf(operator);
  return words === undefined ? parseValue(type, operator, text) : words.find((word) => word === text);
};

/** Describes the values that a condition accepts. Completes "must be …". */
export function expectedValue({ type }: Field, operator: OperatorName): string {
  const { element, parameter, expected, parseDay } = type;
  const { day, words } = operatorOf(operator);
  const orDate = parseDay !== undefined && day !== undefined ? ', or a date' : '';
  return `${words?.join(' or ') ?? element?.expected ?? parameter?.expected ?? expected}${orDate}`;
}

/** Returns the values that a condition accepts, like {@link expectedValue}. */
const expectation = ({ type }: Field, operator: OperatorName): Expectation | undefined =>
  operatorOf(operator).words === undefined
    ? (type.element?.expects ?? type.parameter?.expects ?? type.expects)
    : { type: 'boolean' };

/** Parses a value to which an operator compares. Ranges of timestamps also accept a date, which stands for the whole day in UTC. */
export const parseValue = (
  { parse, parseDay }: FieldType,
  operator: OperatorName,
  text: string,
): string | undefined => {
  const { day } = operatorOf(operator);
  return (day === undefined ? undefined : parseDay?.(text, day)) ?? parse?.(text);
};

/** Returns the OpenAPI description of a filter parameter. */
function describeParameter(field: Field, name: string, operator: OperatorName): JsonSchema {
  const { describe, repeatable, words, day } = operatorOf(operator);
  const { parseDay } = field.type;
  const acceptsDay = day !== undefined && parseDay !== undefined;
  const value =
    words === undefined
      ? (field.type.element?.schema ?? field.type.parameter?.json ?? field.type.json)
      : { type: 'string', enum: words };
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
    description: `${describe(field)}${acceptsMe ? ' `me` stands for the calling user.' : ''}${acceptsDay ? ` A date such as 2026-03-01 stands for the ${day} of the day in UTC.` : ''} An empty value is ignored.`,
    ...(repeatable
      ? { style: 'form', explode: true, schema: { type: 'array', maxItems: maxFilterValues, items: schema } }
      : { schema }),
  };
}
