import type { FieldIssue } from '../errors.ts';
import {
  conditionKeys,
  type Declarations,
  listParameters,
  parameterIssue,
  parseQuery,
  parseWhere,
  type Query,
  whereLimits,
} from '../query/index.ts';
import type { Aliases } from './aliases.ts';
import type { Body } from './body.ts';
import { formatNames } from './formats.ts';
import { compileList, type ListRequest, list, trashedDescription } from './list.ts';
import { callerUser, compileListParameters } from './list-parameters.ts';
import type { ListPlan } from './list-scope.ts';
import type { BodyInput, CompiledOperation, ListInput, Operation, OperationContext } from './operation.ts';
import { commonParameters } from './requests.ts';
import type { QueryResult } from './results.ts';
import { trashContext, trashedParameter, withTrash } from './trash-list.ts';
import { unknownProperty } from './unknown-names.ts';

/** Input for a query. */
export interface QueryInput extends ListInput, BodyInput {}

/** Keys of the body that contain one text. */
const textKeys = ['sort', 'dir', 'q', 'cursor'] as const;
/** Keys of the body that contain names, as a list or separated by commas. */
const nameKeys = ['fields', 'expand'] as const;
/** The keys of the body, which have the names of a list's parameters, except `where`. */
const queryKeys = ['where', ...textKeys, ...nameKeys] as const;

/** Maximum size of the body in bytes: 50 conditions, each with 50 values of about 100 characters. */
export const maxQueryBytes = 256 * 1024;

const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

/** Returns the body's keys as parameters of a list. Adds an issue for each key with a value of another type. */
function parametersIn(body: Body, issues: FieldIssue[]): Query {
  const parameters: Record<string, Query[string]> = {};
  for (const key of [...textKeys, ...nameKeys]) {
    const value = body[key] ?? undefined;
    const acceptsList = nameKeys.some((name) => name === key);
    if (typeof value === 'string' || (acceptsList && isTexts(value))) parameters[key] = value;
    else if (value !== undefined)
      issues.push(parameterIssue(key, `must be a string${acceptsList ? ' or a list of strings' : ''}`));
  }
  return parameters;
}

/** Returns a condition or group with replaced field names. Deeper groups, which are rejected, stay unchanged. */
function withFieldNames(where: unknown, name: (field: string) => string, depth = 0): unknown {
  if (depth > whereLimits.depth || typeof where !== 'object' || where === null) return where;
  if (Array.isArray(where)) return where.map((item) => withFieldNames(item, name, depth));
  if (Object.getPrototypeOf(where) !== Object.prototype) return where;
  return Object.fromEntries(
    Object.entries(where).map(([key, value]) => {
      if (key === 'field') return [key, typeof value === 'string' ? name(value) : value];
      const isCondition = conditionKeys.some((conditionKey) => conditionKey === key);
      return [key, isCondition ? value : withFieldNames(value, name, depth + 1)];
    }),
  );
}

/** Returns the body with current field names. */
function withCurrentNames(body: Body, aliases: Aliases): Body {
  const { where, ...rest } = body;
  return {
    ...rest,
    ...aliases.query(parametersIn(body, [])),
    ...(where !== undefined && { where: withFieldNames(where, (field) => fieldNameOf(field, aliases)) }),
  };
}

/** Returns the current name of a field, or of an amount's currency, for example `price.currency`. */
const fieldNameOf = (field: string, { name }: Aliases): string => field.replace(/^\w+/, name);

/** Returns a query's field names as the parameters that contain them. */
export function namedParameters(body: Body): Query {
  const parameters: Record<string, Query[string]> = { ...parametersIn(body, []) };
  withFieldNames(body.where, (field) => {
    parameters[field] = '';
    return field;
  });
  return parameters;
}

/** Returns a function that parses a query. */
function compileBodyRequest({
  definition,
}: Pick<OperationContext, 'definition'>): (input: QueryInput) => ListRequest {
  const knownParameters = [
    ...commonParameters,
    // Reported as misplaced.
    ...listParameters(definition),
    ...(definition.trash === undefined ? [] : [trashedParameter]),
  ];
  const readParameters = compileListParameters(definition, knownParameters);
  return (input) => {
    const { query = {}, strict = false, body } = input;
    const { declarations, customFields, issues } = readParameters(input);
    issues.push(...misplacedParameters(declarations, query));
    if (body.page !== undefined) issues.push(pageIssue);
    if (strict) {
      const unknown = Object.keys(body).filter(
        (key) => key !== 'page' && !queryKeys.some((name) => name === key),
      );
      issues.push(...unknown.map(unknownProperty(queryKeys)));
    }
    const parsedQuery = parseQuery(declarations, parametersIn(body, issues), issues);
    const { phoneRegion } = input.caller.principal;
    const where = { filters: declarations.filters, user: callerUser(input), phoneRegion, issues };
    return {
      parsedQuery: { ...parsedQuery, filters: parseWhere(where, body.where) },
      query: {},
      customFields,
      issues,
    };
  };
}

/** Returns issues for the parameters of a list in the URL, which would otherwise be ignored. */
const misplacedParameters = (declarations: Declarations, query: Query): readonly FieldIssue[] => {
  const parameters = new Set(listParameters(declarations));
  return Object.keys(query)
    .filter((name) => parameters.has(name) || name.includes('['))
    .map((name) =>
      name === 'page'
        ? pageIssue
        : parameterIssue(name, 'must be in the body', 'The body has the conditions of filters in "where".'),
    );
};

/** The issue for page numbers, which would otherwise return the first page. */
const pageIssue = parameterIssue(
  'page',
  'is not supported by queries',
  'Send "next" of the response as "cursor".',
);

/** `POST /R/query` and `QUERY /R`: a page of the records that meet any combination of conditions. */
export const query: Operation<ListPlan, QueryInput, QueryResult> = {
  method: 'POST',
  path: '/query',
  alternativeMethod: 'QUERY',
  isSafe: true,
  action: 'list',
  status: 200,
  responseHeaders: { 'X-Total-Count': list.responseHeaders?.['X-Total-Count'] ?? {} },
  formats: formatNames,
  body: { maxBytes: maxQueryBytes },
  bodyNames: { current: withCurrentNames, parameters: namedParameters },
  sampleBody: {},
  compile: (context) => {
    const compiled = compileQuery(context);
    if (context.definition.trash === undefined) return asQuery(compiled);
    return asQuery(withTrash(context, compiled, compileQuery(trashContext(context))));
  },
  describe: ({ definition, recordName, pluralName }) => ({
    operationId: `query${pluralName}`,
    summary: `Query ${definition.name}`,
    parameters: definition.trash === undefined ? [] : [trashedDescription],
    body: {
      description:
        'The conditions, and the parameters of the list. The same body with the method QUERY can be sent to the path of the list.',
      schema: `${recordName}Query`,
    },
    success: { description: `A page of ${definition.name}.`, schema: `${recordName}QueryPage` },
  }),
};

type CompiledQuery = ReturnType<typeof compileQuery>;

const compileQuery = (context: OperationContext) => compileList(context, compileBodyRequest(context));

/** Returns a compiled list whose results are returned as a query's. */
const asQuery = (compiled: CompiledQuery): CompiledOperation<ListPlan, QueryInput, QueryResult> => ({
  ...compiled,
  result: (plan, rows) => ({ ...compiled.result(plan, rows), kind: 'query' }),
});
