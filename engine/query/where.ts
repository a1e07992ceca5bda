import type { FieldIssue } from '../errors.ts';
import { ExactNumber, refersToUser } from '../fields/index.ts';
import { hintForInput } from '../yaml/index.ts';
import type { Filter } from './filter.ts';
import {
  type Condition,
  type ConditionNode,
  conditionOf,
  conditionValue,
  expectedValue,
  isGroup,
  maxFilterValues,
} from './filters.ts';
import { operatorOf } from './operators.ts';
import { parameterIssue } from './part.ts';

/** Maximum number of nested groups, and of conditions and their values, in a body. */
export const whereLimits = { depth: 5, conditions: 50, values: 500 } as const;

/** The combinations of conditions, which are keys of groups. */
export const combinations = ['all', 'any', 'not'] as const;
/** The keys of a condition. */
export const conditionKeys = ['field', 'op', 'value'] as const;

/** Input for parsing conditions. */
interface WhereContext {
  /** The fields and operators that conditions can use. */
  readonly filters: readonly Filter[];
  /** ID of the caller's user, which `me` stands for in conditions on users. */
  readonly user: string;
  /** The country of phone numbers without a country code; see `phone-numbers.ts`. */
  readonly phoneRegion: string | undefined;
  readonly issues: FieldIssue[];
}

/**
 * Parses the conditions in a body, `{"field","op","value"}` or `{"all":[…]}`, `{"any":[…]}`, `{"not":…}`, and adds every issue
 * with its location, for example `where.any[1].op`.
 * @returns nodes combined with AND. A body that a URL could contain results in the same nodes as the URL
 */
export function parseWhere(context: WhereContext, where: unknown): readonly ConditionNode[] {
  const { filters, issues } = context;
  let count = 0;
  let valueCount = 0;
  const parse = (value: unknown, location: string, depth: number): readonly ConditionNode[] => {
    if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof ExactNumber) {
      issues.push(parameterIssue(location, 'must be a condition or a group of conditions', conditionHint));
      return [];
    }
    const keys = Object.keys(value);
    const combination = combinations.find((name) => keys.includes(name));
    const unknown = keys.find((key) =>
      combination === undefined ? !isConditionKey(key) : key !== combination,
    );
    if (unknown !== undefined || keys.length === 0) {
      const known = [...conditionKeys, ...combinations].filter((name) => !keys.includes(name));
      const hint = unknown === undefined ? undefined : hintForInput(unknown, known);
      const keyLocation = unknown === undefined ? location : `${location}.${unknown}`;
      const message = unknown === undefined ? 'must not be empty' : 'is not a key of this condition';
      issues.push(parameterIssue(keyLocation, message, hint ?? conditionHint));
      return [];
    }
    if (combination === undefined) {
      count++;
      if (count === whereLimits.conditions + 1)
        issues.push(
          parameterIssue('where', `must not contain more than ${whereLimits.conditions} conditions`),
        );
      const { value: values } = value as { readonly value?: unknown };
      const before = valueCount;
      valueCount += Array.isArray(values) ? values.length : 1;
      if (before <= whereLimits.values && valueCount > whereLimits.values)
        issues.push(parameterIssue('where', `must not contain more than ${whereLimits.values} values`));
      return count > whereLimits.conditions || valueCount > whereLimits.values
        ? []
        : parseCondition(context, value, location);
    }
    const path = `${location}.${combination}`;
    if (depth === whereLimits.depth) {
      issues.push(parameterIssue(path, `must not be nested in ${whereLimits.depth} or more groups`));
      return [];
    }
    const content = (value as Readonly<Record<string, unknown>>)[combination];
    if (combination === 'not') {
      const members = parse(content, path, depth + 1);
      return members.length === 0 ? [] : [{ combination, members: [allOf(members)] }];
    }
    if (!Array.isArray(content) || content.length === 0) {
      issues.push(parameterIssue(path, 'must be a list of at least one condition'));
      return [];
    }
    const members = content.map((item, index) => parse(item, `${path}[${index}]`, depth + 1));
    return combination === 'all' ? members.flat() : [{ combination, members: members.map(allOf) }];
  };
  const nodes = where === undefined || where === null ? [] : parse(where, 'where', 0);
  // Conditions in the order of the filters have the same statement as in a URL.
  const position = (node: ConditionNode): number =>
    isGroup(node)
      ? filters.length
      : filters.findIndex(
          ({ field }) => field === node.field || field.alternatives?.includes(node.field) === true,
        );
  return nodes.toSorted((a, b) => position(a) - position(b));
}

const conditionHint =
  'A condition is {"field": …, "op": …, "value": …}. A group is {"all": […]}, {"any": […]} or {"not": …}.';

const isConditionKey = (key: string): boolean => conditionKeys.some((name) => name === key);

/** Combines nodes with AND. */
const allOf = (members: readonly ConditionNode[]): ConditionNode => {
  const [first] = members;
  return members.length === 1 && first !== undefined ? first : { combination: 'all', members };
};

/** Returns a hint for the name of a field without a filter: a similar name, or all of them. */
export function filterHint(filters: readonly Pick<Filter, 'name'>[], name: unknown): string {
  const names = filters.map((filter) => filter.name);
  const similar = typeof name === 'string' ? hintForInput(name, names) : undefined;
  const all = names.length === 0 ? 'This resource has no filters' : `Filters: ${names.join(', ')}`;
  return similar ?? all;
}

/** Parses a condition. Returns an empty list if it is invalid. */
function parseCondition(
  { filters, user, phoneRegion, issues }: WhereContext,
  { field: name, op, value }: Readonly<Partial<Record<(typeof conditionKeys)[number], unknown>>>,
  location: string,
): readonly Condition[] {
  const report = (key: (typeof conditionKeys)[number], message: string, hint?: string) => {
    issues.push(parameterIssue(`${location}.${key}`, message, hint));
    return [];
  };
  const filter = filters.find((candidate) => candidate.name === name);
  if (filter === undefined)
    return report('field', 'must be a field that has a filter', filterHint(filters, name));
  const operators = [...new Set(filter.parameters.map(({ operator }) => operator))];
  const parameter = filter.parameters.find(({ operator }) => operator === op);
  if (parameter === undefined) {
    const similar = typeof op === 'string' ? hintForInput(op, operators) : undefined;
    return report('op', `must be one of ${operators.join(', ')}`, similar);
  }
  const { field } = filter;
  const { operator } = parameter;
  const { repeatable, words } = operatorOf(operator);
  if (Array.isArray(value) && !repeatable) return report('value', 'must not be a list');
  const inputs: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (inputs.length === 0 || inputs.length > maxFilterValues)
    return report('value', `must contain 1 to ${maxFilterValues} values`);
  const acceptsMe = words === undefined && refersToUser(field);
  const values = inputs.map((input) => {
    const text = textOf(input);
    if (text === undefined) return undefined;
    return acceptsMe && text === 'me' ? user : conditionValue(field, operator, text);
  });
  if (values.includes(undefined)) {
    const canBeNull = inputs.includes(null) && operators.includes('is_null');
    const hint = canBeNull ? 'Use the operator "is_null" for records without a value.' : undefined;
    return report('value', `must be ${expectedValue(field, operator)}`, hint);
  }
  return [
    conditionOf(
      field,
      parameter,
      values.filter((text) => text !== undefined),
      phoneRegion,
    ),
  ];
}

/** Returns the text of a value in a body, as in a URL, or undefined if it is not a string, number or boolean. */
const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' ||
  typeof value === 'number' ||
  typeof value === 'bigint' ||
  typeof value === 'boolean' ||
  value instanceof ExactNumber
    ? String(value)
    : undefined;
