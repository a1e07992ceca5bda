import type { DataRequest } from './routes.ts';

/** Cookie with the columns that the browser's user has chosen for a list. It is sent only for this list. */
const cookieName = 'crm_columns';

/** Separates the columns in the cookie. Names of custom fields contain a full stop. */
const separator = ',';

/** How long columns are remembered, in seconds. */
const lifetime = 365 * 86_400;

/** Name of the field that the form for the columns submits, so that links with columns do not change the remembered ones. */
export const rememberParameter = 'columns[remember]';

/** Returns the names of the columns that the user chose last, or an empty list. */
export const rememberedColumns = ({ request }: Pick<DataRequest, 'request'>): readonly string[] =>
  (request.cookies[cookieName] ?? '').split(separator).filter((name) => name !== '');

/**
 * Remembers the columns in the list's parameters, if the form for the columns was submitted. Without a selected column, the list has
 * its default columns again.
 * @returns the list's URL, or undefined if the form was not submitted
 */
export function rememberColumns(
  { request, reply, path }: Pick<DataRequest, 'request' | 'reply' | 'path'>,
  parameters: URLSearchParams,
): string | undefined {
  if (!parameters.has(rememberParameter)) return undefined;
  const names = parameters.getAll('columns').filter((name) => /^[\w.]{1,100}$/.test(name));
  const options = request.server.site.cookie(request, path);
  if (names.length === 0) reply.clearCookie(cookieName, options);
  else reply.setCookie(cookieName, names.join(separator), { ...options, maxAge: lifetime });
  const next = new URLSearchParams(parameters);
  next.delete(rememberParameter);
  return `${path}?${next}`;
}
