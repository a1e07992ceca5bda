import { errors, type FieldIssue } from '../../engine/errors.ts';
import type { Query } from '../../engine/query/index.ts';
import { allows, loggedFieldNames, type Principal, type RecordResource } from '../../engine/records/index.ts';

/** What a request to the feed asks for. */
export interface FeedRequest {
  /** The cursor; `now`: where the feed ends at the moment; undefined: from the first change that is kept. */
  readonly after: string | undefined;
  /** Names of resources; undefined: all that the caller may list. */
  readonly resources: readonly string[] | undefined;
  /** How long to wait for a change if there is none, in milliseconds. */
  readonly waitMs: number;
}

/** The longest wait, in seconds. Shorter than what proxies and clients wait for a response. */
export const maxWait = 25;

/**
 * Reads the parameters of a request.
 * @param lastEventId the header by which a browser continues a stream
 * @throws HttpError 400 with everything that is wrong
 */
export function feedRequest(query: Query, lastEventId: string | undefined): FeedRequest {
  const problems: FieldIssue[] = [];
  const once = (name: string): string | undefined => {
    const value = query[name];
    if (!Array.isArray(value)) return value === '' ? undefined : (value as string | undefined);
    problems.push({ field: name, message: `${name} was given more than once` });
    return undefined;
  };
  const after = lastEventId ?? once('after');
  const resources = once('resources');
  const wait = once('wait') ?? '0';
  if (!/^\d{1,2}$/.test(wait) || Number(wait) > maxWait) {
    problems.push({ field: 'wait', message: `wait must be a number of seconds from 0 to ${maxWait}` });
  }
  if (problems.length > 0) throw errors.invalidFields(problems);
  return { after, resources: resources?.split(','), waitMs: Number(wait) * 1000 };
}

/**
 * The fields that a caller may see of each resource that it asks for.
 * @throws HttpError 400 for a resource that there is not; 403 for one that it may not list
 */
export function visibleFields(
  { grants }: Principal,
  resources: readonly Pick<RecordResource, 'name' | 'definition'>[],
  wanted: FeedRequest['resources'],
): ReadonlyMap<string, readonly string[]> {
  const unknown = wanted?.filter((name) => !resources.some((each) => each.name === name)) ?? [];
  if (unknown.length > 0) {
    const known = resources.map(({ name }) => name).join(', ');
    throw errors.invalidParameter('resources', `must be one or more of ${known}, separated by commas`);
  }
  const refused = wanted?.find((name) => !allows(grants, name, 'list'));
  if (refused !== undefined) throw errors.forbidden(refused, 'list');
  const shown = resources.filter(({ name }) => wanted?.includes(name) ?? allows(grants, name, 'list'));
  if (shown.length === 0) throw errors.forbidden('any resource', 'list');
  return new Map(shown.map(({ name, definition }) => [name, loggedFieldNames(definition)]));
}
