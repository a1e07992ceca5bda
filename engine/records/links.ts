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

/** What a cursor belongs to: with anything else its signature is wrong. */
function signedText({ organization, resource, asked }: Omit<LinkedPlan, 'query'>, place: string): string {
  const { sort, filters, search } = asked;
  const conditions = filters.map(({ field, operator, values }) => [field.name, operator, values.toSorted()]);
  const order = [sort.field.name, sort.field.typeName, sort.direction];
  return JSON.stringify([organization, resource, order, conditions, search, place]);
}

/** Whether the cursor of a request, if it has one, was made for such a list. */
export function isValidCursor(linked: LinkedPlan): boolean {
  const { after } = linked.asked.sort;
  if (after === undefined) return true;
  return linked.links?.signing.verify(signedText(linked, after.text), after.signature) === true;
}

/** Characters of the parameters that links repeat: clients take no more than about 16 KB of headers. */
const maxParameters = 4000;

/**
 * The Link header of a page (RFC 8288): the first page, and the next one if there may be one.
 * @param last the last record of a full page
 * @returns undefined where the parameters are too long to repeat
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
  // Of letters, digits, "-", "_" and "." only.
  const cursor = encodeCursor(text, links.signing.sign(signedText(linked, text)));
  return `<${url}?${parameters === '' ? '' : `${parameters}&`}cursor=${cursor}>; rel="next", ${first}`;
}

/** The parameters of a request for its other pages. */
function repeated(query: Query): string {
  const names = Object.keys(query).filter((name) => name !== 'page' && name !== 'cursor');
  if (names.length === 0) return '';
  const parameters = new URLSearchParams();
  for (const name of names) for (const value of [query[name] ?? []].flat()) parameters.append(name, value);
  return String(parameters);
}
