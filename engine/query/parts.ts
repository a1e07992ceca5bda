import type { FieldIssue } from '../errors.ts';
import type { Field, JsonSchema } from '../fields/index.ts';
import type { Placeholder } from '../sql/index.ts';
import { expansion } from './expansion.ts';
import { fieldsParameter } from './fields-parameter.ts';
import { filters } from './filters.ts';
import { page } from './page.ts';
import type {
  CallerSql,
  Clauses,
  Cost,
  DeclarationContext,
  Index,
  NamedField,
  OverlaidList,
  Query,
  QueryPart,
} from './part.ts';
import { search } from './search.ts';
import { sort } from './sort.ts';

/** All query parts, keyed by name, which is also the YAML key. Issues are reported in this order. */
export const queryParts = { page, sort, filters, search, selection: fieldsParameter, expansion } as const;

type Parts = typeof queryParts;
export type PartName = keyof Parts;

/** A definition's declarations, keyed by query part. */
export type Declarations = { readonly [Name in PartName]: ReturnType<Parts[Name]['declare']> };
/** A request's parsed parameters, keyed by query part. */
export type ParsedQuery = { readonly [Name in PartName]: ReturnType<Parts[Name]['parse']> };

/** The parts as a list, without their individual types. */
const parts = Object.entries(queryParts) as unknown as readonly (readonly [PartName, QueryPart])[];
/** Parts that also apply to requests for a single record. */
const recordParts = parts.filter(([, part]) => part.ofRecord === true);
/** Parts that select records, in lists as in aggregates. */
const conditionParts = parts.filter(([name]) => name === 'filters' || name === 'search');
/** Parameter with which the caller confirms a bulk change. */
export const confirmParameter = 'confirm';

const reserved = ['org', confirmParameter, ...parts.flatMap(([, part]) => part.reserved ?? [])];

/** The YAML lists to which a file with `extends` can add entries and from which it can remove entries, by key. */
export const overlaidLists: ReadonlyMap<string, OverlaidList> = new Map(
  parts.flatMap(([name, { list }]) => (list === undefined ? [] : [[name, list] as const])),
);

/** JSON Schema of the parts' YAML keys. */
export const querySchema = Object.fromEntries(
  parts.flatMap(([name, { yaml }]) => (yaml === undefined ? [] : [[name, yaml]])),
);

/** Returns the keys' schemas for editors, which allow only the names of these fields. */
export const querySchemaOf = (fields: readonly NamedField[]): Readonly<Record<string, JsonSchema>> =>
  Object.fromEntries(
    parts.flatMap(([name, { yamlOf }]) => (yamlOf === undefined ? [] : [[name, yamlOf(fields, reserved)]])),
  );

/**
 * Parses the YAML keys of a resource's query parts.
 * @param yaml the values of the parts' keys
 * @param report called with the path and message of each issue
 */
export function declareQuery(
  yaml: Readonly<Record<string, unknown>>,
  fields: DeclarationContext['fields'],
  report: DeclarationContext['report'],
): Declarations {
  return Object.fromEntries(
    parts.map(([name, part]) => [
      name,
      part.declare({
        yaml: yaml[name],
        fields,
        reserved,
        report: (path, message) => report([name, ...path], message),
      }),
    ]),
  ) as Declarations;
}

/** Returns the names of a list's parameters, except `org`. */
export const listParameters = (declarations: Declarations): string[] =>
  parts.flatMap(([name, part]) => part.parameters(declarations[name]));

/** Parses a request's parameters and adds every issue to `issues`. @param phoneRegion see {@link QueryPart} */
export const parseQuery = (
  declarations: Declarations,
  query: Query,
  issues: FieldIssue[],
  phoneRegion?: string,
): ParsedQuery => parseParts(parts, declarations, query, issues, phoneRegion) as ParsedQuery;

/** Returns the names of the parameters that select records: filters and `q`. */
export const conditionParameters = (declarations: Declarations): string[] =>
  conditionParts.flatMap(([name, part]) => part.parameters(declarations[name]));

/**
 * Parses the parameters that select records, and adds every issue to `issues`. Everything else has its default. Rejects unknown
 * parameters with an operator, as lists do.
 */
export function parseConditions(
  declarations: Declarations,
  query: Query,
  issues: FieldIssue[],
  phoneRegion?: string,
): ParsedQuery {
  const names = new Set(conditionParameters(declarations));
  const conditions = Object.entries(query).filter(([name]) => names.has(name) || name.includes('['));
  return parseQuery(declarations, Object.fromEntries(conditions), issues, phoneRegion);
}

/**
 * Parses each part's parameters. Fills a single object instead of creating entries, because this runs for every list.
 */
function parseParts(
  subset: typeof parts,
  declarations: Declarations,
  query: Query,
  issues: FieldIssue[],
  phoneRegion?: string,
): Readonly<Record<string, unknown>> {
  const parsed: Record<string, unknown> = {};
  for (const [name, part] of subset)
    parsed[name] = part.parse(declarations[name], query, issues, phoneRegion);
  return parsed;
}

/** Returns a key for everything that affects the text of a list's statement. */
export const queryShape = (parsed: ParsedQuery): string =>
  parts.map(([name, part]) => part.shape(parsed[name])).join(' ');

/** Returns the clauses of a list's statement. */
export function queryClauses<Input extends { readonly parsedQuery: ParsedQuery }>(
  declarations: Declarations,
  parsed: ParsedQuery,
  placeholder: Placeholder<Input>,
  caller: CallerSql,
): Clauses {
  const clauses = parts.map(([name, part]) =>
    part.clauses(
      declarations[name],
      parsed[name],
      (value) => placeholder((input) => value(input.parsedQuery[name])),
      caller,
    ),
  );
  const order = clauses.flatMap(({ order = [] }) => order);
  const { equal, sort, scan } = queryCost(parsed);
  return Object.assign({}, ...clauses, {
    where: clauses.flatMap(({ where = [] }) => where),
    // If all sort values are equal, the order depends only on the ID, and an index provides it. Values whose comparison ignores
    // differences, for example in case, can have another order.
    order: !scan && equal.includes(sort) && sort.comparison === undefined ? order.slice(-1) : order,
  });
}

/** Returns the index that a list needs to avoid a scan of the organization's records. */
export function queryCost(parsed: ParsedQuery): Required<Cost> & { readonly sort: Field } {
  const costs = parts.map(([name, part]) => part.cost?.(parsed[name]) ?? {});
  return {
    equal: costs.flatMap(({ equal = [] }) => equal),
    find: costs.flatMap(({ find = [] }) => find),
    gather: costs.some(({ gather }) => gather === true),
    sort: parsed.sort.field,
    scan: costs.some(({ scan }) => scan === true),
  };
}

/** The projection requested by a caller. */
export type RequestedProjection = Pick<ParsedQuery, 'selection' | 'expansion'>;

/** The equivalents of {@link listParameters} and the other list functions for a single record. */
export const recordQuery = {
  parameters: (declarations: Declarations): string[] =>
    recordParts.flatMap(([name, part]) => part.parameters(declarations[name])),
  parse: (declarations: Declarations, query: Query, issues: FieldIssue[]): RequestedProjection =>
    parseParts(recordParts, declarations, query, issues) as unknown as RequestedProjection,
  shape: (projection: RequestedProjection): string =>
    recordParts.map(([name, part]) => part.shape(projection[name as keyof RequestedProjection])).join(' '),
  describe: (declarations: Declarations) =>
    recordParts.flatMap(([name, part]) => part.describe(declarations[name])),
} as const;

/** Returns the OpenAPI description of a list's parameters. */
export const describeQuery = (declarations: Declarations) =>
  parts.flatMap(([name, part]) => part.describe(declarations[name]));

/** Returns the OpenAPI description of the parameters that select records. */
export const describeConditions = (declarations: Declarations) =>
  conditionParts.flatMap(([name, part]) => part.describe(declarations[name]));

/** Returns the indexes that serve a resource's lists. */
export const queryIndexes = (declarations: Declarations): Index[] =>
  parts.flatMap(([name, part]) => part.indexes?.(declarations[name], declarations.sort.field) ?? []);
