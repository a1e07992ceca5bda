import type { ResourceDefinition } from '../definition/index.ts';
import type { FieldIssue } from '../errors.ts';
import { type Field, hasCustomFields, refersToUser } from '../fields/index.ts';
import { type Declarations, type Query, withCustomFilters } from '../query/index.ts';
import { customFieldsOf, noFields, unknownCustomFilters } from './custom-fields.ts';
import type { OperationInput } from './operation.ts';
import { unknownParameters } from './requests.ts';

/** The parameters of a list or an aggregate, before they are parsed. */
interface ListParameters {
  /** The declarations, which include filters of the organization's custom fields. */
  readonly declarations: Declarations;
  /** The parameters, with the caller's ID instead of `me`. */
  readonly query: Query;
  /** The custom fields of the records. */
  readonly customFields: readonly Field[];
  /** The issues found so far, to which parsing adds more. */
  readonly issues: FieldIssue[];
}

/**
 * Returns a function that prepares the parameters of lists and aggregates for parsing.
 * @param knownParameters names of all parameters, except filters of custom fields
 */
export function compileListParameters(
  definition: ResourceDefinition,
  knownParameters: readonly string[],
): (input: OperationInput) => ListParameters {
  const userFilters = definition.filters
    .filter(({ field }) => refersToUser(field))
    .flatMap(({ parameters }) => parameters.map(({ name }) => name));
  const isCustom = hasCustomFields(definition);
  return (input) => {
    const { query = {} } = input;
    const customFields = isCustom ? customFieldsOf(input, definition) : noFields;
    const names =
      customFields.length === 0
        ? knownParameters
        : [...knownParameters, ...customFields.map(({ name }) => name)];
    // Filters always reject unknown parameters with brackets, so these issues are reported elsewhere.
    const issues = unknownParameters(input, names).filter(({ field }) => !field.includes('['));
    if (isCustom) issues.push(...unknownCustomFilters(query, customFields));
    const declarations = withCustomFilters(definition, customFields);
    return { declarations, query: withCaller(query, userFilters, input), customFields, issues };
  };
}

/** Returns the ID that `me` stands for in filters for users. Without a user, it matches no record. */
export const callerUser = ({ caller }: Pick<OperationInput, 'caller'>): string =>
  caller.principal.user ?? '0';

/**
 * Replaces `me` with the caller's ID in filters for users.
 * @param names parameters of filters for users
 */
function withCaller(query: Query, names: readonly string[], input: Pick<OperationInput, 'caller'>): Query {
  const usesMe = names.filter((name) => [query[name] ?? []].flat().includes('me'));
  if (usesMe.length === 0) return query;
  const id = callerUser(input);
  const values = usesMe.map((name) => [
    name,
    [query[name] ?? []].flat().map((value) => (value === 'me' ? id : value)),
  ]);
  return { ...query, ...Object.fromEntries(values) };
}
