import type { FieldIssue } from '../errors.ts';
import { parameterIssue, parameterValue, type Query, type QueryPart } from './part.ts';

/** Default number of records per page. */
export const pageSize = 20;
/** First page for which a list reads only index keys until it reaches the rows to fetch. */
export const deepPage = 6;
/** Number of skipped records above which reading the index costs as much as a scan. */
export const farOffset = 10_000;
/** Page number beyond the last page of any table. */
export const farthestPage = 10 ** 12;

/** Pagination of a resource's lists. */
export interface PageRule {
  /** Number of records per page. */
  readonly size: number;
}

/** The requested page. */
export interface PageParameter {
  /** Page number, starting at 1 and unbounded. */
  readonly page: bigint;
  /** Number of records to skip. Undefined if the page is beyond the last page of any table. */
  readonly offset: number | undefined;
  readonly depth: 'first' | 'shallow' | 'deep';
  /** Maximum number of records on the page. Default: the size of the {@link PageRule}. */
  readonly size?: number;
}

/** `?page=`: selects a page of a list. */
export const page: QueryPart<PageRule, PageParameter> = {
  declare: () => ({ size: pageSize }),
  reserved: ['page'],
  parameters: () => ['page'],
  parse: ({ size }, query, issues) => {
    const input = parameterValue(query, 'page');
    if (input !== undefined && query.cursor !== undefined) {
      issues.push(parameterIssue('page', 'cannot be combined with cursor'));
    }
    const number = pageNumber(input, issues);
    return {
      page: number,
      offset: number > farthestPage ? undefined : (Number(number) - 1) * size,
      depth: number === 1n ? 'first' : number < deepPage ? 'shallow' : 'deep',
    };
  },
  shape: (parameter) =>
    `${isFar(parameter) ? 'far' : parameter.depth}${parameter.size === undefined ? '' : ` ${parameter.size}`}`,
  cost: (parameter) => ({ scan: isFar(parameter) }),
  clauses: ({ size }, { depth, size: requested }, placeholder) => ({
    limit: requested ?? size,
    ...(depth !== 'first' && {
      offset: placeholder(({ offset = farthestPage * size }) => String(offset)),
    }),
  }),
  describe: () => [{ $ref: '#/components/parameters/page' }],
};

const isFar = ({ offset = farOffset }: Pick<PageParameter, 'offset'>): boolean => offset >= farOffset;

/**
 * Returns the page number. Values below 1 become 1.
 * @param input value of the parameter `page`
 */
export function pageNumber(input: Query[string], issues: FieldIssue[]): bigint {
  if (input === undefined) return 1n;
  if (Array.isArray(input)) {
    issues.push(parameterIssue('page', 'must not be repeated'));
    return 1n;
  }
  if (typeof input !== 'string' || !/^-?\d+$/.test(input)) {
    issues.push(parameterIssue('page', 'must be an integer'));
    return 1n;
  }
  const number = BigInt(input);
  return number < 1n ? 1n : number;
}
