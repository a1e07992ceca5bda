import type { FastifyRequest } from 'fastify';
import type { Chip, DisplayValue, HiddenField, ListView, TableColumn, TableRow } from './views.ts';

/** A column of an in-memory list. */
interface MemoryColumn<T> {
  readonly title: string;
  readonly cell: (item: T) => DisplayValue;
  /** The sort key. If absent, the list cannot be sorted by this column. */
  readonly by?: (item: T) => string | number | null;
  readonly numeric?: true;
}

/** Options for searching, sorting and paginating an in-memory list. */
export interface MemoryList<T> {
  readonly columns: readonly MemoryColumn<T>[];
  /** Returns the text in which to search. */
  readonly text: (item: T) => string;
  readonly searchLabel: string;
  /** Alternative views of the list, by their value in the URL. The first view is the default. */
  readonly views?: Readonly<Record<string, { readonly label: string; readonly has: (item: T) => boolean }>>;
  readonly row: (item: T) => Omit<TableRow, 'cells'>;
  readonly empty: ListView['empty'];
}

/** Number of rows per page. */
export const rowsPerPage = 50;

/** Returns a request's query parameters. If a parameter is repeated, its first value is used. */
export const parametersOf = ({ query }: FastifyRequest): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(query as Record<string, unknown>).flatMap(([name, value]) => {
      const first = Array.isArray(value) ? value[0] : value;
      return typeof first === 'string' ? [[name, first]] : [];
    }),
  );

/** Returns the URL of a list with changed parameters. Undefined removes a parameter. */
export function linkWithParameters(
  path: string,
  parameters: Readonly<Record<string, string>>,
  changes: Readonly<Record<string, string | undefined>>,
): string {
  const { done: _done, at: _at, ...persistentParameters } = parameters;
  const entries = Object.entries({ ...persistentParameters, ...changes }).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, value] satisfies [string, string]],
  );
  const text = String(new URLSearchParams(entries));
  return text === '' ? path : `${path}?${text}`;
}

/** Returns the parameters as hidden fields, except those that the form already contains. */
export const hiddenParameters = (
  parameters: Readonly<Record<string, string>>,
  excluded: readonly string[],
): HiddenField[] =>
  Object.entries(parameters)
    .filter(([name]) => !['done', 'at', 'page', ...excluded].includes(name))
    .map(([name, value]) => ({ name, value }));

/**
 * Returns the URL of a list with the filter that a form added as `by` and `value`, or undefined if no filter was added.
 */
export function filterLink(request: FastifyRequest, path: string): string | undefined {
  const parameters = new URLSearchParams(request.url.split('?')[1] ?? '');
  const [by, value] = [parameters.get('by'), parameters.get('value')];
  if (by === null || value === null) return undefined;
  for (const name of ['by', 'value', 'before', 'cursor', 'page']) parameters.delete(name);
  if (value.trim() !== '') parameters.append(by, value.trim());
  return `${path}?${parameters}`;
}

/** Returns one page of an in-memory list, searched and sorted by the query parameters. */
export function listing<T>(request: FastifyRequest, items: readonly T[], options: MemoryList<T>): ListView {
  const parameters = parametersOf(request);
  const path =
    request.routeOptions.method === 'POST'
      ? request.url.replace(/\/[^/]*$/, '')
      : (request.url.split('?')[0] ?? '');
  const { columns, views = {}, text, row } = options;
  const names = Object.keys(views);
  const view = names.includes(parameters.show ?? '') ? parameters.show : names[0];
  const words = (parameters.q ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const viewItems = items.filter((item) => view === undefined || views[view]?.has(item) === true);
  const matches = viewItems.filter((item) => words.every((word) => text(item).toLowerCase().includes(word)));

  const sortColumn = columns.find(({ title, by }) => by !== undefined && title === parameters.sort);
  const sign = parameters.dir === 'desc' ? -1 : 1;
  if (sortColumn?.by !== undefined) {
    const { by } = sortColumn;
    matches.sort((a, b) => sign * compare(by(a), by(b)));
  }
  const pages = Math.max(1, Math.ceil(matches.length / rowsPerPage));
  const page = Math.min(pages, Math.max(1, Math.trunc(Number(parameters.page)) || 1));
  const link = (changes: Readonly<Record<string, string | undefined>>) =>
    linkWithParameters(path, parameters, changes);
  const chips: Chip[] = names.map((name) => ({
    label: `${views[name]?.label}`,
    href: link({ show: name === names[0] ? undefined : name, page: undefined }),
    current: name === view,
  }));
  return {
    search: {
      label: options.searchLabel,
      value: parameters.q ?? '',
      keep: hiddenParameters(parameters, ['q']),
    },
    chips,
    columns: columns.map(({ title, by, numeric = false }): TableColumn => {
      const isSorted = title === sortColumn?.title;
      const dir = isSorted && sign === 1 ? 'desc' : undefined;
      return {
        title,
        numeric,
        ...(by && { href: link({ sort: title, dir, page: undefined }) }),
        ...(isSorted && { sorted: sign === 1 ? ('ascending' as const) : ('descending' as const) }),
      };
    }),
    rows: matches
      .slice((page - 1) * rowsPerPage, page * rowsPerPage)
      .map((item) => ({ ...row(item), cells: columns.map(({ cell }) => cell(item)) })),
    empty:
      words.length > 0
        ? { text: 'No results.', link: { label: 'Show all', href: link({ q: undefined }) } }
        : options.empty,
    count:
      matches.length > 0
        ? `${(page - 1) * rowsPerPage + 1}–${Math.min(page * rowsPerPage, matches.length)} of ${matches.length}`
        : undefined,
    first: page > 1 ? link({ page: undefined }) : undefined,
    next: page < pages ? link({ page: String(page + 1) }) : undefined,
  };
}

/** Compares sort keys. Null sorts last, and text sorts by locale. */
function compare(a: string | number | null, b: string | number | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  return typeof a === 'string' ? a.localeCompare(String(b)) : a - Number(b);
}
