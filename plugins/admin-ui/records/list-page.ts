import type { ResourceView } from '../../../engine/compile/index.ts';
import { recordLabel, resourceLabel } from '../../../engine/definition/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import { type Field, fieldLabel, humanize, refersToUser } from '../../../engine/fields/index.ts';
import { conditionParameters, listParameters, type Query } from '../../../engine/query/index.ts';
import { maxBulk } from '../../../engine/records/index.ts';
import type { SavedView } from '../saved-views/index.ts';
import { type AddedFilter, filterMenu, type ListView, messageIn, type Text } from '../shell/index.ts';
import { actionLinks } from './action-pages.ts';
import type { Calls } from './calls.ts';
import { boardFields, filterChips, filterFields, quickFilters } from './list-filters.ts';
import { canMerge } from './merge-pages.ts';
import { userIds } from './people.ts';
import { referredValue } from './references.ts';
import { canSeeTrash, type DataRequest } from './routes.ts';
import type { RecordsText } from './texts/index.ts';
import { displayValue, isNumeric, resourceNoun, resourceWords, type Titles, textOf } from './values.ts';
import { transientParameters } from './view-parameters.ts';
import { viewTabs } from './view-tabs.ts';

/** Number of default columns in addition to the title. */
const defaultColumns = 5;

/** Converts URL parameters to the operation's query, except `fields`, which each page determines. */
export function queryOf({ definition }: ResourceView, parameters: URLSearchParams): Query {
  const names = new Set(listParameters(definition));
  for (const name of ['fields', 'expand']) names.delete(name);
  const query: Record<string, string[]> = {};
  for (const [name, value] of parameters) {
    if (!names.has(name) && !name.includes('[')) continue;
    query[name] = [...(query[name] ?? []), value];
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

/** The data from which a list page is built. */
interface ListInput extends DataRequest {
  readonly parameters: URLSearchParams;
  /** BCP 47 language tag for numbers and dates. */
  readonly locale: string;
  /** The saved views that the member can use. */
  readonly views: readonly SavedView[];
  /** A filter that was entered but rejected. */
  readonly rejected?: { readonly problem: string; readonly entered: AddedFilter } | undefined;
}

/** Builds a resource's list page. */
export async function listPage(input: ListInput): Promise<ListView & { readonly title: string }> {
  const { resource, path, parameters, calls, titles, references, findPeople, locale, rejected } = input;
  const { language, t } = input;
  const { definition } = resource;
  const tabs = viewTabs(input, input.views, parameters);
  const link = (change: (next: URLSearchParams) => void): string => {
    const next = new URLSearchParams(parameters);
    for (const name of transientParameters) next.delete(name);
    change(next);
    const text = String(next);
    return text === '' ? tabs.all : `${path}?${text}`;
  };
  const keep = (excluded: readonly string[]) =>
    [...parameters]
      .filter(([name]) => ![...transientParameters, ...excluded].includes(name))
      .map(([name, value]) => ({ name, value }));
  const columns = columnsOf(resource, titles, parameters.getAll('columns'));
  const query = { ...queryOf(resource, parameters), ...references.expansion(calls, columns) };

  let problem: string | undefined;
  let records: Awaited<ReturnType<Calls['list']>> = { items: [], next: undefined, total: 0 };
  try {
    records = await calls.list(resource, query);
  } catch (error) {
    if (!(error instanceof HttpError) || error.status !== 400) throw error;
    problem = messageIn(error, language);
  }
  const { items, next: cursor, total } = records;
  const people = await findPeople(columns.some(refersToUser) ? userIds(resource, items) : []);
  const filters = filterFields(input);
  const chips = await filterChips(input, { parameters, link, locale });
  const isSearched = (parameters.get('q') ?? '') !== '';
  const create = calls.allows(resource, 'create')
    ? { label: t('create', { name: resourceNoun(resource, language) }), href: `${path}/new` }
    : undefined;
  const explanation = definition.help ?? definition.description;
  const hasBoard = calls.allows(resource, 'read') && boardFields(resource).length > 0;
  return {
    title: resourceLabel(definition),
    ...(problem !== undefined && { problem }),
    intro: explanation,
    hint: tabs.hint,
    views: tabs.views,
    primary: create,
    ...(definition.search.length > 0 && {
      search: {
        label: t('search', { records: resourceWords(resource, language) }),
        value: parameters.get('q') ?? '',
        keep: keep(['q']),
      },
    }),
    ...(filters.length > 0 && {
      filter: await filterMenu(filters, {
        by: rejected?.entered.name ?? parameters.get('by') ?? undefined,
        keep: keep([]),
        quick: quickFilters(input, parameters, {
          keep,
          save: input.isViewingAs ? undefined : `${path}/views/new`,
        }),
        link: (by) => link((next) => next.append('by', by)),
        language,
        rejected: rejected && { problem: rejected.problem, value: rejected.entered.value },
      }),
    }),
    choose: {
      keep: keep(['columns']),
      fields: definition.fields
        .filter(({ aliasOf }) => aliasOf === undefined)
        .map((field) => ({
          value: field.name,
          label: fieldLabel(field),
          checked: columns.includes(field),
        })),
    },
    chips,
    columns: [undefined, ...columns].map((field) =>
      columnOf(resource, field ?? titles.fields(resource)[0], parameters, link, field === undefined),
    ),
    rows: items.map((record) => {
      const id = textOf(record.id);
      const title = titles.of(resource, record);
      const recordPath = `${path}/${id}`;
      return {
        id,
        cells: [
          { text: title, ...(calls.allows(resource, 'read') && { href: recordPath }) },
          ...columns.map((field) =>
            displayValue(field, record[field.name], {
              reference: referredValue(references, people, field, record),
              locale,
            }),
          ),
        ],
        links: [
          ...(calls.allows(resource, 'update') && calls.allows(resource, 'read')
            ? [{ label: t('editLabel'), name: t('edit', { name: title }), href: `${recordPath}/edit` }]
            : []),
          ...(calls.allows(resource, 'delete') && calls.allows(resource, 'read')
            ? [{ label: t('deleteLabel'), name: t('delete', { name: title }), href: `${recordPath}/delete` }]
            : []),
        ],
      };
    }),
    selection:
      calls.allows(resource, 'delete') && calls.allows(resource, 'read')
        ? {
            action: `${path}/delete`,
            label: t('deleteSelected'),
            query: String(parameters),
            all:
              total > items.length && total <= maxBulk && conditionsOf(resource, parameters) !== undefined
                ? // The member might be allowed to delete only some of them. The confirmation counts these records.
                  t('deleteMatching')
                : undefined,
            pair: canMerge(input) ? { label: t('mergeSelected'), href: `${path}/merge` } : undefined,
          }
        : undefined,
    empty:
      isSearched || chips.length > 0
        ? { text: t('noResults'), link: { label: t('showAll'), href: tabs.all } }
        : {
            text: `${explanation} ${t('noRecords', { records: resourceWords(resource, language) })}`.trimStart(),
            link: create,
          },
    count: total === 0 ? undefined : countText(total, parameters.has('cursor') ? undefined : items.length, t),
    first: parameters.has('cursor') || parameters.has('page') ? link(() => {}) : undefined,
    next: cursor === undefined ? undefined : link((next) => next.set('cursor', cursor)),
    downloads: [
      ...actionLinks(input, undefined),
      ...(hasBoard ? [{ label: t('board'), icon: 'columns-3' as const, href: `${path}/board` }] : []),
      {
        label: t('exportCsv'),
        icon: 'download',
        href: link((next) => next.delete('columns')).replace(path, `${path}/export`),
      },
      ...(create === undefined
        ? []
        : [{ label: t('importCsv'), icon: 'upload' as const, href: `${path}/import` }]),
      ...(canSeeTrash(input) ? [{ label: t('trash'), icon: 'trash-2' as const, href: `${path}/trash` }] : []),
    ],
  };
}

/** Counts above this value are estimates. */
const maxExactCount = 10_000;

/** Describes how many records a list has. @param shownCount number of records on its first page */
export function countText(total: number, shownCount: number | undefined, t: RecordsText): Text {
  const isEstimate = total > maxExactCount;
  if (shownCount === undefined)
    return isEstimate ? t('aboutRecords', { count: total }) : t('records', { count: total });
  const totalText = isEstimate ? t('about', { count: total }) : t('number', { count: total });
  return t('range', { last: String(shownCount), total: totalText });
}

/** Returns a list's columns, except the title. */
export function columnsOf(
  resource: ResourceView,
  titles: Titles,
  selectedNames: readonly string[],
): readonly Field[] {
  const { fields } = resource.definition;
  const selectedFields = fields.filter(({ name }) => selectedNames.includes(name));
  if (selectedFields.length > 0) return selectedFields;
  const inTitle = titles.fields(resource);
  const { columns } = resource.definition.screen;
  if (columns.length > 0) return columns.filter(({ name }) => inTitle.every((field) => field.name !== name));
  const candidates = fields.filter(
    (field) =>
      field.set === undefined &&
      field.type.form.control !== 'lines' &&
      field.type.joins !== true &&
      !field.readOnly &&
      !inTitle.includes(field),
  );
  return [...candidates.slice(0, defaultColumns), ...fields.filter(({ set }) => set === 'updated')];
}

function columnOf(
  resource: ResourceView,
  field: Field | undefined,
  parameters: URLSearchParams,
  link: (change: (next: URLSearchParams) => void) => string,
  isTitle: boolean,
): ListView['columns'][number] {
  const { sort } = resource.definition;
  const title = isTitle
    ? recordLabel(resource.definition)
    : field === undefined
      ? humanize('id')
      : fieldLabel(field);
  if (field === undefined || !sort.choices.has(field.name)) return { title };
  const by = parameters.get('sort') ?? sort.field.name;
  const dir = parameters.get('dir') ?? (by === sort.field.name ? sort.direction : 'asc');
  const isSorted = by === field.name;
  return {
    title,
    numeric: !isTitle && isNumeric(field),
    href: link((next) => {
      next.set('sort', field.name);
      next.set('dir', isSorted && dir === 'asc' ? 'desc' : 'asc');
    }),
    ...(isSorted && { sorted: dir === 'asc' ? ('ascending' as const) : ('descending' as const) }),
  };
}
