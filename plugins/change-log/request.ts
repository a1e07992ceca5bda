import { errors, type FieldIssue } from '../../engine/errors.ts';
import type { Query } from '../../engine/query/index.ts';
import { allows, loggedFieldNames, type Principal, type RecordResource } from '../../engine/records/index.ts';

/** A parsed request to the feed. */
export interface FeedRequest {
  /** A cursor, or `now` for the current end of the feed. Undefined starts with the oldest stored change. */
  readonly after: string | undefined;
  /** Resource names. Undefined means all resources that the caller can list. */
  readonly resources: readonly string[] | undefined;
  /** How long to wait if there are no changes, in milliseconds. */
  readonly waitMs: number;
}

/** Maximum wait in seconds. Shorter than the usual timeouts of proxies and clients. */
export const maxWait = 25;

/**
 * Parses the query parameters of a request.
 * @param lastEventId the header with which a browser resumes a stream
 * @throws HttpError 400 with all issues
 */
export function feedRequest(query: Query, lastEventId: string | undefined): FeedRequest {
  const problems: FieldIssue[] = [];
  const once = (name: string): string | undefined => {
    const value = query[name];
    if (!Array.isArray(value)) return value === '' ? undefined : (value as string | undefined);
    problems.push({ field: name, message: `${name} must not be repeated` });
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
 * Returns the fields that a caller can see of each requested resource.
 * @throws HttpError 400 for an unknown resource, 403 for a resource that the caller cannot list
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
