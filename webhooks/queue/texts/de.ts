import type { TranslationOf } from '../../../plugins/admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for deliveries. */
export default {
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
} as const satisfies TranslationOf<typeof en>;
