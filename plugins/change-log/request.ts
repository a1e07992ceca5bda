import type { Resource } from '../../engine/compile/index.ts';
import { errors, type FieldIssue } from '../../engine/errors.ts';
import type { Query } from '../../engine/query/index.ts';
import { allows, type ChangeView, type Principal } from '../../engine/records/index.ts';

/** A parsed request to the feed. */
export interface FeedRequest {
  /** A cursor, or `now` for the feed's current end. Undefined means the oldest stored change. */
  readonly after: string | undefined;
  /** Resource names. Undefined means all resources that the caller can list. */
  readonly resources: readonly string[] | undefined;
  /** Maximum time to wait if there are no changes, in milliseconds. */
  readonly waitMs: number;
}

/** Maximum wait in seconds, shorter than typical proxy and client timeouts. */
export const maxWait = 25;

/**
 * Parses a request's query parameters.
 * @param lastEventId value of the `Last-Event-ID` header, which a client sends to resume a stream
 * @throws HttpError 400 with all issues
 */
export function feedRequest(query: Query, lastEventId: string | undefined): FeedRequest {
  const issues: FieldIssue[] = [];
  const singleValue = (name: string): string | undefined => {
    const value = query[name];
    if (!Array.isArray(value)) return value === '' ? undefined : (value as string | undefined);
    issues.push({ field: name, message: `${name} must not be repeated` });
    return undefined;
  };
  const after = lastEventId ?? singleValue('after');
  const resources = singleValue('resources');
  const wait = singleValue('wait') ?? '0';
  if (!/^\d{1,2}$/.test(wait) || Number(wait) > maxWait) {
    issues.push({ field: 'wait', message: `wait must be a number of seconds from 0 to ${maxWait}` });
  }
  if (issues.length > 0) throw errors.invalidFields(issues);
  return { after, resources: resources?.split(','), waitMs: Number(wait) * 1000 };
}

/** The part of the feed that a caller sees. */
export interface FeedView {
  /** Identifies the caller's limits. Empty if nothing is limited. */
  readonly key: string;
  /** The requested resources as the caller sees them. */
  readonly resources: ChangeView['resources'];
}

/**
 * Returns the part of the feed that a caller sees.
 * @throws HttpError 400 for an unknown resource, 403 for a resource that the caller cannot list
 */
export function feedView(
  { grants }: Pick<Principal, 'grants'>,
  resources: readonly Resource[],
  names: FeedRequest['resources'],
): FeedView {
  const unknown = names?.filter((name) => !resources.some((resource) => resource.name === name)) ?? [];
  if (unknown.length > 0) {
    const available = resources.map(({ name }) => name).join(', ');
    throw errors.invalidParameter('resources', `must be one or more of ${available}, separated by commas`);
  }
  const isListable = ({ definition }: Resource) => allows(grants, definition, 'list');
  const requestedResources = resources.filter(({ name }) => names?.includes(name) ?? true);
  const forbidden = names && requestedResources.find((resource) => !isListable(resource));
  if (forbidden !== undefined) throw errors.forbidden(forbidden.name, 'list');
  const contexts = requestedResources.filter(isListable).map(({ viewFor }) => viewFor(grants).context);
  const [first] = contexts;
  if (first === undefined)
    throw errors.notPermitted(
      'Your profile does not grant list on any resource',
      requestedResources[0] && `${requestedResources[0].name}:list`,
    );
  return { key: first.view, resources: contexts };
}
