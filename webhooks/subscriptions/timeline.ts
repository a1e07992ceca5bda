import { sql } from 'kysely';
import {
  inPeriod,
  linkWithParameters,
  microseconds,
  type TimelineEntry,
  type TimelineRequest,
  type TimelineSource,
} from '../../plugins/admin-ui/shell/index.ts';
import { attemptsIn, type DisplayedItem, itemState, latestAttempt, reasonFor } from '../queue/index.ts';
import { deliveryReasons } from './reasons.ts';
import { subscriptionsTexts } from './texts/index.ts';

/** Maximum number of deliveries of a version that a timeline links to. */
const maxLinks = 5;

/** Maximum number of characters of a receiver's URL. */
const maxReceiverLength = 80;

/** A delivery of an event, or of the batch that contains the event. */
interface EventDelivery extends Pick<DisplayedItem, 'id' | 'status' | 'attempts' | 'error' | 'latest'> {
  /** URL of the subscription. */
  readonly url: string;
  /** Whether a request was sent. */
  readonly isSent: boolean;
}

/** The deliveries of a version of a record, to one or several subscriptions. */
interface VersionDeliveries {
  readonly version: string;
  readonly at: string;
  readonly count: number;
  /** Some of the deliveries, starting with failed ones, then waiting ones, in the order of their subscriptions. */
  readonly deliveries: readonly EventDelivery[];
}

/** Returns a record's deliveries in a period by version, newest first. */
async function listDeliveries(request: TimelineRequest): Promise<readonly VersionDeliveries[]> {
  const { tables, organization, resource, record, limit } = request;
  const isOfRecord = sql`i.organization_id = ${organization}::bigint and i.object = ${resource} and i.object_id = ${record}::bigint`;
  const { rows } = await sql<VersionDeliveries>`
    select _v.version::text as version, ${microseconds('_v.at')} as at, _d.count::int as count, _d.deliveries
    from (select i.at, i.version from crm_event_deliveries i
      where ${isOfRecord} and ${inPeriod(request, { at: 'i.at', id: 'i.version' })}
      group by i.at, i.version order by i.at desc, i.version desc limit ${limit}::int) _v
    cross join lateral (
      select max(_s.count) as count, json_agg(json_build_object('id', _s.id, 'url', _s.url, 'status', _s.status,
        'attempts', _s.attempts, 'error', _s.error, 'latest', _s.latest, 'isSent', _s.is_sent) order by _s.rank, _s.subscription_id) as deliveries
      from (select count(*) over () as count, _i.id::text as id, g.url, _i.status, _i.attempts, _i.error,
          ${sql.raw(latestAttempt('_i'))} as latest, starts_with(_i.request, 'POST') as is_sent, i.subscription_id,
          case _i.status when 'dead' then 1 when 'waiting' then 2 else 3 end as rank
        from crm_event_deliveries i
        join crm_event_subscriptions g on g.organization_id = i.organization_id and g.id = i.subscription_id
        join crm_event_deliveries _i on _i.organization_id = i.organization_id and _i.id = coalesce(i.batch_id, i.id)
        where ${isOfRecord} and i.at = _v.at and i.version = _v.version
        order by rank, i.subscription_id limit ${sql.lit(maxLinks)}) _s) _d
    order by _v.at desc, _v.version desc`.execute(tables);
  return rows;
}

/** Returns a receiver's host and path. Queries are omitted, because they can contain secrets. */
function receiverOf(url: string): string {
  const parsed = URL.parse(url);
  const text = parsed === null ? url : `${parsed.host}${parsed.pathname}`.replace(/\/$/, '');
  return text.length > maxReceiverLength ? `${text.slice(0, maxReceiverLength)}…` : text;
}

/** Returns the deliveries of a version as an entry. Its state is the state of the delivery that needs the most attention. */
function entryOf(
  { version, at, count, deliveries }: VersionDeliveries,
  { language, membership: { slug } }: TimelineRequest,
): TimelineEntry[] {
  const t = subscriptionsTexts(language);
  const [first] = deliveries;
  if (first === undefined) return [];
  const badge = itemState(first, language);
  const hrefOf = ({ id }: EventDelivery) => linkWithParameters(`/setup/o/${slug}/events/item`, { id }, {});
  const entry = { id: version, at, icon: 'webhook', badge } as const;
  const isSent = deliveries.every((delivery) => delivery.isSent);
  if (count === 1) {
    const receiver = receiverOf(first.url);
    const { status, error, latest } = first;
    const reason = reasonFor(deliveryReasons, { status, error, latest: attemptsIn(latest)[0] }, language);
    return [
      {
        ...entry,
        text: isSent ? t('eventSentTo', { receiver }) : t('eventFor', { receiver }),
        ...(reason !== '' && { detail: reason }),
        links: [{ label: t('showDelivery'), name: t('showDeliveryTo', { receiver }), href: hrefOf(first) }],
      },
    ];
  }
  return [
    {
      ...entry,
      text: isSent ? t('eventSentToReceivers', { count }) : t('eventForReceivers', { count }),
      links: deliveries.map((delivery) => {
        const receiver = receiverOf(delivery.url);
        const label = t('deliveryState', { receiver, state: itemState(delivery, language).text });
        return { label, name: label, href: hrefOf(delivery) };
      }),
    },
  ];
}

/** The events that were sent about a record, as entries of its timeline, for members who can open the deliveries. */
export const eventsOfRecords: TimelineSource = {
  name: 'events',
  read: async (request) => {
    if (!request.canOpenSetup) return [];
    const versions = await listDeliveries(request);
    return versions.flatMap((version) => entryOf(version, request));
  },
};
