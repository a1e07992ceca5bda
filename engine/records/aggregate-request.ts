import type { ResourceDefinition } from '../definition/index.ts';
import type { FieldIssue } from '../errors.ts';
import { fieldTypes, textFormatOf } from '../fields/index.ts';
import {
  namesIn,
  type OperatorName,
  type ParsedQuery,
  parameterIssue,
  parameterValue,
  parseValue,
  type Query,
  unknownNameIssue,
} from '../query/index.ts';
import {
  countMeasure,
  type Group,
  groupOfMeasure,
  groupsOf,
  type Measure,
  measuresOf,
} from './aggregate-names.ts';
import type { OperationPlan } from './operation.ts';

/** Maximum number of groups that a request can name. */
export const maxNames = 3;

/** Operators of conditions on measures, with their SQL equivalents. */
export const havingOperators = {
  eq: '=',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
} as const satisfies Readonly<Partial<Record<OperatorName, string>>>;
type HavingOperator = keyof typeof havingOperators;

/** A condition that groups must meet. The value is a parameter. */
interface HavingCondition {
  readonly measure: Measure;
  readonly operator: HavingOperator;
  readonly value: string;
}

/** The parsed parameters of an aggregate, without filters. */
interface AggregateRequest {
  readonly groups: readonly Group[];
  readonly measures: readonly Measure[];
  readonly having: readonly HavingCondition[];
  /** Name of the IANA time zone in which periods start. */
  readonly timeZone: string;
}

/** The plan for an aggregate. */
export interface AggregatePlan extends OperationPlan, AggregateRequest {
  /** The conditions on records; everything else has its default. */
  readonly parsedQuery: ParsedQuery;
}

/** Maximum number of invalid conditions that a response names. */
const maxIssues = 5;

const havingPrefix = 'having[';
const havingName = /^having\[(\w+\(\w*\))\]\[(\w+)\]$/;

/** Returns whether a parameter is a condition on a measure. */
export const isHaving = (parameter: string): boolean => parameter.startsWith(havingPrefix);

/** Parses the parameters of an aggregate except its filters, and adds issues to `issues`. */
export function parseAggregate(
  definition: ResourceDefinition,
  query: Query,
  issues: FieldIssue[],
): AggregateRequest {
  const allMeasures = measuresOf(definition, { includesFormer: true });
  const groups = parseGroups(definition, query, issues);
  const measureNames = namesIn(query.measure);
  const measures = find('measure', measureNames, allMeasures, measureNamesOf(definition), issues);
  const having = parseHaving(definition, allMeasures, query, issues);
  const requested = measureNames.size === 0 ? [countMeasure] : measures;
  const currencies = [...requested, ...having.map(({ measure }) => measure)].flatMap(
    (measure) => groupOfMeasure(measure) ?? [],
  );
  return {
    groups: [...new Map([...groups, ...currencies].map((group) => [group.name, group])).values()],
    measures: requested,
    having,
    timeZone: parseTimeZone(query, issues),
  };
}

/** Returns the groups or measures with these names, and reports the first unknown name. */
function find<Item extends Group | Measure>(
  parameter: 'group_by' | 'measure',
  names: ReadonlySet<string>,
  items: readonly Item[],
  described: readonly string[],
  issues: FieldIssue[],
): readonly Item[] {
  const unknown = [...names].find((name) => !items.some((item) => item.name === name));
  if (unknown !== undefined) {
    const noun = parameter === 'measure' ? 'measure' : 'field';
    issues.push(unknownNameIssue(parameter, unknown, similarNames(unknown, described), noun));
  }
  return [...names].flatMap((name) => items.find((item) => item.name === name) ?? []);
}

/** Returns the names for the same field as an unknown name, or otherwise all names. */
function similarNames(unknown: string, names: readonly string[]): readonly string[] {
  const similar = names.filter((name) => fieldIn(name) === fieldIn(unknown));
  return similar.length > 0 ? similar : names;
}

/** Returns the field in a name such as `created_at.month` or `sum(amount)`. */
const fieldIn = (name: string): string | undefined =>
  (/(?<=\()\w+(?=\)$)/.exec(name) ?? /^\w+/.exec(name))?.[0];

const measureNamesOf = (definition: ResourceDefinition): readonly string[] =>
  measuresOf(definition).map(({ name }) => name);

/** Parses `group_by`. A timestamp needs a period, because each record can have another one. */
function parseGroups(definition: ResourceDefinition, query: Query, issues: FieldIssue[]): readonly Group[] {
  const names = namesIn(query.group_by);
  if (names.size > maxNames)
    issues.push(parameterIssue('group_by', `must not contain more than ${maxNames} names`));
  const withoutPeriod = definition.aggregates?.groupBy.find(
    ({ name, field }) => names.has(name) && field.type.groupKey === undefined,
  );
  if (withoutPeriod !== undefined) {
    const { name } = withoutPeriod;
    issues.push(parameterIssue('group_by', `needs a period for "${name}", for example ${name}.month`));
    return [];
  }
  const described = groupsOf(definition).map(({ name }) => name);
  return find('group_by', names, groupsOf(definition, { includesFormer: true }), described, issues);
}

/** Parses the conditions on measures, such as `having[sum(amount)][gte]=1`. Ignores empty values. */
function parseHaving(
  definition: ResourceDefinition,
  measures: readonly Measure[],
  query: Query,
  issues: FieldIssue[],
): readonly HavingCondition[] {
  const parameters = Object.keys(query).filter(isHaving);
  const found: FieldIssue[] = [];
  const conditions = parameters.flatMap((parameter): HavingCondition[] => {
    const [, name = '', operator = ''] = havingName.exec(parameter) ?? [];
    const measure = measures.find((candidate) => candidate.name === name);
    if (name === '') {
      const hint = 'Write it like having[count()][gte]=2.';
      found.push(parameterIssue(parameter, 'is not a condition on a measure', hint));
    } else if (measure === undefined) {
      found.push(unknownNameIssue('having', name, similarNames(name, measureNamesOf(definition)), 'measure'));
    } else if (!isHavingOperator(operator)) {
      const names = Object.keys(havingOperators).join(', ');
      found.push(parameterIssue(parameter, `must use one of the operators ${names}`));
    } else {
      const text = parameterValue(query, parameter);
      if (text === undefined) return [];
      const value = typeof text === 'string' ? parseValue(typeOfValue(measure), operator, text) : undefined;
      if (value !== undefined) return [{ measure, operator, value }];
      const expected = typeof text === 'string' ? `be ${typeOfValue(measure).expected}` : 'not be repeated';
      found.push(parameterIssue(parameter, `must ${expected}`));
    }
    return [];
  });
  issues.push(...found.slice(0, maxIssues));
  return conditions;
}

const isHavingOperator = (name: string): name is HavingOperator => Object.hasOwn(havingOperators, name);

/** Returns the type of the values with which a measure is compared: its own for dates and timestamps, or a number. */
export const typeOfValue = ({ field }: Measure) =>
  field !== undefined && field.type.calculated === undefined ? field.type : fieldTypes.number;

/** Parses `tz`. */
function parseTimeZone(query: Query, issues: FieldIssue[]): string {
  const zone = parameterValue(query, 'tz') ?? 'UTC';
  const format = textFormatOf('iana_timezone');
  if (typeof zone === 'string' && format.isValid(zone)) return zone;
  issues.push(parameterIssue('tz', `must be ${format.expected}`));
  return 'UTC';
}
