import type { ResourceView } from '../../../engine/compile/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import { type Field, fieldLabel, fieldTypes, refersToUser } from '../../../engine/fields/index.ts';
import { type OperatorName, operatorOf } from '../../../engine/query/index.ts';
import { personLabel, personLine } from '../../access/identity/index.ts';
import type { AddedFilter, Chip, FilterField, Input, QuickFilters, TextIn } from '../shell/index.ts';
import { hasRanges, isTemporal, rangeChoices, rangeFilter, rangeParameter } from './day-ranges.ts';
import type { DataRequest } from './routes.ts';
import { type RecordsText, recordsTexts } from './texts/index.ts';
import { findMatch, firstMatches } from './typed-references.ts';
import { textOf } from './values.ts';

const { later } = recordsTexts;

/** A filter parameter with its label. */
interface FilterParameter {
  readonly name: string;
  readonly operator: OperatorName;
  /** Follows the field's label, for example "is not". */
  readonly label: TextIn;
  readonly field: Field;
}

/** Labels of the operators. They follow the field's label. */
const operatorLabels: Readonly<Record<OperatorName, TextIn>> = {
  eq: later('is'),
  ne: later('isNot'),
  gt: later('isGreater'),
  gte: later('isAtLeast'),
  lt: later('isLess'),
  lte: later('isAtMost'),
  in: later('isOneOf'),
  any: later('containsAny'),
  all: later('containsAll'),
  starts_with: later('startsWith'),
  contains: later('contains'),
  is_null: later('isEmpty'),
};

/** Labels of comparison operators for dates and times. */
const temporalLabels: Partial<Record<OperatorName, TextIn>> = {
  gt: later('isAfter'),
  gte: later('isOnOrAfter'),
  lt: later('isBefore'),
  lte: later('isOnOrBefore'),
};

/** Returns one parameter per field and operator, preferring the bracket syntax. */
export const filterParameters = ({ definition }: ResourceView): FilterParameter[] =>
  definition.filters.flatMap(({ field, operators, parameters }) =>
    operators.flatMap((operator) => {
      const { coveredBy } = operatorOf(operator);
      const parameter = parameters.findLast((option) => option.operator === operator);
      return parameter === undefined || operators.some((other) => other === coveredBy)
        ? []
        : [
            {
              name: parameter.name,
              operator,
              label: (isTemporal(field) ? temporalLabels[operator] : undefined) ?? operatorLabels[operator],
              field,
            },
          ];
    }),
  );

/** Returns the filters by the names of their parameters, which can omit the operator `eq`. */
function filtersByName(parameters: readonly FilterParameter[]): ReadonlyMap<string, FilterParameter> {
  const byName = new Map<string, FilterParameter>();
  for (const parameter of parameters) {
    for (const name of [parameter.name, parameter.name.replace(/\[eq\]$/, '')])
      if (!byName.has(name)) byName.set(name, parameter);
  }
  return byName;
}

const isNamed = (parameter: Pick<FilterParameter, 'name'>, name: string): boolean =>
  parameter.name === name || parameter.name === `${name}[eq]`;

/** A field whose values are the columns of a board, and the parameter that filters the list by it. */
export interface BoardField {
  readonly field: Field;
  readonly parameter: string;
}

/**
 * Returns the fields that divide a resource's records into the columns of a board: filters with known values. The field in
 * the definition (`screen.board`) comes first.
 */
export const boardFields = (resource: ResourceView): readonly BoardField[] =>
  filterParameters(resource)
    .filter(
      ({ operator, field: { values, aliasOf, type, custom } }) =>
        operator === 'eq' &&
        custom === undefined &&
        type.element === undefined &&
        values?.isSuggestion === false &&
        aliasOf === undefined,
    )
    .map(({ field, name }) => ({ field, parameter: name }))
    .toSorted((a, b) => Number(isBoard(resource, b.field)) - Number(isBoard(resource, a.field)));

const isBoard = ({ definition }: ResourceView, { name }: Field): boolean =>
  definition.screen.board?.name === name;

/** The operators that compare with null, as choices that include the value. */
const nullChoices = [
  { value: 'true', label: later('isEmpty') },
  { value: 'false', label: later('isNotEmpty') },
] as const;

/** Returns the fields by which a list can be filtered, with a control that suits each field's values. */
export function filterFields(context: DataRequest): FilterField[] {
  const { resource, language } = context;
  const all = filterParameters(resource);
  return resource.definition.filters.flatMap(({ field }): FilterField[] => {
    const own = all.filter((parameter) => parameter.field === field);
    if (own.length === 0) return [];
    const hasValue = own.some(({ operator }) => operatorOf(operator).words === undefined);
    return [
      {
        name: field.name,
        label: fieldLabel(field),
        operators: [
          ...own.flatMap(({ name, operator, label }) =>
            operatorOf(operator).words === undefined
              ? [{ value: name, label: label(language) }]
              : nullChoices.map((choice) => ({
                  value: `${name}=${choice.value}`,
                  label: choice.label(language),
                })),
          ),
          ...(hasRanges(resource, field)
            ? rangeChoices().map(({ value, label }) => ({
                value: `${rangeParameter(field)}=${value}`,
                label: label(language),
              }))
            : []),
        ],
        ...(hasValue && { input: () => controlOf(context, field) }),
      },
    ];
  });
}

/** Maximum number of fields that the filter menu offers for immediate selection. */
const maxQuickFilters = 6;

/**
 * Returns a form that filters by several fields: those with a few known values, and users, of whom it offers only
 * the member. Fields that are already filtered in another way are omitted.
 */
export function quickFilters(
  { resource, t }: Pick<DataRequest, 'resource' | 't'>,
  parameters: URLSearchParams,
  {
    keep,
    save,
  }: {
    readonly keep: (excluded: readonly string[]) => QuickFilters['keep'];
    readonly save: string | undefined;
  },
): QuickFilters | undefined {
  const all = filterParameters(resource);
  const byName = filtersByName(all);
  const active = Map.groupBy(
    [...parameters].filter(([, value]) => value !== ''),
    ([key]) => byName.get(key)?.field,
  );
  const offered = all
    .filter(({ operator }) => operator === 'eq')
    .flatMap(({ field, name }) => {
      const values = quickValues(field, t);
      const current = active.get(field) ?? [];
      const [[key, value] = [name, '']] = current;
      const isOffered =
        values.length > 0 &&
        current.length <= 1 &&
        (value === '' || (isNamed({ name }, key) && values.some((option) => option.value === value)));
      return isOffered ? [{ field, name, values, value }] : [];
    })
    .slice(0, maxQuickFilters);
  if (offered.length === 0) return undefined;
  return {
    keep: keep(offered.flatMap(({ name }) => [name, name.replace(/\[eq\]$/, '')])),
    selects: offered.map(({ field, name, values, value }) => ({
      name,
      label: fieldLabel(field),
      options: [{ value: '', label: t('anyValue') }, ...values].map((option) => ({
        ...option,
        selected: option.value === value,
      })),
    })),
    save,
  };
}

/** Returns the values that the filter menu offers immediately. */
function quickValues(
  field: Field,
  t: RecordsText,
): readonly { readonly value: string; readonly label: string }[] {
  if (field.type.element !== undefined) return [];
  if (refersToUser(field)) return [{ value: 'me', label: t('meOption') }];
  const texts = field.values?.list ?? (field.type.form.control === 'checkbox' ? ['true', 'false'] : []);
  return texts.map((text) => ({ value: text, label: text }));
}

/** Returns a list's URL with the filters selected in {@link quickFilters}. */
export function chosenFilters(path: string, parameters: URLSearchParams): string {
  const chosen = new URLSearchParams(
    [...parameters].filter(([name, value]) => name !== 'set' && value !== ''),
  );
  // Without a filter, the list must not open with the member's default view.
  return `${path}?${chosen.size === 0 ? 'view=all' : chosen}`;
}

/** Returns the control for a filter's value. */
async function controlOf(
  { references, calls, titles, listMembers, t }: DataRequest,
  field: Field,
): Promise<Omit<Input, 'name' | 'label'>> {
  const { values, type } = field;
  const options = (texts: readonly string[]) => texts.map((text) => ({ value: text, label: text }));
  if (refersToUser(field)) {
    const members = await listMembers();
    return {
      kind: 'choice',
      options: [
        { value: 'me', label: t('meOption') },
        ...members.map((member) => ({ value: member.id, label: personLine(member) })),
      ],
    };
  }
  const target = type.refers === true ? references.target(field) : undefined;
  if (target !== undefined) {
    const records = calls.allows(target, 'list') ? await firstMatches(calls, target, undefined) : [];
    return {
      kind: 'suggestions',
      help: t('nameOrId'),
      options: records.map((record) => ({
        value: `${titles.of(target, record)} (${textOf(record.id)})`,
        label: '',
      })),
    };
  }
  if (values !== undefined)
    return { kind: values.isSuggestion ? 'suggestions' : 'choice', options: options(values.list) };
  if (type.form.control === 'checkbox') return { kind: 'choice', options: options(['true', 'false']) };
  if (isTemporal(field)) return { kind: 'day' };
  return { kind: type.form.control === 'number' ? 'number' : 'line', maxLength: 200 };
}

/** A filter as the user entered it, converted to a parameter of the list, or why the value was rejected. */
export type ConvertedFilter =
  | { readonly filter: AddedFilter }
  | { readonly problem: string; readonly entered: AddedFilter };

/** Converts an entered filter value: names of records to IDs, dates to times, and listed values to their spelling. */
export async function convertFilter(context: DataRequest, entered: AddedFilter): Promise<ConvertedFilter> {
  const parameter = filtersByName(filterParameters(context.resource)).get(entered.name);
  const { value } = entered;
  if (parameter === undefined || value === '' || operatorOf(parameter.operator).words !== undefined)
    return { filter: entered };
  const { field, operator, name } = parameter;
  const converted = (text: string): ConvertedFilter => ({
    filter: { name: entered.name === field.name ? entered.name : name, value: text },
  });
  const target = field.type.refers === true ? context.references.target(field) : undefined;
  if (target !== undefined && !/^\d+$/.test(value)) {
    const match = await findMatch(context, target, value, '');
    return 'id' in match ? converted(match.id) : { problem: match.problem, entered };
  }
  const listed = field.values?.list.find((option) => option.toLowerCase() === value.toLowerCase());
  if (listed !== undefined) return converted(listed);
  if (field.typeName !== 'timestamp') return converted(value);
  const isWholeDay = /^\d{4}-\d\d-\d\d$/.test(value) && (operator === 'gt' || operator === 'lte');
  return converted(textOf(isWholeDay ? `${value}${endOfDay}` : (field.type.form.parse(value) ?? value)));
}

const startOfDay = 'T00:00:00Z';
const endOfDay = 'T23:59:59.999999Z';

/**
 * Maximum number of filters with a link of their own that removes them. Each link contains all other filters, and the titles of
 * referenced records are read.
 */
const maxChips = 20;

/**
 * Returns a list's active filters as links that remove them. Values are shown as on the list. If there are more than
 * {@link maxChips}, one link removes the others.
 */
export async function filterChips(
  context: DataRequest,
  {
    parameters,
    link,
    locale,
  }: {
    readonly parameters: URLSearchParams;
    readonly link: (change: (next: URLSearchParams) => void) => string;
    readonly locale: string;
  },
): Promise<Chip[]> {
  const { language, t } = context;
  const byName = filtersByName(filterParameters(context.resource));
  const active = [...parameters].flatMap(([name, value]) => {
    const parameter = byName.get(name) ?? rangeFilter(context.resource, name, value);
    return parameter === undefined || value === '' ? [] : [{ name, value, parameter }];
  });
  const linked = active.slice(0, maxChips);
  // The IDs come from the URL, so only members of the organization are named.
  const namesUsers = linked.some(({ parameter: { field } }) => refersToUser(field));
  const members = namesUsers ? await context.listMembers() : [];
  const textIn = async (field: Field, value: string): Promise<string> => {
    if (refersToUser(field)) {
      if (value === 'me') return t('me');
      const person = members.find(({ id }) => id === value);
      return person === undefined ? `ID ${value}` : personLabel(person);
    }
    if (field.type.refers === true) return referenceTitle(context, field, value);
    const day = [startOfDay, endOfDay].find((time) => value.endsWith(time));
    const type = day === undefined ? field.type : fieldTypes.date;
    const text = day === undefined ? value : value.slice(0, -day.length);
    return isTemporal(field) ? (type.display?.(text, locale) ?? value) : value;
  };
  const others = active.slice(maxChips);
  const chips = await Promise.all(
    linked.map(async ({ name, value, parameter }) => {
      const { field, label } = parameter;
      const nullChoice =
        'operator' in parameter && operatorOf(parameter.operator).words !== undefined
          ? (nullChoices.find((choice) => choice.value === value)?.label ?? label)
          : undefined;
      const text = async () => {
        if (nullChoice !== undefined) return nullChoice(language);
        if (!('operator' in parameter)) return label(language);
        return `${label(language)} ${await textIn(field, value)}`;
      };
      const chip = `${fieldLabel(field)} ${await text()}`;
      return {
        label: chip,
        name: t('removeFilter', { filter: chip }),
        isRemoved: true,
        href: link((next) => next.delete(name, value)),
      };
    }),
  );
  if (others.length === 0) return chips;
  const label = t('moreFilters', { count: others.length });
  const removeOthers = (next: URLSearchParams) => {
    for (const { name, value } of others) next.delete(name, value);
  };
  return [
    ...chips,
    { label, name: t('removeFilters', { filters: label }), isRemoved: true, href: link(removeOthers) },
  ];
}

/** Returns the title of a referenced record, or its ID if the member cannot read it. */
async function referenceTitle(
  { references, calls, titles }: DataRequest,
  field: Field,
  id: string,
): Promise<string> {
  const target = references.target(field);
  if (target === undefined || !calls.allows(target, 'read') || !/^\d{1,19}$/.test(id)) return id;
  try {
    return titles.of(target, (await calls.read(target, id)).record);
  } catch (error) {
    if (error instanceof HttpError && [400, 404].includes(error.status)) return `ID ${id}`;
    throw error;
  }
}
