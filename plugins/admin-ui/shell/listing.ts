import type { FastifyRequest } from 'fastify';
import type { DisplayValue, HiddenField, ListView, TableColumn, TableRow } from './views.ts';

/** A column of a list. `By` is how the list is sorted by it. */
interface ListColumn<T, By> {
  readonly title: string;
  readonly cell: (item: T) => DisplayValue;
  /** The sort key. If absent, the list cannot be sorted by this column. */
  readonly by?: By | undefined;
  readonly numeric?: true;
}

/** A list that is searched, sorted and divided into pages. */
interface ListOptions<T, By> {
  readonly columns: readonly ListColumn<T, By>[];
  /** Label of the search field. If absent, the list cannot be searched. */
  readonly searchLabel?: string | undefined;
  /** Alternative views of the list, by their value in the URL. The first view is the default. */
  readonly views?: Readonly<Record<string, { readonly label: string }>> | undefined;
  /** Parameter that selects the view. */
  readonly viewParameter?: string | undefined;
  readonly row: (item: T) => Omit<TableRow, 'cells'>;
  readonly empty: ListView['empty'];
}

/** The part of a list that a request selects. */
export interface ListRequest<By> {
  /** Words that items must contain, ignoring case. */
  readonly words: readonly string[];
  readonly view: string | undefined;
  readonly sort: { readonly by: By; readonly isDescending: boolean } | undefined;
  /** Page number from 1, which can be higher than the last page. */
  readonly page: number;
  readonly parameters: Readonly<Record<string, string>>;
}

/** A page of a list. */
export interface ListPage<T> {
  readonly items: readonly T[];
  /** The page number and the number of items on all pages, unless pages are selected by `before`. */
  readonly position?: { readonly page: number; readonly total: number };
  /** Value of `before` for the next page. */
  readonly nextBefore?: string | undefined;
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

/** Number of characters of a search text that are used. */
const maxSearchLength = 200;

/** Returns the page of a list that the query parameters select. @param load returns the items */
export async function listPage<T, By>(
  request: FastifyRequest,
  { columns, searchLabel, views = {}, viewParameter = 'show', row, empty }: ListOptions<T, By>,
  load: (list: ListRequest<By>) => Promise<ListPage<T>>,
): Promise<ListView> {
  const parameters = parametersOf(request);
  const path =
    request.routeOptions.method === 'POST'
      ? request.url.replace(/\/[^/]*$/, '')
      : (request.url.split('?')[0] ?? '');
  const names = Object.keys(views);
  const viewName = parameters[viewParameter] ?? '';
  const view = names.includes(viewName) ? viewName : names[0];
  const words = (parameters.q ?? '').slice(0, maxSearchLength).split(/\s+/).filter(Boolean);
  const sortColumn = columns.find(({ title, by }) => by !== undefined && title === parameters.sort);
  const isDescending = parameters.dir === 'desc';
  const { items, position, nextBefore } = await load({
    words,
    view,
    sort: sortColumn?.by === undefined ? undefined : { by: sortColumn.by, isDescending },
    page: Math.max(1, Math.trunc(Number(parameters.page)) || 1),
    parameters,
  });
  const { page = 1, total = 0 } = position ?? {};
  const link = (changes: Readonly<Record<string, string | undefined>>) =>
    linkWithParameters(path, parameters, { page: undefined, before: undefined, ...changes });
  return {
    ...(searchLabel !== undefined && {
      search: {
        label: searchLabel,
        value: parameters.q ?? '',
        keep: hiddenParameters(parameters, ['q', 'before']),
      },
    }),
    chips: names.map((name) => ({
      label: `${views[name]?.label}`,
      href: link({ [viewParameter]: name === names[0] ? undefined : name }),
      current: name === view,
    })),
    columns: columns.map(({ title, by, numeric = false }): TableColumn => {
      const isSorted = title === sortColumn?.title;
      return {
        title,
        numeric,
        ...(by !== undefined && {
          href: link({ sort: title, dir: isSorted && !isDescending ? 'desc' : undefined }),
        }),
        ...(isSorted && { sorted: isDescending ? ('descending' as const) : ('ascending' as const) }),
      };
    }),
    rows: items.map((item) => ({ ...row(item), cells: columns.map(({ cell }) => cell(item)) })),
    empty:
      words.length > 0
        ? { text: 'No results.', link: { label: 'Show all', href: link({ q: undefined }) } }
        : empty,
    count:
      total > 0
        ? `${(page - 1) * rowsPerPage + 1}–${Math.min(page * rowsPerPage, total)} of ${total}`
        : undefined,
    first: page > 1 || (position === undefined && parameters.before !== undefined) ? link({}) : undefined,
    next:
      page * rowsPerPage < total
        ? link({ page: String(page + 1) })
        : nextBefore && link({ before: nextBefore }),
  };
}

/** Returns a page number that exists. */
export const existingPage = (page: number, total: number): number =>
  Math.min(page, Math.max(1, Math.ceil(total / rowsPerPage)));

/** Returns one page of an in-memory list. @param text returns the text in which to search */
export const memoryPage =
  <T>(all: readonly T[], text: (item: T) => string) =>
  async ({ words, sort, page: requestedPage }: ListRequest<(item: T) => string>): Promise<ListPage<T>> => {
    const matches = all.filter((item) =>
      words.every((word) => text(item).toLowerCase().includes(word.toLowerCase())),
    );
    if (sort !== undefined) {
      const { by, isDescending } = sort;
      matches.sort((a, b) => (isDescending ? -1 : 1) * by(a).localeCompare(by(b)));
    }
    const page = existingPage(requestedPage, matches.length);
    const items = matches.slice((page - 1) * rowsPerPage, page * rowsPerPage);
    return { items, position: { page, total: matches.length } };
  };
