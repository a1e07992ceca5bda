import { receiverUrl } from '../../engine/addresses.ts';
import type { Resource } from '../../engine/compile/index.ts';
import type { FieldIssue } from '../../engine/errors.ts';
import type { Field } from '../../engine/fields/index.ts';
import type { Query } from '../../engine/query/index.ts';
import {
  type CustomFields,
  type Grants,
  type Matching,
  type MatchingStates,
  matching,
  matchingStates,
  visibleCustomFields,
} from '../../engine/records/index.ts';
import type { Settings } from '../settings/index.ts';
import { checkTransitions, readSelectedTransitions, type SelectedTransitions } from './transitions.ts';

/** Actions for which events are sent. */
export const eventActions = ['create', 'update', 'delete'] as const;

/** A kind of change that a subscription can send. */
export type EventAction = (typeof eventActions)[number];

/** Formats of request bodies: events as such, or in the envelope of CloudEvents 1.0. */
export const eventFormats = ['standard', 'cloudevents'] as const;
export type EventFormat = (typeof eventFormats)[number];

/**
 * When a change is sent if there is a filter: if the record matches when the event is sent, or if the change makes the record
 * match or stop matching.
 */
export const filterModes = ['matches', 'enters', 'leaves'] as const;
export type FilterMode = (typeof filterModes)[number];

/** Limits of the batches in which events are sent. */
export interface BatchOptions {
  readonly maxEvents: number;
  /** Maximum time that an event waits for other events. */
  readonly maxWaitSeconds: number;
}

/** Maximum values of the options of batches, which are also the ranges' upper ends. */
export const [maxBatchEvents, maxBatchSeconds] = [100, 300];
const [defaultBatchEvents, defaultBatchSeconds] = [100, 5];

/** Input for a subscription. */
export interface SubscriptionInput {
  readonly url: string;
  readonly resources: readonly string[];
  readonly actions: readonly string[];
  /** List parameters, for example `status=New&rating=Hot`, or an empty string for all records. */
  readonly filter: string;
  readonly filterWhen: FilterMode;
  /** Transitions that are sent. Empty if all changes are sent. */
  readonly transitions: SelectedTransitions;
  readonly format: EventFormat;
  /** Null if each event is sent in its own request. */
  readonly batch: BatchOptions | null;
}

/** Returns the options of batches in the form of the API, from texts. Undefined if both are missing or blank. */
export function batchInput(events: unknown, seconds: unknown): unknown {
  const entries = Object.entries({ max_events: events, max_wait_seconds: seconds }).filter(
    ([, text]) => text !== undefined && text !== '',
  );
  return entries.length === 0
    ? undefined
    : Object.fromEntries(entries.map(([name, text]) => [name, Number(text)]));
}

/** Validates the options of batches. Returns undefined after adding an issue to `issues`. */
function readBatch(input: unknown, issues: FieldIssue[]): BatchOptions | null | undefined {
  if (input === null) return null;
  const { max_events = defaultBatchEvents, max_wait_seconds = defaultBatchSeconds, ...rest } = Object(input);
  const isIn = (value: unknown, max: number): value is number =>
    typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= max;
  const isObject = typeof input === 'object' && !Array.isArray(input) && Object.keys(rest).length === 0;
  if (isObject && isIn(max_events, maxBatchEvents) && isIn(max_wait_seconds, maxBatchSeconds))
    return { maxEvents: max_events, maxWaitSeconds: max_wait_seconds };
  issues.push({
    field: 'batch',
    message: `batch must be null or an object with max_events (1 to ${maxBatchEvents}) and max_wait_seconds (1 to ${maxBatchSeconds})`,
  });
  return undefined;
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
  const oneOf = <T extends string>(field: string, allowedValues: readonly [T, ...T[]]): T | undefined => {
    const value = input[field] ?? (isNew ? allowedValues[0] : undefined);
    if (value === undefined) return undefined;
    const match = allowedValues.find((allowed) => allowed === value);
    return match ?? addIssue(field, `must be one of ${allowedValues.join(', ')}`);
  };
  const format = oneOf('format', eventFormats);
  const filterWhen = oneOf('filter_when', filterModes);
  const transitions =
    input.transitions === undefined
      ? isNew
        ? {}
        : undefined
      : readSelectedTransitions(input.transitions, issues);
  const batch = input.batch === undefined ? (isNew ? null : undefined) : readBatch(input.batch, issues);
  return {
    ...(url !== undefined && { url }),
    ...(subscribedResources !== undefined && { resources: subscribedResources }),
    ...(actions !== undefined && { actions }),
    ...(typeof filter === 'string' && { filter }),
    ...(filterWhen !== undefined && { filterWhen }),
    ...(transitions !== undefined && { transitions }),
    ...(format !== undefined && { format }),
    ...(batch !== undefined && { batch }),
  };
}

/** The parts of a subscription that select changes. */
export type ChangeSelection = Pick<SubscriptionInput, 'filter' | 'filterWhen' | 'transitions' | 'resources'>;

/**
 * Checks that a subscription's filter and transitions are valid for each of its resources.
 * @param grants the grants of the subscription's profile. Neither can contain fields that the profile cannot read
 * @param customFields the custom fields of the organization
 */
export function checkSelection(
  { filter, filterWhen, transitions, resources: subscribedResources }: ChangeSelection,
  resources: readonly Resource[],
  grants: Grants,
  customFields: CustomFields | undefined,
  issues: FieldIssue[],
): void {
  if (filterWhen !== 'matches' && filter === '')
    issues.push({ field: 'filter_when', message: `filter_when can only be ${filterWhen} with a filter` });
  for (const { name, viewFor } of resources.filter((item) => subscribedResources.includes(item.name))) {
    const view = viewFor(grants);
    const { context, definition } = view;
    const ownFields = visibleCustomFields(customFields?.get(name) ?? [], definition, grants);
    const query = parseFilter(filter, name, matching(context), ownFields, issues);
    if (filterWhen !== 'matches') checkStates(query, name, matchingStates(context), issues);
    checkTransitions(transitions, view, issues);
  }
}

/** Checks that a filter can be evaluated on the states before and after a change. */
export function checkStates(
  query: ReturnType<Matching['parse']>,
  resource: string,
  { unsupported }: MatchingStates,
  issues: FieldIssue[],
): void {
  const [field] = unsupported(query);
  if (field !== undefined)
    issues.push({
      field: 'filter_when',
      message: `filter_when: the filter of ${resource} by ${field.name} is only available with "matches", because the change log does not contain a single value of this field`,
    });
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
