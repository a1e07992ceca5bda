import { type RawBuilder, sql } from 'kysely';
import type { Resource } from '../../engine/compile/index.ts';
import { allows, limitsChanges, type Principal, visibleChanges } from '../../engine/records/index.ts';
import { arrayText, literal } from '../../engine/sql/index.ts';
import type { Queue } from '../queue/index.ts';
import type { EventFormat, FilterMode } from './input.ts';

/** The object of test events, which are not about a record. */
export const testObject = '';

/**
 * Returns the SQL condition that delivery `i` is a test event, or is about a change that a caller can currently see to a
 * resource that it can read. A subscription can include other resources, and its profile can have covered other records
 * when the delivery was queued.
 */
export function visibleTo(principal: Principal, resources: readonly Resource[]): RawBuilder<unknown> {
  const { grants, organization } = principal;
  const readable = resources.filter(({ definition }) => allows(grants, definition, 'read'));
  const isReadable = sql`i.object = any(${arrayText(readable.map(({ name }) => name))}::text[])`;
  const view = { resources: readable.map(({ viewFor }) => viewFor(grants).context), action: 'read' } as const;
  if (!limitsChanges(view)) return sql`(i.object = ${testObject} or ${isReadable})`;
  const rows =
    'select * from "crm_ledger" _l where _l."organization_id" = i.organization_id and _l."object" = i.object and _l."object_id" = i.object_id and _l."version" = i.version';
  const changes = visibleChanges(rows, view, (value) => {
    const parameter = value({ organization, caller: { principal } });
    return typeof parameter === 'string' ? literal(parameter) : 'null';
  });
  return sql`(i.object = ${testObject} or (${isReadable} and exists (${sql.raw(changes)})))`;
}

/** The queue of events to be sent to subscriptions. */
export const deliveryQueue: Queue = {
  name: 'events',
  item: 'event delivery',
  table: 'crm_event_deliveries',
  owner: {
    table: 'crm_event_subscriptions',
    column: 'subscription_id',
    name: 'g.url',
    isOpen: `g.state = 'on' and g.paused_until <= now()`,
  },
  // Changes to the same record are sent in order. Changes to different records do not wait for each other.
  isReady: `(w.object_id is null or not exists (
    select from crm_event_deliveries e
    where e.organization_id = w.organization_id and e.subscription_id = w.subscription_id
      and e.object = w.object and e.object_id = w.object_id and e.status = 'waiting' and e.version < w.version))`,
  isFollowed: `exists (select from crm_event_deliveries e
    where e.organization_id = i.organization_id and e.subscription_id = i.subscription_id
      and e.object = i.object and e.object_id = i.object_id and e.status = 'waiting' and e.version > i.version)`,
  title: `case when i.object = '' then i.action else i.action || ' ' || i.object || ' ' || i.object_id || ' v' || i.version end`,
  detail: `i.request || E'\\n\\n' || i.response`,
  claims: `i.position, i.object, i.object_id, i.version, i.action, i.changed,
    replace((i.at at time zone 'UTC')::text, ' ', 'T') || 'Z' as at,
    g.url, g.filter, g.filter_when, g.transitions, g.format, g.profile_id, g.secret, case when g.previous_until > now() then g.previous_secret else '' end as previous_secret,
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
  readonly profile_id: string;
  readonly secret: string;
  readonly previous_secret: string;
  readonly failures: number;
}
