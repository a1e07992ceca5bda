import type { Catalogue } from '../../../plugins/admin-ui/shell/index.ts';

/** English texts of the pages for event subscriptions. */
export default {
  events: 'Events',
  sentEvents: 'Sent events',
  eventsTo: 'Events to {url}: {problem}.',
  deliveriesFailing: 'deliveries are failing',
  enabled: 'Enabled',
  disabled: 'Disabled',
  receiverGone: 'Disabled: the receiver responded with 410',
  noDelivery: 'Disabled: no successful delivery for days',
  showDeliveries: 'Show deliveries',
  showDeliveriesTo: 'Show deliveries to {url}',
} as const satisfies Catalogue;
