import type { TranslationOf } from '../../../plugins/admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts about outgoing messages. */
export default {
  messageTo: 'Nachricht an {recipient}',
  sent: 'Gesendet',
  delivered: 'Zugestellt',
  read: 'Gelesen',
  failed: 'Fehlgeschlagen',
} as const satisfies TranslationOf<typeof en>;
