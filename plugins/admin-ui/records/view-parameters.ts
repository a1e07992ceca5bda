import type { ResourceView } from '../../../engine/compile/index.ts';

/** Parameters that apply to a single view of a list and are omitted from its links. */
export const transientParameters = ['done', 'at', 'by', 'value', 'cursor', 'page', 'set'];

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
export function viewParameters({ definition }: ResourceView, query: URLSearchParams): ViewParameters {
  const parameters = new URLSearchParams();
  const ignored = new Set<string>();
  const filters = new Set(definition.filters.flatMap((filter) => filter.parameters.map(({ name }) => name)));
  const { choices, field: defaultSort } = definition.sort;
  const sort = query.get('sort') ?? defaultSort.name;
  const columns = definition.fields.filter(({ aliasOf }) => aliasOf === undefined).map(({ name }) => name);
  for (const [name, value] of query) {
    if (value === '') continue;
    const [isAccepted, field] =
      name === 'q'
        ? [definition.search.length > 0, 'search']
        : name === 'sort' || name === 'dir'
          ? [choices.has(sort) && (name === 'sort' || value === 'asc' || value === 'desc'), sort]
          : name === 'columns'
            ? [columns.includes(value), value]
            : [filters.has(name) || filters.has(`${name}[eq]`), name.replace(/\[.*$/s, '')];
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
