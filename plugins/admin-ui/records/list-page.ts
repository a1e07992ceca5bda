import type { ResourceView } from '../../../engine/compile/index.ts';
import { recordLabel, resourceLabel } from '../../../engine/definition/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import { type Field, fieldLabel, humanize, refersToUser } from '../../../engine/fields/index.ts';
import { conditionParameters } from '../../../engine/query/index.ts';
import { maxBulk, maxExactCount } from '../../../engine/records/index.ts';
import type { SavedView } from '../saved-views/index.ts';
import {
  type AddedFilter,
  filterMenu,
  type Language,
  type ListView,
  messageIn,
  rangeText,
  type Text,
} from '../shell/index.ts';
import { actionLinks } from './action-pages.ts';
import type { Calls } from './calls.ts';
import { boardFields, filterChips, filterFields, quickFilters } from './list-filters.ts';
import { sortKeysIn, sortMenu } from './list-order.ts';
import { conditionsOf, idsParameter, queryOf, transientParameters } from './list-parameters.ts';
import { canMerge } from './merge-pages.ts';
import { linkToList } from './neighbors.ts';
import { userIds } from './people.ts';
import { referredValue } from './references.ts';
import { rememberedColumns, rememberParameter } from './remembered-columns.ts';
import { canSeeTrash, type DataRequest } from './routes.ts';
import { editedField } from './value-form.ts';
import { displayValue, isRightAligned, resourceNoun, resourceWords, type Titles, textOf } from './values.ts';
import { viewTabs } from './view-tabs.ts';

/** Number of default columns in addition to the title. */
const defaultColumns = 5;

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
  const kept = new URLSearchParams(parameters);
  for (const name of transientParameters) kept.delete(name);
  const keptText = String(kept);
  const link = (change: (next: URLSearchParams) => void): string => {
    const next = new URLSearchParams(kept);
    change(next);
    const text = String(next);
    return text === '' ? tabs.all : `${path}?${text}`;
  };
  const keep = (excluded: readonly string[]) =>
    [...parameters]
      .filter(([name]) => ![...transientParameters, ...excluded].includes(name))
      .filter(
        ([name, value]) => name !== 'columns' || definition.fields.some((field) => field.name === value),
      )
      .map(([name, value]) => ({ name, value }));
  const selected = parameters.getAll('columns');
  const columns = columnsOf(resource, titles, selected.length > 0 ? selected : rememberedColumns(input));
  const query = { ...queryOf(resource, parameters), ...references.expansion(calls, columns) };

  let problem: string | undefined;
  let records: Awaited<ReturnType<Calls['list']>> = { items: [], page: 1, total: 0 };
  try {
    records = await calls.list(resource, query);
  } catch (error) {
    if (!(error instanceof HttpError) || error.status !== 400) throw error;
    problem = messageIn(error, language);
  }
  const { items, page: number, previous, next: cursor, total } = records;
  const people = await findPeople(columns.some(refersToUser) ? userIds(resource, items) : []);
  const filters = filterFields(input);
  const chips = await filterChips(input, { parameters, link, locale });
  const isLast = isLastPage(total, { page: number, size: definition.page.size });
  const editable = new Set(
    columns
      .map(({ name }) => name)
      .filter((name) => calls.allows(resource, 'read') && editedField(input, name)),
  );
  const keys = sortKeysIn(resource, parameters);
  const isSearched = (parameters.get('q') ?? '') !== '';
  const create = calls.allows(resource, 'create')
    ? { label: t('create', { name: resourceNoun(resource, language) }), href: `${path}/new` }
    : undefined;
  const toList = linkToList(parameters);
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
        // The menu has a link for each filter, so the other parameters are encoded only once.
        link: (by) => `${path}?${keptText}${keptText === '' ? '' : '&'}${new URLSearchParams({ by })}`,
        language,
        rejected: rejected && { problem: rejected.problem, value: rejected.entered.value },
      }),
    }),
    sort: sortMenu(resource, parameters, { keep: keep(['sort', 'dir']), t }),
    choose: {
      keep: [...keep(['columns']), { name: rememberParameter, value: '1' }],
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
      columnOf(resource, field ?? titles.fields(resource)[0], { keys, link, isTitle: field === undefined }),
    ),
    rows: items.map((record) => {
      const id = textOf(record.id);
      const title = titles.of(resource, record);
      const recordPath = `${path}/${id}`;
      return {
        id,
        cells: [
          {
            text: title,
            ...(calls.allows(resource, 'read') && { href: `${recordPath}${toList}` }),
          },
          ...columns.map((field) => ({
            ...displayValue(field, record[field.name], {
              reference: referredValue(references, people, field, record),
              locale,
            }),
            ...(editable.has(field.name) && { edit: `${recordPath}?edit=${field.name}` }),
          })),
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
    selection: selectionOf(input, { total, count: items.length }),
    empty:
      isSearched || chips.length > 0 || total > 0
        ? { text: t('noResults'), link: { label: t('showAll'), href: tabs.all } }
        : {
            text: `${explanation} ${t('noRecords', { records: resourceWords(resource, language) })}`.trimStart(),
            link: create,
          },
    // A page after the last one does not have records.
    count:
      items.length === 0
        ? undefined
        : countText(total, { page: number, count: items.length, size: definition.page.size }, language),
    first: parameters.has('cursor') || parameters.has('page') ? link(() => {}) : undefined,
    // The first page does not have a previous page, even if records have been added since.
    previous:
      previous === undefined || number <= 1 ? undefined : link((next) => next.set('cursor', previous)),
    next: cursor === undefined || isLast ? undefined : link((next) => next.set('cursor', cursor)),
    downloads: [
      ...actionLinks(input, undefined),
      ...(hasBoard ? [{ label: t('board'), icon: 'columns-3' as const, href: `${path}/board` }] : []),
      {
        label: t('exportCsv'),
        icon: 'download',
        href: link((next) => next.delete('columns')).replace(path, `${path}/export`),
        isFile: true,
      },
      ...(create === undefined
        ? []
        : [{ label: t('importCsv'), icon: 'upload' as const, href: `${path}/import` }]),
      ...(canSeeTrash(input) ? [{ label: t('trash'), icon: 'trash-2' as const, href: `${path}/trash` }] : []),
    ],
  };
}

/** Returns the actions on selected records, or undefined if the member cannot perform any. */
function selectionOf(
  { resource, path, parameters, calls, ...context }: ListInput,
  shown: { readonly total: number; readonly count: number },
): ListView['selection'] {
  const { t } = context;
  const allows = (action: string) => calls.allows(resource, action);
  const { total, count } = shown;
  const canDelete = allows('delete') && allows('read');
  const isFiltered = conditionsOf(resource, parameters) !== undefined;
  const actions: NonNullable<ListView['selection']>['actions'] = [
    ...(allows('update') && allows('read')
      ? [{ label: t('editSelected'), href: `${path}/edit`, icon: 'pencil' as const }]
      : []),
    // An export filters by the selected IDs.
    ...(conditionParameters(resource.definition).includes(idsParameter)
      ? [{ label: t('exportSelected'), href: `${path}/export`, icon: 'download' as const }]
      : []),
    ...(canMerge({ resource, calls, ...context })
      ? [{ label: t('mergeSelected'), href: `${path}/merge`, icon: 'layers' as const, isPair: true }]
      : []),
    ...(canDelete ? [{ label: t('deleteSelected'), href: `${path}/delete`, icon: 'trash-2' as const }] : []),
    // The member might be allowed to delete only some of them. The confirmation counts these records.
    ...(canDelete && total > count && total <= maxBulk && isFiltered
      ? [{ label: t('deleteMatching'), href: `${path}/delete`, icon: 'trash-2' as const, step: 'all' }]
      : []),
  ];
  return actions.length === 0 ? undefined : { query: String(parameters), actions };
}

/** Returns whether a page is certainly the last one. It can have a cursor, because every full page has one. */
export const isLastPage = (
  total: number,
  { page, size }: { readonly page: number; readonly size: number },
): boolean => total <= maxExactCount && page * size >= total;

/** Describes which records a page shows, and how many the list has. @param size number of records on each full page */
export const countText = (
  total: number,
  { page, count, size }: { readonly page: number; readonly count: number; readonly size: number },
  language: Language,
): Text =>
  rangeText({ offset: (page - 1) * size, count, total, isEstimated: total > maxExactCount }, language);

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
  {
    keys,
    link,
    isTitle,
  }: {
    readonly keys: ReturnType<typeof sortKeysIn>;
    readonly link: (change: (next: URLSearchParams) => void) => string;
    readonly isTitle: boolean;
  },
): ListView['columns'][number] {
  const { sort } = resource.definition;
  const title = isTitle
    ? recordLabel(resource.definition)
    : field === undefined
      ? humanize('id')
      : fieldLabel(field);
  const numeric = !isTitle && field !== undefined && isRightAligned(field);
  if (field === undefined || !sort.choices.has(field.name)) return { title, numeric };
  const position = keys.findIndex(({ name }) => name === field.name);
  const direction = keys[position]?.direction;
  return {
    title,
    numeric,
    href: link((next) => {
      next.set('sort', field.name);
      next.set('dir', direction === 'asc' ? 'desc' : 'asc');
    }),
    ...(direction !== undefined && {
      sorted: direction === 'asc' ? ('ascending' as const) : ('descending' as const),
      ...(keys.length > 1 && { position: position + 1 }),
    }),
  };
}
