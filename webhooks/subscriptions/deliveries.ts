import { type RawBuilder, sql } from 'kysely';
import type { Resource } from '../../engine/compile/index.ts';
import {
  allows,
  canReadAll,
  everyGrant,
  type Grants,
  limitsChanges,
  type Principal,
  visibleChanges,
} from '../../engine/records/index.ts';
import { arrayText, literal } from '../../engine/sql/index.ts';
import type { RowSource } from '../../engine/tables/index.ts';
import type { Queue } from '../queue/index.ts';
import type { EventFormat, FilterMode } from './input.ts';
import { deliveryReasons } from './reasons.ts';
import { subscriptionsTexts } from './texts/index.ts';
import { type EventSubject, eventSubject } from './titles.ts';

/** The object of test events and batches, which are not about a record. */
export const testObject = '';

/**
 * Returns the SQL condition that delivery `i` is a test event, or that a caller can currently see its change, or all changes
 * of its batch, and can read their resources. A subscription can include other resources, and its profile can have covered
 * other records when the delivery was queued.
 */
export function visibleTo(principal: Principal, resources: readonly Resource[]): RawBuilder<unknown> {
  const { grants, organization } = principal;
  const readable = resources.filter(({ definition }) => allows(grants, definition, 'read'));
  const isReadable = (row: string) =>
    sql`${sql.ref(row)}.object = any(${arrayText(readable.map(({ name }) => name))}::text[])`;
  const view = { resources: readable.map(({ viewFor }) => viewFor(grants).context), action: 'read' } as const;
  const isVisible = (row: string) => {
    if (!limitsChanges(view)) return isReadable(row);
    const rows = `select * from "crm_ledger" _l where _l."organization_id" = ${row}.organization_id and _l."object" = ${row}.object and _l."object_id" = ${row}.object_id and _l."version" = ${row}.version`;
    const changes = visibleChanges(rows, view, (value) => {
      const parameter = value({ organization, caller: { principal } });
      return typeof parameter === 'string' ? literal(parameter) : 'null';
    });
    return sql`(${isReadable(row)} and exists (${sql.raw(changes)}))`;
  };
  return sql`case i.action when 'test' then true when 'batch' then not exists (
      select from crm_event_deliveries m
      where m.organization_id = i.organization_id and m.batch_id = i.id and not ${isVisible('m')})
    else ${isVisible('i')} end`;
}

/**
 * Returns whether a caller can read everything that the bodies of a delivery can contain: all records of its events' resources,
 * with all fields.
 * @param names the resources
 */
export const canReadBodies = (
  resources: readonly Resource[],
  grants: Grants,
  names: readonly string[],
): boolean =>
  names.every((name) => resources.some((resource) => resource.name === name)) &&
  canReadAll(
    resources.map(({ definition }) => definition),
    grants,
    everyGrant,
    names,
  );

/** Returns the SQL expression for the title of a delivery of an event. */
const eventTitle = (row: string): string =>
  `case when ${row}.object = '' then ${row}.action else ${row}.action || ' ' || ${row}.object || ' ' || ${row}.object_id || ' v' || ${row}.version end`;

/** Maximum number of events in the title of a batch. */
const maxTitleEvents = 3;

/** SQL for the events of batch `i`, from which an expression is selected. */
const ofBatch = (expression: string): string =>
  `(select ${expression} from crm_event_deliveries m where m.organization_id = i.organization_id and m.batch_id = i.id)`;
/** SQL for the first events of batch `i`, from whose titles an expression is selected. @param title SQL for an event's title */
const ofFirstEvents = (expression: string, title: string): string => `(select ${expression} from (
  select m.id, ${title} as title from crm_event_deliveries m
  where m.organization_id = i.organization_id and m.batch_id = i.id order by m.id limit ${maxTitleEvents}) _t)`;
const firstTitles = ofFirstEvents(`string_agg(_t.title, ', ' order by _t.id)`, eventTitle('m'));
const firstSubjects = ofFirstEvents('json_agg(_t.title order by _t.id)', eventSubject('m'));

/** The last request of a delivery and its response. */
export interface Exchange {
  readonly id: string;
  readonly url: string;
  /** Headers after a first line, or why nothing was sent. */
  readonly request: string;
  readonly response: string;
  readonly requestBody: string;
  readonly responseBody: string;
  readonly attempts: string;
  /** The resources of the events. */
  readonly objects: readonly string[];
  /** The events of a batch. */
  readonly events: readonly EventSubject[];
}

/** SQL for the titles of the events of batch `i` as lines. */
const allTitles = ofBatch(`string_agg(${eventTitle('m')}, E'\\n' order by m.id)`);

/** The last requests of an organization's deliveries. */
export const exchangeRows: RowSource<Exchange> = {
  from: 'crm_event_deliveries i',
  owner: 'i.organization_id',
  columns: {
    id: 'i.id',
    url: 'i.url',
    request: 'i.request',
    response: 'i.response',
    requestBody: 'i.request_body',
    responseBody: 'i.response_body',
    attempts: 'i.attempt_log',
    objects: `case i.action when 'test' then array[]::text[] when 'batch' then array${ofBatch('distinct m.object')}
      else array[i.object] end`,
    events: `case i.action when 'batch' then coalesce(${ofBatch(`json_agg(${eventSubject('m')} order by m.id)`)}, '[]') else '[]' end`,
  },
  order: 'i.id desc',
};

/** The queue of events to be sent to subscriptions. */
export const deliveryQueue: Queue = {
  name: 'events',
  item: 'event delivery',
  missing: (id) => subscriptionsTexts.later('missingDelivery', { id }),
  table: 'crm_event_deliveries',
  owner: {
    table: 'crm_event_subscriptions',
    property: 'subscription',
    column: 'subscription_id',
    name: 'g.url',
    isOpen: `g.state = 'on' and g.paused_until <= now()`,
    unpause: { set: 'paused_until = now()', where: 'g.failing_since is not null and g.paused_until > now()' },
  },
  // Changes to the same record are sent in order. Changes to different records do not wait for each other. Batches are sent
  // one after another, and events that are not in a batch wait for them.
  isReady: `(w.action = 'test' or not exists (
    select from crm_event_deliveries b
    where b.organization_id = w.organization_id and b.subscription_id = w.subscription_id
      and b.status = 'waiting' and b.action = 'batch' and (w.action <> 'batch' or b.id < w.id)))
    and (w.object_id is null or not exists (
    select from crm_event_deliveries e
    where e.organization_id = w.organization_id and e.subscription_id = w.subscription_id
      and e.object = w.object and e.object_id = w.object_id and e.status = 'waiting' and e.version < w.version))`,
  isFollowed: `(i.action = 'batch' or exists (select from crm_event_deliveries e
    where e.organization_id = i.organization_id and e.subscription_id = i.subscription_id
      and e.object = i.object and e.object_id = i.object_id and e.status = 'waiting' and e.version > i.version))`,
  title: `case i.action when 'batch' then ${ofBatch(`'batch of ' || count(*) || case count(*) when 1 then ' event' else ' events' end`)}
    || coalesce(': ' || ${firstTitles}, '') || case when ${ofBatch('count(*)')} > ${maxTitleEvents} then ', …' else '' end
    else ${eventTitle('i')} end`,
  subject: `case i.action when 'batch' then json_build_object('count', ${ofBatch('count(*)')}, 'events', coalesce(${firstSubjects}, '[]'))
    else json_build_object('events', json_build_array(${eventSubject('i')})) end::text`,
  detail: `i.request || E'\\n\\n' || i.response || case i.action when 'batch'
    then E'\\n\\n' || coalesce(${allTitles}, '') else '' end`,
  nextAt: `case when g.state = 'on' then greatest(i.next_at, g.paused_until) end`,
  reasons: deliveryReasons,
  claims: `i.position, i.object, i.object_id, i.version, i.action, i.changed,
    replace((i.at at time zone 'UTC')::text, ' ', 'T') || 'Z' as at,
    g.url, g.filter, g.filter_when, g.transitions, g.format, g.batch_events, i.sealed_at is not null as is_sealed, g.profile_id, g.secret, case when g.previous_until > now() then g.previous_secret else '' end as previous_secret,
    g.failures`,
  leaseSeconds: 20,
  concurrency: 128,
  batch: 48,
};

/** Columns from a claimed delivery and its subscription, with encrypted secrets. */
export interface DeliveryClaim {
  readonly position: string | null;
  readonly object: string;
  readonly object_id: string | null;
  readonly version: string | null;
  readonly action: string;
  readonly changed: string;
  /** Time of the change (RFC 3339). */
  readonly at: string;
  readonly url: string;
  readonly filter: string;
  readonly filter_when: FilterMode;
  /** Transitions as JSON, or an empty string. */
  readonly transitions: string;
  readonly format: EventFormat;
  /** Maximum number of events in a request, or 0 if each event is sent in its own request. */
  readonly batch_events: number;
  /** Whether the events of this batch are fixed. */
  readonly is_sealed: boolean;
  readonly profile_id: string;
  readonly secret: string;
  readonly previous_secret: string;
  readonly failures: number;
}
