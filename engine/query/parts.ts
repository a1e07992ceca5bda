import type { FieldIssue } from '../errors.ts';
import type { Field, JsonSchema } from '../fields/index.ts';
import type { Placeholder } from '../sql/index.ts';
import { expansion } from './expansion.ts';
import { fieldsParameter } from './fields-parameter.ts';
import { filters } from './filters.ts';
import { page } from './page.ts';
import type { Clauses, Cost, DeclarationContext, Index, NamedField, Query, QueryPart } from './part.ts';
import { search } from './search.ts';
import { sort } from './sort.ts';

/** Every query part by its name, which is also its YAML key. Wrong parameters are listed in this order. */
export const queryParts = { page, sort, filters, search, selection: fieldsParameter, expansion } as const;

type Parts = typeof queryParts;
export type PartName = keyof Parts;

/** The declarations of a definition, by part. */
export type Declarations = { readonly [Name in PartName]: ReturnType<Parts[Name]['declare']> };
/** The parsed parameters of a request, by part. */
export type ParsedQuery = { readonly [Name in PartName]: ReturnType<Parts[Name]['parse']> };

/** The parts as a list, for work that is the same for each; their individual types are erased. */
const parts = Object.entries(queryParts) as unknown as readonly (readonly [PartName, QueryPart])[];
/** Those that a record that is read by its id has too. */
const recordParts = parts.filter(([, part]) => part.ofRecord === true);
const reserved = ['org', ...parts.flatMap(([, part]) => part.reserved ?? [])];

/** The YAML keys of the parts, as JSON Schema. */
export const querySchema = Object.fromEntries(
  parts.flatMap(([name, { yaml }]) => (yaml === undefined ? [] : [[name, yaml]])),
);

/** What the keys may hold in a resource with these fields, for editors. */
export const querySchemaOf = (fields: readonly NamedField[]): Readonly<Record<string, JsonSchema>> =>
  Object.fromEntries(
    parts.flatMap(([name, { yamlOf }]) => (yamlOf === undefined ? [] : [[name, yamlOf(fields, reserved)]])),
  );

/**
 * Reads the YAML keys of the parts of a resource.
 * @param yaml the values of the parts' keys
 * @param report called with the path and the message of each mistake
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

/** Names of the parameters that a resource's list knows, `org` aside. */
export const listParameters = (declarations: Declarations): string[] =>
  parts.flatMap(([name, part]) => part.parameters(declarations[name]));

/** Reads a request's parameters; adds everything that is wrong to `problems`. */
export const parseQuery = (declarations: Declarations, query: Query, problems: FieldIssue[]): ParsedQuery =>
  parseParts(parts, declarations, query, problems) as ParsedQuery;

/** One object that grows: this runs for every list. */
function parseParts(
  some: typeof parts,
  declarations: Declarations,
  query: Query,
  problems: FieldIssue[],
): Readonly<Record<string, unknown>> {
  const asked: Record<string, unknown> = {};
  for (const [name, part] of some) asked[name] = part.parse(declarations[name], query, problems);
  return asked;
}

/** The part of a request that the text of its statement depends on. */
export const queryShape = (asked: ParsedQuery): string =>
  parts.map(([name, part]) => part.shape(asked[name])).join(' ');

/** The clauses of a list's statement, of all parts. */
export function queryClauses<Input extends { readonly asked: ParsedQuery }>(
  declarations: Declarations,
  asked: ParsedQuery,
  placeholder: Placeholder<Input>,
): Clauses {
  const clauses = parts.map(([name, part]) =>
    part.clauses(declarations[name], asked[name], (value) =>
      placeholder((input) => value(input.asked[name])),
    ),
  );
  const order = clauses.flatMap(({ order = [] }) => order);
  const { equal, sort, scan } = queryCost(asked);
  return Object.assign({}, ...clauses, {
    where: clauses.flatMap(({ where = [] }) => where),
    // Where all values are equal, the id alone is the order; an index has it.
    order: !scan && equal.includes(sort) ? order.slice(-1) : order,
  });
}

/** The index that a list needs so that it does not scan all records of the organization. */
export function queryCost(asked: ParsedQuery): Required<Cost> & { readonly sort: Field } {
  const costs = parts.map(([name, part]) => part.cost?.(asked[name]) ?? {});
  return {
    equal: costs.flatMap(({ equal = [] }) => equal),
    find: costs.flatMap(({ find = [] }) => find),
    gather: costs.some(({ gather }) => gather === true),
    sort: asked.sort.field,
    scan: costs.some(({ scan }) => scan === true),
  };
}

/** What a request asks to see of each record. */
export type RequestedProjection = Pick<ParsedQuery, 'selection' | 'expansion'>;

/** The same as {@link listParameters}, {@link parseQuery}, {@link queryShape} and {@link describeQuery} for one record. */
export const recordQuery = {
  parameters: (declarations: Declarations): string[] =>
    recordParts.flatMap(([name, part]) => part.parameters(declarations[name])),
  parse: (declarations: Declarations, query: Query, problems: FieldIssue[]): RequestedProjection =>
    parseParts(recordParts, declarations, query, problems) as unknown as RequestedProjection,
  shape: (shown: RequestedProjection): string =>
    recordParts.map(([name, part]) => part.shape(shown[name as keyof RequestedProjection])).join(' '),
  describe: (declarations: Declarations) =>
    recordParts.flatMap(([name, part]) => part.describe(declarations[name])),
} as const;

/** The parameters of a list as OpenAPI describes them. */
export const describeQuery = (declarations: Declarations) =>
  parts.flatMap(([name, part]) => part.describe(declarations[name]));

/** The indexes that serve the lists of a resource. */
export const queryIndexes = (declarations: Declarations): Index[] =>
  parts.flatMap(([name, part]) => part.indexes?.(declarations[name], declarations.sort.field) ?? []);
