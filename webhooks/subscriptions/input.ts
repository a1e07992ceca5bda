import type { FieldIssue } from '../../engine/errors.ts';
import type { Query } from '../../engine/query/index.ts';
import { type Matching, matching, type RecordResource } from '../../engine/records/index.ts';
import type { Settings } from '../settings/index.ts';
import { receiverUrl } from './addresses.ts';

/** The actions that there are events of. */
export const eventActions = ['create', 'update', 'delete'] as const;

/** What a subscription is for. */
export interface SubscriptionInput {
  readonly url: string;
  readonly resources: readonly string[];
  readonly actions: readonly string[];
  /** Parameters of a list, such as `status=New&rating=Hot`; empty: every record. */
  readonly filter: string;
}

/** Parameters of a text as a list has them; a repeated one is a list. */
const filterQuery = (filter: string): Query => {
  const query: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of new URLSearchParams(filter)) {
    const known = query[name];
    query[name] = known === undefined ? value : [...[known].flat(), value];
  }
  return query;
};

/**
 * Validates what is given of a subscription, and adds everything that is wrong to `problems`.
 * @param given values of any type
 * @param whole whether it is a new one, which needs an address and resources; actions are all by default
 */
export function readSubscriptionInput(
  given: Readonly<Record<string, unknown>>,
  whole: boolean,
  resources: readonly RecordResource[],
  allowed: Settings['events'],
  problems: FieldIssue[],
): Partial<SubscriptionInput> {
  const wrong = (field: string, message: string) => {
    problems.push({ field, message: `${field} ${message}` });
    return undefined;
  };
  const names = resources.map(({ name }) => name);
  const listOf = (field: 'resources' | 'actions', known: readonly string[]) => {
    const value = given[field];
    if (value === undefined) return undefined;
    const isList = Array.isArray(value) && value.length > 0 && value.every((each) => known.includes(each));
    return isList ? [...new Set(value as string[])] : wrong(field, `must be a list of ${known.join(', ')}`);
  };
  const urlOf = () => {
    const { url } = given;
    if (url === undefined) return whole ? wrong('url', 'is required') : undefined;
    if (typeof url !== 'string') return wrong('url', 'must be a string');
    try {
      return receiverUrl(url, allowed).href;
    } catch (cause) {
      problems.push({ field: 'url', message: (cause as Error).message });
      return undefined;
    }
  };
  const url = urlOf();
  const wanted =
    listOf('resources', names) ??
    (whole && given.resources === undefined ? wrong('resources', 'is required') : undefined);
  const actions = listOf('actions', eventActions) ?? (whole ? [...eventActions] : undefined);
  const filter = given.filter ?? (whole ? '' : undefined);
  if (filter !== undefined && (typeof filter !== 'string' || filter.length > 2000)) {
    wrong('filter', 'must be a string, parameters of a list such as status=New');
  }
  return {
    ...(url !== undefined && { url }),
    ...(wanted !== undefined && { resources: wanted }),
    ...(actions !== undefined && { actions }),
    ...(typeof filter === 'string' && { filter }),
  };
}

/** Validates that every resource of a subscription has the filters that it uses. */
export function checkFilter(
  { filter, resources: wanted }: Pick<SubscriptionInput, 'filter' | 'resources'>,
  resources: readonly RecordResource[],
  problems: FieldIssue[],
): void {
  for (const { name, context } of resources.filter((each) => wanted.includes(each.name))) {
    parseFilter(filter, name, matching(context), problems);
  }
}

/** Reads the filter of a subscription for one of its resources; adds everything that is wrong to `problems`. */
export function parseFilter(
  filter: string,
  resource: string,
  { parameters, parse }: Matching,
  problems: FieldIssue[],
): ReturnType<Matching['parse']> {
  const query = filterQuery(filter);
  const found: FieldIssue[] = Object.keys(query)
    .filter((parameter) => !parameters.includes(parameter))
    .slice(0, 1)
    .map((field) => ({
      field,
      message: `${field} is no filter of ${resource}: there are ${parameters.join(', ')}`,
    }));
  const asked = parse(query, found);
  problems.push(...found.map(({ message }) => ({ field: 'filter', message: `filter: ${message}` })));
  return asked;
}
