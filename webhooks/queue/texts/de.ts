import type { TranslationOf } from '../../../plugins/admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for deliveries. */
export default {
  deliveries: 'Zustellungen',
  all: 'Alle',
  event: 'Ereignis',
  state: 'Status',
  details: 'Details',
  removed: 'entfernt',
  retrying: 'Wird wiederholt',
  afterAttempts: '{state}, {attempts}',
  attempts: { one: '{count} Versuch', other: '{count} Versuche' },
  replayAll: 'Alle fehlgeschlagenen wiederholen',
  replay: 'Erneut zustellen',
  replayName: '{name} erneut zustellen',
  retryNow: 'Jetzt wiederholen',
  retryNowName: '{name} jetzt wiederholen',
  queuedAgain: '{} erneut eingereiht.',
  failedDeliveries: {
    one: '{count} fehlgeschlagene Zustellung',
    other: '{count} fehlgeschlagene Zustellungen',
  },
  itemMissing: 'Dieser Eintrag existiert nicht mehr.',
  waiting: 'Wartet',
  delivered: 'Zugestellt',
  failed: 'Fehlgeschlagen',
  last: '{title}: die letzten {number}',
  lastDays: '{title}: die letzten 7 Tage',
  status: 'Status',
  number: 'Anzahl',
  failedCount: '{title}: {count} fehlgeschlagen.',
  showFailures: 'Fehlgeschlagene anzeigen',
  showFailuresOf: 'Fehlgeschlagene anzeigen: {title}',
  internalError: 'Ein interner Fehler ist aufgetreten ({name})',
} as const satisfies TranslationOf<typeof en>;
