import type { Resource } from '../../engine/compile/index.ts';
import type { FieldIssue } from '../../engine/errors.ts';
import type { Field } from '../../engine/fields/index.ts';
import type { Query } from '../../engine/query/index.ts';
import {
  type CustomFields,
  type Grants,
  type Matching,
  matching,
  visibleCustomFields,
} from '../../engine/records/index.ts';
import type { Settings } from '../settings/index.ts';
import { receiverUrl } from './addresses.ts';

/** Actions for which events are sent. */
export const eventActions = ['create', 'update', 'delete'] as const;

/** Formats of request bodies: events as such, or in the envelope of CloudEvents 1.0. */
export const eventFormats = ['standard', 'cloudevents'] as const;
export type EventFormat = (typeof eventFormats)[number];

/** Input for a subscription. */
export interface SubscriptionInput {
  readonly url: string;
  readonly resources: readonly string[];
  readonly actions: readonly string[];
  /** List parameters, for example `status=New&rating=Hot`, or an empty string for all records. */
  readonly filter: string;
  readonly format: EventFormat;
}

/** Parses list parameters. A repeated parameter becomes an array. */
const filterQuery = (filter: string): Query => {
  const query: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of new URLSearchParams(filter)) {
    const existing = query[name];
    query[name] = existing === undefined ? value : [...[existing].flat(), value];
  }
  return query;
};

/**
 * Validates the input for a subscription and appends its issues to `issues`.
 * @param input unvalidated values
 * @param isNew whether the subscription is new, so that `url` and `resources` are required and defaults apply
 */
export function readSubscriptionInput(
  input: Readonly<Record<string, unknown>>,
  isNew: boolean,
  resources: readonly Pick<Resource, 'name'>[],
  urlPolicy: Settings['events'],
  issues: FieldIssue[],
): Partial<SubscriptionInput> {
  const addIssue = (field: string, message: string) => {
    issues.push({ field, message: `${field} ${message}` });
    return undefined;
  };
  const names = resources.map(({ name }) => name);
  const listOf = (field: 'resources' | 'actions', allowedValues: readonly string[]) => {
    const value = input[field];
    if (value === undefined) return undefined;
    const isList =
      Array.isArray(value) && value.length > 0 && value.every((item) => allowedValues.includes(item));
    return isList
      ? [...new Set(value as string[])]
      : addIssue(field, `must be an array of these values: ${allowedValues.join(', ')}`);
  };
  const urlOf = () => {
    const { url } = input;
    if (url === undefined) return isNew ? addIssue('url', 'is required') : undefined;
    if (typeof url !== 'string') return addIssue('url', 'must be a string');
    try {
      return receiverUrl(url, urlPolicy).href;
    } catch (cause) {
      issues.push({ field: 'url', message: (cause as Error).message });
      return undefined;
    }
  };
  const url = urlOf();
  const subscribedResources =
    listOf('resources', names) ??
    (isNew && input.resources === undefined ? addIssue('resources', 'is required') : undefined);
  const actions = listOf('actions', eventActions) ?? (isNew ? [...eventActions] : undefined);
  const filter = input.filter ?? (isNew ? '' : undefined);
  if (filter !== undefined && (typeof filter !== 'string' || filter.length > 2000)) {
    addIssue('filter', 'must be a string with list parameters, for example status=New');
  }
  const format = input.format ?? (isNew ? 'standard' : undefined);
  const isFormat = eventFormats.some((name) => name === format);
  if (format !== undefined && !isFormat) addIssue('format', `must be one of ${eventFormats.join(', ')}`);
  return {
    ...(url !== undefined && { url }),
    ...(subscribedResources !== undefined && { resources: subscribedResources }),
    ...(actions !== undefined && { actions }),
    ...(typeof filter === 'string' && { filter }),
    ...(isFormat && { format: format as EventFormat }),
  };
}

/**
 * Checks that a subscription's filter is valid for each of its resources.
 * @param grants the grants of the subscription's profile. The filter cannot contain fields that the profile cannot read
 * @param customFields the custom fields of the organization
 */
export function checkFilter(
  { filter, resources: subscribedResources }: Pick<SubscriptionInput, 'filter' | 'resources'>,
  resources: readonly Resource[],
  grants: Grants,
  customFields: CustomFields | undefined,
  issues: FieldIssue[],
): void {
  for (const { name, viewFor } of resources.filter((item) => subscribedResources.includes(item.name))) {
    const { context, definition } = viewFor(grants);
    const ownFields = visibleCustomFields(customFields?.get(name) ?? [], definition, grants);
    parseFilter(filter, name, matching(context), ownFields, issues);
  }
}

/**
 * Parses a subscription's filter for one of its resources and appends any issues to `issues`.
 * @param customFields the custom fields of the resource
 */
export function parseFilter(
  filter: string,
  resource: string,
  { parameters, parse }: Matching,
  customFields: readonly Field[],
  issues: FieldIssue[],
): ReturnType<Matching['parse']> {
  const query = filterQuery(filter);
  const known = parameters(customFields);
  const filterIssues: FieldIssue[] = Object.keys(query)
    .filter((parameter) => !known.includes(parameter))
    .slice(0, 1)
    .map((field) => ({
      field,
      message: `cannot filter ${resource} by ${field}. Available: ${known.join(', ')}`,
    }));
  const parsedQuery = parse(query, filterIssues, customFields);
  issues.push(...filterIssues.map(({ message }) => ({ field: 'filter', message: `filter: ${message}` })));
  return parsedQuery;
}
