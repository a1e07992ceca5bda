import { type RawBuilder, sql } from 'kysely';
import { isRowId } from '../../../engine/fields/index.ts';
import { countRows, listRows, type RowSource } from '../../../engine/tables/index.ts';
import {
  existingPage,
  type ListPage,
  type ListRequest,
  linkWithParameters,
  listPage,
  parametersOf,
  rowsPerPage,
} from './listing.ts';
import type { ListContext, ListDefinition, ObjectView } from './object.ts';
import type { Link, ListView } from './views.ts';

/** The parts of a list from which its statements are built. */
export interface StatedList {
  readonly source: RowSource<{ readonly id: string }>;
  readonly views: Readonly<Record<string, ObjectView>>;
  readonly viewParameter: string;
  /** SQL expressions to sort by, by the title of their column. */
  readonly sorts: Readonly<Record<string, string>>;
}

/** Returns the parts of a list from which its statements are built. */
export const statedList = <Row extends { readonly id: string }, Context>({
  source,
  views = {},
  viewParameter = 'show',
  columns,
}: ListDefinition<Row, Context>): StatedList => ({
  source,
  views,
  viewParameter,
  sorts: Object.fromEntries(columns.flatMap(({ title, by }) => (by === undefined ? [] : [[title, by]]))),
});

/** Returns the page of a list that the request selects. @param create the link to create a row */
export async function rowList<Row extends { readonly id: string }, Context extends ListContext<unknown>>(
  definition: ListDefinition<Row, Context>,
  context: Context,
  create?: Link,
): Promise<ListView> {
  const { source, plural, columns, views = {}, viewParameter = 'show', menu } = definition;
  const { request, urlOf } = context;
  const parameters = parametersOf(request);
  const filters = Object.entries(definition.filters ?? {}).flatMap(([name, { where, label }]) => {
    const value = parameters[name] ?? '';
    const condition = value === '' ? undefined : where(value);
    return condition === undefined ? [] : [{ name, condition, label: label(value, context) }];
  });
  const isWhole = filters.length === 0 && Object.keys(views).indexOf(parameters[viewParameter] ?? '') <= 0;
  const page = await listPage<Row, string>(
    request,
    {
      searchLabel: source.search && `Search ${plural}`,
      views,
      viewParameter,
      columns: columns.map(({ title, cell, by }) => ({ title, cell: (row) => cell(row, context), by })),
      row: (row) => ({ id: row.id, ...menu?.(row, context) }),
      empty: isWhole
        ? { text: definition.empty, link: create }
        : { text: `No ${plural} match the filter.`, link: { label: 'Show all', href: urlOf() } },
    },
    (list) => {
      const condition = views[list.view ?? '']?.where;
      const where = [
        ...(condition === undefined ? [] : [sql.raw(`(${condition})`)]),
        ...filters.map((filter) => filter.condition),
      ];
      return definition.isUncounted
        ? uncountedPage(source, context, list, where)
        : countedPage(source, context, list, where);
    },
  );
  const removals = filters.map(async ({ name, label }) => ({
    label: await label,
    name: `Remove the filter ${await label}`,
    isRemoved: true,
    href: linkWithParameters(urlOf(), parameters, { [name]: undefined, page: undefined, before: undefined }),
  }));
  return {
    ...page,
    intro: definition.intro?.(context),
    chips: [...(page.chips ?? []), ...(await Promise.all(removals))],
  };
}

/** Reads a numbered page. */
async function countedPage<Row extends { readonly id: string }>(
  source: RowSource<Row>,
  { tables, owner }: ListContext<unknown>,
  { words, sort, page: requestedPage }: ListRequest<string>,
  where: readonly RawBuilder<unknown>[],
): Promise<ListPage<Row>> {
  const total = await countRows(tables, source, owner, { where, words });
  const page = existingPage(requestedPage, total);
  const offset = (page - 1) * rowsPerPage;
  const items = await listRows(tables, source, owner, { where, words, sort, limit: rowsPerPage, offset });
  return { items, position: { page, total } };
}

/** Reads the page below the ID in `before`. */
async function uncountedPage<Row extends { readonly id: string }>(
  source: RowSource<Row>,
  { tables, owner }: ListContext<unknown>,
  { parameters: { before } }: ListRequest<string>,
  where: readonly RawBuilder<unknown>[],
): Promise<ListPage<Row>> {
  const older = isRowId(before) ? [sql`${sql.raw(source.columns.id)} < ${before}::bigint`] : [];
  const page = { where: [...where, ...older], limit: rowsPerPage };
  const items = await listRows(tables, source, owner, page);
  return { items, nextBefore: items.length === rowsPerPage ? items.at(-1)?.id : undefined };
}
