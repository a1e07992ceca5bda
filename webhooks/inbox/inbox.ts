import { documentText } from '../../engine/fields/index.ts';
import type { Tables } from '../../engine/tables/index.ts';
import { type ChannelEvent, type Channels, channelLabel, type Integration } from '../channels/index.ts';
import { indexable } from '../endpoint/index.ts';
import { commonReasons, type Queue, type Reason, type Wordings } from '../queue/index.ts';
import { inboxTexts } from './texts/index.ts';

/** The reasons for failures. */
const inboxReasons = {
  ...commonReasons,
  unknownChannel: {
    sentence: ({ channel }) => `neither this version nor a module has the channel "${channel}"`,
    text: ({ channel = '' }) => inboxTexts.later('channelMissing', { channel }),
  },
  retired: {
    sentence: ({ resource }) => `${resource} is retired`,
    text: ({ resource = '' }) => inboxTexts.later('resourceRetired', { resource }),
  },
} satisfies Wordings;

/** Why an event of a channel could not be processed. */
export type InboxReason = Reason<keyof typeof inboxReasons>;

/** The queue of channel events. */
export const inboxQueue: Queue = {
  name: 'inbox',
  item: 'inbox item',
  missing: (id) => inboxTexts.later('missingItem', { id }),
  table: 'crm_inbox',
  owner: {
    table: 'crm_integrations',
    property: 'integration',
    column: 'integration_id',
    name: `g.name || ' (' || g.provider || ')'`,
    isOpen: 'g.enabled',
  },
  title: 'i.event_id',
  detail: 'i.payload',
  nextAt: 'case when g.enabled then i.next_at end',
  reasons: inboxReasons,
  claims: 'i.payload, g.provider, g.endpoint, g.secret, g.token',
  leaseSeconds: 60,
  concurrency: 20,
  batch: 5,
};

/** Returns the queue of channel events, whose owners are named with the labels of their channels. */
export const labeledInbox = (channels: Channels): Queue => ({
  ...inboxQueue,
  owner: { ...inboxQueue.owner, name: `g.name || ' (' || ${channelLabel(channels, 'g.provider')} || ')'` },
});

/** Columns from a claimed event and its integration, with encrypted secrets. */
export interface InboxClaim {
  readonly payload: string;
  readonly provider: string;
  readonly endpoint: string;
  readonly secret: string;
  readonly token: string;
}

/** Stores new events and returns their number. Must succeed before the provider receives a response. */
export async function store(
  tables: Tables,
  { organization, id }: Integration,
  events: readonly ChannelEvent[],
): Promise<number> {
  let storedCount = 0;
  // The number of parameters per statement is limited, and Lead Ads sends up to 1,000 events per delivery.
  for (let start = 0; start < events.length; start += 500) {
    const rows = await tables
      .insertInto('crm_inbox')
      .values(
        events.slice(start, start + 500).map((event) => ({
          organization_id: organization,
          integration_id: id,
          event_id: indexable(event.id),
          payload: documentText(event.data),
          done_at: null,
        })),
      )
      .onConflict((conflict) =>
        conflict.columns(['organization_id', 'integration_id', 'event_id']).doNothing(),
      )
      .returning('id')
      .execute();
    storedCount += rows.length;
  }
  return storedCount;
}
