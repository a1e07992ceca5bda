import type { ResourceView } from '../../../engine/compile/index.ts';
import type { Field } from '../../../engine/fields/index.ts';
import type { TextIn } from '../shell/index.ts';
import { recordsTexts } from './texts/index.ts';

const { later } = recordsTexts;

/** The first and last day of a range, as numbers of days since 1970-01-01. Absent if the range is open. */
interface Days {
  readonly first?: number;
  readonly last?: number;
}

/** A range of days relative to today, which is the current date in UTC as in expressions. */
interface DayRange {
  readonly label: TextIn;
  readonly days: (today: number) => Days;
}

const msPerDay = 86_400_000;
const dayOf = (year: number, month: number): number => Date.UTC(year, month) / msPerDay;
const yearAndMonth = (day: number): readonly [year: number, month: number] => {
  const date = new Date(day * msPerDay);
  return [date.getUTCFullYear(), date.getUTCMonth()];
};
/** Returns a day as a date, for example `2028-02-29`. */
const dateOf = (day: number): string => new Date(day * msPerDay).toISOString().slice(0, 10);

/** Returns the days of a month relative to the month of a day. */
const monthOf = (today: number, offset: number): Days => {
  const [year, month] = yearAndMonth(today);
  return { first: dayOf(year, month + offset), last: dayOf(year, month + offset + 1) - 1 };
};

/** The ranges by which lists can be filtered, keyed by the value of the parameter `field[within]`. */
export const dayRanges: ReadonlyMap<string, DayRange> = new Map<string, DayRange>([
  ['today', { label: later('isToday'), days: (today) => ({ first: today, last: today }) }],
  ['last_7_days', { label: later('isInLast7Days'), days: (today) => ({ first: today - 6, last: today }) }],
  ['last_30_days', { label: later('isInLast30Days'), days: (today) => ({ first: today - 29, last: today }) }],
  ['this_month', { label: later('isThisMonth'), days: (today) => monthOf(today, 0) }],
  ['last_month', { label: later('isLastMonth'), days: (today) => monthOf(today, -1) }],
  [
    'this_year',
    {
      label: later('isThisYear'),
      days: (today) => {
        const [year] = yearAndMonth(today);
        return { first: dayOf(year, 0), last: dayOf(year + 1, 0) - 1 };
      },
    },
  ],
  ['next_7_days', { label: later('isInNext7Days'), days: (today) => ({ first: today, last: today + 6 }) }],
  ['next_30_days', { label: later('isInNext30Days'), days: (today) => ({ first: today, last: today + 29 }) }],
  ['past', { label: later('isInThePast'), days: (today) => ({ last: today - 1 }) }],
]);

const suffix = '[within]';

/** Returns the ranges offered for a field whose filters can compare, as values of {@link rangeParameter}. */
export const rangeChoices = (): readonly { readonly value: string; readonly label: TextIn }[] =>
  [...dayRanges].map(([value, { label }]) => ({ value, label }));

/** Returns the name of the parameter that limits a list to a range of days. */
export const rangeParameter = ({ name }: Pick<Field, 'name'>): string => `${name}${suffix}`;

/** A list's filter by a range of days, and the filters of the API that it stands for. */
interface RangeFilter {
  readonly field: Field;
  readonly label: TextIn;
  readonly filters: readonly (readonly [name: string, value: string])[];
}

/** Returns whether a field contains dates or times. */
export const isTemporal = ({ typeName }: Field): boolean => typeName === 'timestamp' || typeName === 'date';

/** Returns whether the days of a field's values can be limited on both sides. */
export const hasRanges = (
  { definition }: Pick<ResourceView, 'definition'>,
  field: Pick<Field, 'name'>,
): boolean =>
  definition.filters.some(
    (filter) =>
      filter.field.name === field.name &&
      isTemporal(filter.field) &&
      ['gte', 'lte'].every((operator) =>
        filter.parameters.some(({ name }) => name === `${field.name}[${operator}]`),
      ),
  );

/**
 * Parses a parameter that limits a list to a range of days. The days are computed with each request, so that saved views and
 * links stay current.
 * @returns undefined if the parameter is a different one, or does not exist
 */
export function rangeFilter(
  resource: Pick<ResourceView, 'definition'>,
  name: string,
  value: string,
): RangeFilter | undefined {
  const range = dayRanges.get(value);
  if (range === undefined || !name.endsWith(suffix)) return undefined;
  const fieldName = name.slice(0, -suffix.length);
  const field = resource.definition.fields.find((candidate) => candidate.name === fieldName);
  if (field === undefined || !hasRanges(resource, field)) return undefined;
  const { first, last } = range.days(Math.floor(Date.now() / msPerDay));
  const isDate = field.typeName === 'date';
  const filter = (operator: string, day: number | undefined, time: string) =>
    day === undefined ? [] : [[`${fieldName}[${operator}]`, `${dateOf(day)}${isDate ? '' : time}`] as const];
  return {
    field,
    label: range.label,
    filters: [...filter('gte', first, 'T00:00:00Z'), ...filter('lte', last, 'T23:59:59.999999Z')],
  };
}
