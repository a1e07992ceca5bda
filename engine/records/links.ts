import {
  type CursorPosition,
  encodeCursor,
  type ParsedQuery,
  positionText,
  type Query,
} from '../query/index.ts';
import type { LinkContext, OperationPlan } from './operation.ts';

/** The properties of a list's plan that its links depend on. */
export interface LinkedPlan extends OperationPlan {
  readonly resource: string;
  readonly parsedQuery: ParsedQuery;
  readonly query: Query;
  readonly links?: LinkContext | undefined;
}

/**
 * Returns the text that a cursor's signature covers. A cursor is valid only for the same organization, order
 * and filters.
 */
function signedText(
  { organization, resource, parsedQuery: query }: Omit<LinkedPlan, 'query'>,
  position: string,
): string {
  const { sort, filters, search } = query;
  const conditions = filters.map(({ field, operator, values }) => [field.name, operator, values.toSorted()]);
  const order = [sort.field.name, sort.field.typeName, sort.direction];
  return JSON.stringify([organization, resource, order, conditions, search, position]);
}

/** Returns whether the request's cursor, if any, was issued for this list. */
export function isValidCursor(plan: LinkedPlan): boolean {
  const { after } = plan.parsedQuery.sort;
  if (after === undefined) return true;
  return plan.links?.signing.verify(signedText(plan, after.text), after.signature) === true;
}

/** Maximum length of the query parameters repeated in links. Many clients accept at most 16 KB of headers. */
const maxParameters = 4000;

/**
 * Returns the Link header of a page (RFC 8288) with the first page and, unless this is the last page, the
 * next one.
 * @param last the last record of a full page
 * @returns undefined if the parameters are too long to repeat
 */
export function linkHeader(
  plan: LinkedPlan,
  last: Pick<CursorPosition, 'key' | 'id'> | undefined,
): string | undefined {
  const { links, parsedQuery, query } = plan;
  if (links === undefined) return undefined;
  const parameters = repeatedParameters(query);
  if (parameters.length > maxParameters) return undefined;
  const url = links.url();
  const first = `<${url}${parameters === '' ? '' : `?${parameters}`}>; rel="first"`;
  if (last === undefined) return first;
  const page = String(BigInt(parsedQuery.sort.after?.page ?? parsedQuery.page.page) + 1n);
  const text = positionText({ ...last, page });
  // The cursor does not need to be encoded: it contains only letters, digits, "-", "_" and ".".
  const cursor = encodeCursor(text, links.signing.sign(signedText(plan, text)));
  return `<${url}?${parameters === '' ? '' : `${parameters}&`}cursor=${cursor}>; rel="next", ${first}`;
}

/** Returns the request's query parameters for links to other pages. */
function repeatedParameters(query: Query): string {
  const names = Object.keys(query).filter((name) => name !== 'page' && name !== 'cursor');
  if (names.length === 0) return '';
  const parameters = new URLSearchParams();
  for (const name of names) for (const value of [query[name] ?? []].flat()) parameters.append(name, value);
  return String(parameters);
}
