import {
  type CursorPosition,
  encodeCursor,
  type ParsedQuery,
  positionText,
  type Query,
} from '../query/index.ts';
import type { CountMode, OperationPlan, TextSigner } from './operation.ts';

/** The plan for a list. */
export interface ListPlan extends OperationPlan {
  readonly resource: string;
  readonly parsedQuery: ParsedQuery;
  readonly query: Query;
  readonly signing: TextSigner | undefined;
  /** How to count the records on all pages; undefined if they are not counted. */
  readonly counting: CountMode | undefined;
}

/**
 * Returns the text that a cursor's signature covers. A cursor is valid only for the same organization, order
 * and filters.
 */
function signedText({ organization, resource, parsedQuery: query }: ListPlan, position: string): string {
  const { sort, filters, search } = query;
  const conditions = filters.map(({ field, operator, values }) => [field.name, operator, values.toSorted()]);
  const order = [sort.field.name, sort.field.typeName, sort.direction];
  return JSON.stringify([organization, resource, order, conditions, search, position]);
}

/** Returns whether a plan's cursor, if any, was issued for this list. */
export function isValidCursor(plan: ListPlan): boolean {
  const { after } = plan.parsedQuery.sort;
  if (after === undefined) return true;
  return plan.signing?.verify(signedText(plan, after.text), after.signature) === true;
}

/** Returns the cursor of the page after a full one, or undefined without a signer. @param last the page's last record */
export function nextCursor(plan: ListPlan, last: Omit<CursorPosition, 'page'>): string | undefined {
  const { signing, parsedQuery } = plan;
  if (signing === undefined) return undefined;
  const page = String(BigInt(parsedQuery.sort.after?.page ?? parsedQuery.page.page) + 1n);
  const text = positionText({ ...last, page });
  return encodeCursor(text, signing.sign(signedText(plan, text)));
}
