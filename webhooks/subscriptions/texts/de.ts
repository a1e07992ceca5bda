import type { TranslationOf } from '../../../plugins/admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for event subscriptions. */
export default {
  events: 'Ereignisse',
  sentEvents: 'Gesendete Ereignisse',
  eventsTo: 'Ereignisse an {url}: {problem}.',
  deliveriesFailing: 'Zustellungen schlagen fehl',
  enabled: 'Aktiviert',
  disabled: 'Deaktiviert',
  receiverGone: 'Deaktiviert: Der Empfänger hat mit 410 geantwortet',
  noDelivery: 'Deaktiviert: seit Tagen keine erfolgreiche Zustellung',
  showDeliveries: 'Zustellungen anzeigen',
  showDeliveriesTo: 'Zustellungen an {url} anzeigen',
} as const satisfies TranslationOf<typeof en>;
