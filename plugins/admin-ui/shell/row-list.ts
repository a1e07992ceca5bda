import { sql } from 'kysely';
import { isRowId } from '../../../engine/fields/index.ts';
import { countRows, listRows, type RowSource } from '../../../engine/tables/index.ts';
import type { TextIn } from './catalogue.ts';
import { hiddenParameters, linkWithParameters, parametersOf, rangeText, rowsPerPage } from './listing.ts';
import type { ListContext, ListDefinition, ObjectView } from './object.ts';
import { shellTexts } from './texts/index.ts';
import type { Link, ListView } from './views.ts';

/** Returns a column's name in URLs: its English title. */
const keyOf = (title: TextIn): string => title('en');

/** The parts of a list that are needed to build its statements. */
export interface ListSpecification {
  readonly source: RowSource<{ readonly id: string }>;
  readonly views: Readonly<Record<string, ObjectView>>;
  readonly viewParameter: string;
  /** SQL expressions to sort by, keyed by column title. */
  readonly sorts: Readonly<Record<string, string>>;
}

/** Returns the parts of a list that are needed to build its statements. */
export const specificationOf = <Row extends { readonly id: string }, Context>({
  source,
  views = {},
  viewParameter = 'show',
  columns,
}: ListDefinition<Row, Context>): ListSpecification => ({
  source,
  views,
  viewParameter,
  sorts: Object.fromEntries(
    columns.flatMap(({ title, by }) => (by === undefined ? [] : [[keyOf(title), by]])),
  ),
});

/** Maximum number of search-string characters to use. */
const maxSearchLength = 200;

/** Returns the list page that a request selects. @param create the link for creating a row */
export async function rowList<Row extends { readonly id: string }, Context extends ListContext<unknown>>(
  definition: ListDefinition<Row, Context>,
  context: Context,
  create?: Link,
): Promise<ListView> {
  const { source, columns, views = {}, viewParameter = 'show', menu } = definition;
  const { request, tables, owner, urlOf, language } = context;
  const t = shellTexts(language);
  const plural = definition.plural(language);
  const parameters = parametersOf(request);
  const link = (changes: Readonly<Record<string, string | undefined>>) =>
    linkWithParameters(urlOf(), parameters, { page: undefined, before: undefined, ...changes });
  const { q = '', before } = parameters;
  const words = source.search === undefined ? [] : q.slice(0, maxSearchLength).split(/\s+/).filter(Boolean);
  const viewNames = Object.keys(views);
  const view = viewNames.find((name) => name === parameters[viewParameter]) ?? viewNames[0];
  const filters = Object.entries(definition.filters ?? {}).flatMap(([name, { where, label }]) => {
    const value = parameters[name] ?? '';
    const condition = value === '' ? undefined : where(value);
    return condition === undefined ? [] : [{ name, condition, label: label(value, context) }];
  });
  const viewCondition = views[view ?? '']?.where;
  const where = [
    ...(definition.where === undefined ? [] : [definition.where]),
    ...(viewCondition === undefined ? [] : [sql.raw(viewCondition)]),
    ...filters.map(({ condition }) => condition),
    ...(definition.isUncounted && isRowId(before)
      ? [sql`${sql.raw(source.columns.id)} < ${before}::bigint`]
      : []),
  ];
  const sortColumn = columns.find(({ title, by }) => by !== undefined && keyOf(title) === parameters.sort);
  const isDescending = parameters.dir === 'desc';

  const total = definition.isUncounted ? 0 : await countRows(tables, source, owner, { where, words });
  const lastPage = Math.max(1, Math.ceil(total / rowsPerPage));
  const page = Math.min(lastPage, Math.max(1, Math.trunc(Number(parameters.page)) || 1));
  const offset = (page - 1) * rowsPerPage;
  const rows = await listRows(tables, source, owner, {
    ...{ where, words, limit: rowsPerPage, offset },
    sort: sortColumn?.by === undefined ? undefined : { by: sortColumn.by, isDescending },
  });
  const lastId = definition.isUncounted && rows.length === rowsPerPage ? rows.at(-1)?.id : undefined;
  const nextPage = page < lastPage ? { page: String(page + 1) } : lastId && { before: lastId };

  const all = link({
    q: undefined,
    [viewParameter]: undefined,
    ...Object.fromEntries(filters.map(({ name }) => [name, undefined])),
  });
  const removals = filters.map(async ({ name, label }) => ({
    label: await label,
    name: t('removeFilter', { filter: await label }),
    isRemoved: true,
    href: link({ [name]: undefined }),
  }));
  const empty =
    words.length > 0
      ? { text: t('noResults'), link: { label: t('showAll'), href: link({ q: undefined }) } }
      : filters.length === 0 && view === viewNames[0]
        ? { text: definition.empty(language), link: create }
        : { text: t('noneMatch', { objects: plural }), link: { label: t('showAll'), href: all } };
  const cells = rows.map((row) => columns.map(({ cell }) => cell(row, context)));
  return {
    intro: definition.intro?.(context),
    ...(source.search !== undefined && {
      search: {
        label: t('searchObjects', { objects: plural }),
        value: q,
        keep: hiddenParameters(parameters, ['q', 'before']),
      },
    }),
    chips: [
      ...viewNames.map((name) => ({
        label: views[name]?.label(language) ?? name,
        href: link({ [viewParameter]: name === viewNames[0] ? undefined : name }),
        current: name === view,
      })),
      ...(await Promise.all(removals)),
    ],
    columns: columns.map(({ title, by }, column) => {
      const isSorted = title === sortColumn?.title;
      const dir = isSorted && !isDescending ? 'desc' : undefined;
      return {
        title: title(language),
        numeric: cells.some((row) => row[column]?.numeric),
        ...(by !== undefined && { href: link({ sort: keyOf(title), dir }) }),
        ...(isSorted && { sorted: isDescending ? ('descending' as const) : ('ascending' as const) }),
      };
    }),
    rows: rows.map((row, index) => ({
      id: row.id,
      cells: cells[index] ?? [],
      ...menu?.(row, context),
    })),
    empty,
    count: total === 0 ? undefined : rangeText({ offset, count: rows.length, total }, language),
    first: page > 1 || (definition.isUncounted && before !== undefined) ? link({}) : undefined,
    next: nextPage && link(nextPage),
  };
}
