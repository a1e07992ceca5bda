import type { FastifyRequest } from 'fastify';
import type { Language, Text } from './catalogue.ts';
import { shellTexts } from './texts/index.ts';
import type { HiddenField } from './views.ts';

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

/** Returns a list's URL with changed parameters. An undefined value removes a parameter. */
export function linkWithParameters(
  path: string,
  parameters: Readonly<Record<string, string>>,
  changes: Readonly<Record<string, string | undefined>>,
): string {
  // Without intermediate objects, because a page has many links, and a request many parameters.
  const result = new URLSearchParams();
  const append = (name: string, value: string | undefined) => {
    if (value !== undefined && value !== '') result.append(name, value);
  };
  for (const name of Object.keys(parameters))
    if (Object.hasOwn(changes, name)) append(name, changes[name]);
    else if (name !== 'done' && name !== 'at') append(name, parameters[name]);
  for (const [name, value] of Object.entries(changes))
    if (!Object.hasOwn(parameters, name)) append(name, value);
  const text = String(result);
  return text === '' ? path : `${path}?${text}`;
}

/** Returns the parameters as hidden fields, except for parameters that the form already contains. */
export const hiddenParameters = (
  parameters: Readonly<Record<string, string>>,
  excluded: readonly string[],
): HiddenField[] =>
  Object.entries(parameters)
    .filter(([name]) => !['done', 'at', 'page', ...excluded].includes(name))
    .map(([name, value]) => ({ name, value }));

/**
 * Describes which rows a page shows, and how many the list has, for example "21–40 of 345".
 * @param offset number of rows before the page
 * @param isEstimated whether the total is an estimate
 */
export function rangeText(
  {
    offset,
    count,
    total,
    isEstimated = false,
  }: {
    readonly offset: number;
    readonly count: number;
    readonly total: number;
    readonly isEstimated?: boolean;
  },
  language: Language,
): Text {
  const t = shellTexts(language);
  const numbers = new Intl.NumberFormat(language);
  return t('range', {
    first: numbers.format(offset + 1),
    last: numbers.format(offset + count),
    total: isEstimated ? t('about', { count: total }) : numbers.format(total),
  });
}

/** A filter that a form adds to a list. */
export interface AddedFilter {
  readonly name: string;
  readonly value: string;
}

/** Returns the filter submitted as `by` and `value`, or undefined without a filter. `by` can include the value. */
export function addedFilter(request: FastifyRequest): AddedFilter | undefined {
  const parameters = new URLSearchParams(request.url.split('?')[1] ?? '');
  const by = parameters.get('by');
  const [, name = '', preset] = /^([^=]*)=(.*)$/s.exec(by ?? '') ?? [];
  if (preset !== undefined) return { name, value: preset };
  const value = parameters.get('value');
  return by === null || value === null ? undefined : { name: by, value: value.trim() };
}

/** Returns a list's URL with an added filter. A blank value adds no filter. */
export function filterLink(request: FastifyRequest, path: string, { name, value }: AddedFilter): string {
  const parameters = new URLSearchParams(request.url.split('?')[1] ?? '');
  for (const transient of ['by', 'value', 'before', 'cursor', 'page']) parameters.delete(transient);
  if (value !== '') parameters.append(name, value);
  return `${path}?${parameters}`;
}
