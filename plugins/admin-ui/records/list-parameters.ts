import type { ResourceView } from '../../../engine/compile/index.ts';
import { errors } from '../../../engine/errors.ts';
import { conditionParameters, listParameters, type Query } from '../../../engine/query/index.ts';
import { rangeFilter } from './day-ranges.ts';
import { isOrder } from './list-order.ts';

/** Parameters that apply to a single view of a list and are omitted from its links. */
export const transientParameters = ['done', 'at', 'by', 'value', 'cursor', 'page', 'set', 'list'];

/** The filter that selects records by their IDs, if a list has it. */
export const idsParameter = 'id[in]';

/** Other parameters of a list page, in addition to the list's own. */
const pageParameters = [...transientParameters, 'columns', 'dir', 'view'];

/** Maximum number of parameters of a list page. */
const maxParameters = 200;

/**
 * Returns the parameters that a list page uses, and those that look like filters. All others are dropped, because every link
 * and form on the page repeats the parameters.
 * @throws HttpError 400 if there are more than {@link maxParameters}
 */
export function usedParameters({ definition }: ResourceView, parameters: URLSearchParams): URLSearchParams {
  const names = new Set([...listParameters(definition), ...pageParameters]);
  const used = [...parameters].filter(([name]) => names.has(name) || name.includes('['));
  if (used.length > maxParameters)
    throw errors.invalidParameter('The URL', `must contain at most ${maxParameters} parameters`);
  return new URLSearchParams(used);
}

/** Converts URL parameters to the operation's query, except `fields`, which each page determines. */
export function queryOf({ definition }: ResourceView, parameters: URLSearchParams): Query {
  const names = new Set(listParameters(definition));
  for (const name of ['fields', 'expand']) names.delete(name);
  const query: Record<string, string[]> = {};
  for (const [name, value] of parameters) {
    if (!names.has(name) && !name.includes('[')) continue;
    const filters = rangeFilter({ definition }, name, value)?.filters ?? [[name, value]];
    for (const [filter, text] of filters) query[filter] = [...(query[filter] ?? []), text];
  }
  return Object.fromEntries(
    Object.entries(query).map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  );
}

/** Returns the filters and the search text in URL parameters, or undefined if no parameter has a value. */
export function conditionsOf(resource: ResourceView, parameters: URLSearchParams): Query | undefined {
  const names = new Set(conditionParameters(resource.definition));
  const conditions = Object.entries(queryOf(resource, parameters)).flatMap(([name, value]) => {
    const values = [value ?? []].flat().filter((text) => text !== '');
    return values.length > 0 && (names.has(name) || name.includes('['))
      ? [[name, values.length === 1 ? values[0] : values]]
      : [];
  });
  return conditions.length === 0 ? undefined : Object.fromEntries(conditions);
}

/** The parameters of a saved view, divided by whether the member's list accepts them. */
interface ViewParameters {
  readonly parameters: URLSearchParams;
  /** Names of fields that do not exist or that the member cannot use, for example because they were renamed. */
  readonly ignored: readonly string[];
}

/**
 * Divides a list's parameters into those that belong to a view (filters, search, order and columns) and those that the list
 * does not accept.
 */
export function viewParameters(resource: ResourceView, query: URLSearchParams): ViewParameters {
  const { definition } = resource;
  const parameters = new URLSearchParams();
  const ignored = new Set<string>();
  const filters = new Set(definition.filters.flatMap((filter) => filter.parameters.map(({ name }) => name)));
  const columns = definition.fields.filter(({ aliasOf }) => aliasOf === undefined).map(({ name }) => name);
  for (const [name, value] of query) {
    if (value === '') continue;
    const [isAccepted, field] =
      name === 'q'
        ? [definition.search.length > 0, 'search']
        : name === 'sort' || name === 'dir'
          ? [isOrder(resource, query), query.get('sort') ?? value]
          : name === 'columns'
            ? [columns.includes(value), value]
            : [
                filters.has(name) ||
                  filters.has(`${name}[eq]`) ||
                  rangeFilter(resource, name, value) !== undefined,
                name.replace(/\[.*$/s, ''),
              ];
    if (isAccepted) parameters.append(name, value);
    else ignored.add(field);
  }
  return { parameters, ignored: [...ignored] };
}

/** Returns whether two lists have the same filters, search, order and columns. The order of parameters does not matter. */
export const isSameView = (a: URLSearchParams, b: URLSearchParams): boolean => canonical(a) === canonical(b);

const canonical = (parameters: URLSearchParams): string => {
  const sorted = new URLSearchParams(parameters);
  sorted.sort();
  return String(sorted);
};
