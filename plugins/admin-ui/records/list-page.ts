import type { Resource } from '../../../engine/compile/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import { type Field, refersToUser } from '../../../engine/fields/index.ts';
import { listParameters, operatorOf, type Query } from '../../../engine/query/index.ts';
import type { Chip, ListView } from '../shell/index.ts';
import type { Calls } from './calls.ts';
import { userIds } from './people.ts';
import { type References, referredValue } from './references.ts';
import type { DataRequest } from './routes.ts';
import {
  displayValue,
  fieldLabel,
  humanize,
  isNumeric,
  resourceNoun,
  type Titles,
  textOf,
} from './values.ts';

/** Number of default columns in addition to the title. */
const defaultColumns = 5;

/** Parameters that apply to a single view of a list and are omitted from its links. */
const transientParameters = ['done', 'at', 'by', 'value', 'cursor', 'page'];

/** A filter parameter with its label. */
interface FilterParameter {
  readonly name: string;
  readonly label: string;
  readonly field: Field;
}

/** Returns one parameter per field and operator, preferring the bracket syntax. */
const filtersOf = ({ definition }: Resource): FilterParameter[] =>
  definition.filters.flatMap(({ field, operators, parameters }) =>
    operators.flatMap((operator) => {
      const { label, coveredBy } = operatorOf(operator);
      const parameter = parameters.findLast((option) => option.operator === operator);
      return parameter === undefined || operators.some((other) => other === coveredBy)
        ? []
        : [{ name: parameter.name, label: `${fieldLabel(field)} ${label}`, field }];
    }),
  );

/** Converts URL parameters to the operation's query, except `fields`, which each page determines. */
export function queryOf({ definition }: Resource, parameters: URLSearchParams): Query {
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

/** The data from which a list page is built. */
interface ListInput {
  readonly resource: Resource;
  readonly path: string;
  readonly parameters: URLSearchParams;
  readonly calls: Calls;
  readonly titles: Titles;
  readonly references: References;
  readonly findPeople: DataRequest['findPeople'];
}

/** Builds a resource's list page. */
export async function listPage({
  resource,
  path,
  parameters,
  calls,
  titles,
  references,
  findPeople,
}: ListInput): Promise<ListView & { readonly title: string }> {
  const { definition } = resource;
  const link = (change: (next: URLSearchParams) => void): string => {
    const next = new URLSearchParams(parameters);
    for (const name of transientParameters) next.delete(name);
    change(next);
    const text = String(next);
    return text === '' ? path : `${path}?${text}`;
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
    problem = error.message;
  }
  const { items, next: cursor, total } = records;
  const people = await findPeople(columns.some(refersToUser) ? userIds(resource, items) : []);
  const filters = filtersOf(resource);
  const chips = [...parameters].flatMap(([name, value]): Chip[] => {
    const filter = filters.find((candidate) => candidate.name === name || candidate.name === `${name}[eq]`);
    if (filter === undefined || value === '') return [];
    const label = `${filter.label} ${value}`;
    return [
      {
        label,
        name: `Remove the filter ${label}`,
        isRemoved: true,
        href: link((next) => next.delete(name, value)),
      },
    ];
  });
  const isSearched = (parameters.get('q') ?? '') !== '';
  const create = calls.allows(resource, 'create')
    ? { label: `Create ${resourceNoun(resource)}`, href: `${path}/new` }
    : undefined;
  const name = humanize(resource.name);
  return {
    title: name,
    ...(problem !== undefined && { problem }),
    intro: definition.description,
    primary: create,
    ...(definition.search.length > 0 && {
      search: { label: `Search ${name.toLowerCase()}`, value: parameters.get('q') ?? '', keep: keep(['q']) },
    }),
    ...(filters.length > 0 && {
      filter: {
        keep: keep([]),
        fields: filters.map(({ name: value, label }) => ({ value, label })),
        values: [...new Set(filters.flatMap(({ field }) => field.values?.list ?? []))],
      },
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
            displayValue(field, record[field.name], referredValue(references, people, field, record)),
          ),
        ],
        links: [
          ...(calls.allows(resource, 'update') && calls.allows(resource, 'read')
            ? [{ label: 'Edit', name: `Edit ${title}`, href: `${recordPath}/edit` }]
            : []),
          ...(calls.allows(resource, 'delete') && calls.allows(resource, 'read')
            ? [{ label: 'Delete', name: `Delete ${title}`, href: `${recordPath}/delete` }]
            : []),
        ],
      };
    }),
    empty:
      isSearched || chips.length > 0
        ? { text: 'No results.', link: { label: 'Show all', href: path } }
        : { text: `${definition.description} No ${name.toLowerCase()} yet.`.trimStart(), link: create },
    count: total === 0 ? undefined : countText(total, parameters.has('cursor') ? undefined : items.length),
    first: parameters.has('cursor') || parameters.has('page') ? link(() => {}) : undefined,
    next: cursor === undefined ? undefined : link((next) => next.set('cursor', cursor)),
    downloads: [
      { label: 'Export CSV', href: link((next) => next.delete('columns')).replace(path, `${path}/export`) },
      ...(create === undefined ? [] : [{ label: 'Import CSV', href: `${path}/import` }]),
    ],
  };
}

/** Counts above this value are estimates. */
const maxExactCount = 10_000;
const numbers = new Intl.NumberFormat('en');
const countText = (total: number, shownCount: number | undefined): string => {
  const totalText = `${total > maxExactCount ? 'about ' : ''}${numbers.format(total)}`;
  return shownCount === undefined
    ? `${totalText} ${total === 1 ? 'record' : 'records'}`
    : `1–${shownCount} of ${totalText}`;
};

/** Returns a list's columns, except the title. */
function columnsOf(resource: Resource, titles: Titles, selectedNames: readonly string[]): readonly Field[] {
  const { fields } = resource.definition;
  const selectedFields = fields.filter(({ name }) => selectedNames.includes(name));
  if (selectedFields.length > 0) return selectedFields;
  const inTitle = titles.fields(resource);
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
  resource: Resource,
  field: Field | undefined,
  parameters: URLSearchParams,
  link: (change: (next: URLSearchParams) => void) => string,
  isTitle: boolean,
): ListView['columns'][number] {
  const { sort, singular } = resource.definition;
  const title = isTitle ? humanize(singular) : field === undefined ? humanize('id') : fieldLabel(field);
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
