import type { TranslationOf } from '../../../plugins/admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the page about partner endpoints. */
export default {
  partners: 'Partner',
  showPartners: 'Partner anzeigen',
  invalidSettings:
    'Die letzte Änderung an config.yaml ist ungültig, daher gelten weiterhin die vorherigen Einstellungen: {problem}',
  misconfigured: '{name} ist falsch konfiguriert: {problem}.',
} as const satisfies TranslationOf<typeof en>;
