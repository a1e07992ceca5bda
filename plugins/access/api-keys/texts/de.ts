import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for API keys. */
export default {
  apiKeys: 'API-Schlüssel',
  createKey: 'API-Schlüssel anlegen',
  keysExpire: {
    one: '{count} API-Schlüssel läuft innerhalb von zwei Wochen ab.',
    other: '{count} API-Schlüssel laufen innerhalb von zwei Wochen ab.',
  },
  showKeys: 'Schlüssel anzeigen',
  keyExpires: 'Der API-Schlüssel {key} läuft am {time} ab.',
  rotate: 'Rotieren',
  rotateKey: '{name} rotieren',
} as const satisfies TranslationOf<typeof en>;
