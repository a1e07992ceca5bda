import {
  type CursorPosition,
  encodeCursor,
  type ParsedQuery,
  positionText,
  type Query,
} from '../query/index.ts';
import type { LinkContext, OperationPlan } from './operation.ts';

/** The parts of a list's plan that its links depend on. */
export interface LinkedPlan extends OperationPlan {
  readonly resource: string;
  readonly asked: ParsedQuery;
  readonly query: Query;
  readonly links?: LinkContext | undefined;
}

/** Returns the context that a cursor is signed for; it is invalid in any other. */
function signedText({ organization, resource, asked }: Omit<LinkedPlan, 'query'>, place: string): string {
  const { sort, filters, search } = asked;
  const conditions = filters.map(({ field, operator, values }) => [field.name, operator, values.toSorted()]);
  const order = [sort.field.name, sort.field.typeName, sort.direction];
  return JSON.stringify([organization, resource, order, conditions, search, place]);
}

/** Returns whether the request's cursor, if any, was issued for this list. */
export function isValidCursor(linked: LinkedPlan): boolean {
  const { after } = linked.asked.sort;
  if (after === undefined) return true;
  return linked.links?.signing.verify(signedText(linked, after.text), after.signature) === true;
}

/** Maximum length of the parameters repeated in links: many clients accept only 16 KB of headers. */
const maxParameters = 4000;

/**
 * Returns the Link header of a page (RFC 8288): the first page, and the next one unless this is the last.
 * @param last the last record of a full page
 * @returns undefined if the parameters are too long to repeat
 */
export function linkHeader(
  linked: LinkedPlan,
  last: Pick<CursorPosition, 'key' | 'id'> | undefined,
): string | undefined {
  const { links, asked, query } = linked;
  if (links === undefined) return undefined;
  const parameters = repeated(query);
  if (parameters.length > maxParameters) return undefined;
  const url = links.url();
  const first = `<${url}${parameters === '' ? '' : `?${parameters}`}>; rel="first"`;
  if (last === undefined) return first;
  const page = String(BigInt(asked.sort.after?.page ?? asked.page.page) + 1n);
  const text = positionText({ ...last, page });
  // Contains only letters, digits, "-", "_" and ".".
  const cursor = encodeCursor(text, links.signing.sign(signedText(linked, text)));
  return `<${url}?${parameters === '' ? '' : `${parameters}&`}cursor=${cursor}>; rel="next", ${first}`;
}

/** Returns a request's parameters for its other pages. */
function repeated(query: Query): string {
  const names = Object.keys(query).filter((name) => name !== 'page' && name !== 'cursor');
  if (names.length === 0) return '';
  const parameters = new URLSearchParams();
  for (const name of names) for (const value of [query[name] ?? []].flat()) parameters.append(name, value);
  return String(parameters);
}
