import { HttpError } from '../../../engine/errors.ts';
import { type Form, field, type RecordPage } from '../shell/index.ts';
import type { DataRecord } from './calls.ts';
import { queryOf, transientParameters } from './list-parameters.ts';
import type { DataRequest } from './routes.ts';
import { textOf } from './values.ts';

/** Name of the parameter of a record's page that contains the parameters of the list from which it was opened. */
export const listParameter = 'list';

/** The parameters of a list that do not affect which records a page of it contains, or in which order. */
const irrelevant = new Set([
  ...transientParameters.filter((name) => name !== 'cursor' && name !== 'page'),
  'columns',
]);

/** Returns the query string of links from a list to its records, so that the records' pages know the list. */
export const linkToList = (parameters: URLSearchParams): string =>
  `?${new URLSearchParams({
    [listParameter]: String(new URLSearchParams([...parameters].filter(([name]) => !irrelevant.has(name)))),
  })}`;

/** Returns the query string that keeps the list on another page of a record, or an empty string without a list. */
export function sameList({ request }: Pick<DataRequest, 'request'>): string {
  const query = request.query as Form;
  if (query[listParameter] === undefined) return '';
  return `?${new URLSearchParams({ [listParameter]: field(query, listParameter) })}`;
}

/**
 * Returns the links from a record's page to the previous and next record of the list from which it was opened, and to this
 * list. The list is read again, so records that no longer match are left out. Returns undefined without a list.
 */
export async function neighborsOf(
  { request, resource, path, calls, t }: DataRequest,
  id: string,
): Promise<{ readonly list: string; readonly links: RecordPage['neighbors'] } | undefined> {
  const query = request.query as Form;
  if (query[listParameter] === undefined || !calls.allows(resource, 'list')) return undefined;
  const parameters = new URLSearchParams(field(query, listParameter));
  const list = parameters.size === 0 ? path : `${path}?${parameters}`;
  const read = (page: URLSearchParams) =>
    calls.page(resource, { ...queryOf(resource, page), fields: 'id' }).catch((error: unknown) => {
      // The list itself shows what is wrong with its parameters.
      if (error instanceof HttpError && error.status === 400) return undefined;
      throw error;
    });
  /** Returns the URL of the record at a position of a page, or of the page's last record for -1. */
  const linkOn = (
    page: URLSearchParams,
    items: readonly DataRecord[],
    position: number,
  ): string | undefined => {
    const record = items.at(position);
    return record && `${path}/${textOf(record.id)}${linkToList(page)}`;
  };
  const across = async (cursor: string | undefined, position: 0 | -1): Promise<string | undefined> => {
    if (cursor === undefined) return undefined;
    const page = new URLSearchParams(parameters);
    page.delete('page');
    page.set('cursor', cursor);
    const found = await read(page);
    return found && linkOn(page, found.items, position);
  };
  const current = await read(parameters);
  const index = current?.items.findIndex((record) => textOf(record.id) === id) ?? -1;
  if (current === undefined || index < 0) return { list, links: undefined };
  const { items, page, previous, next } = current;
  const [before, after] = await Promise.all([
    index > 0 ? linkOn(parameters, items, index - 1) : page > 1 ? across(previous, -1) : undefined,
    index < items.length - 1 ? linkOn(parameters, items, index + 1) : across(next, 0),
  ]);
  return {
    list,
    links: [
      { rel: 'prev', icon: 'chevron-left', label: t('previousRecord'), href: before },
      { rel: 'next', icon: 'chevron-right', label: t('nextRecord'), href: after },
    ],
  };
}
