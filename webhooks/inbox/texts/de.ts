import type { TranslationOf } from '../../../plugins/admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for integrations. */
export default {
  integrations: 'Integrationen',
  deliveries: 'Empfangene Ereignisse',
  connectChannel: 'Kanal verbinden',
  state: '{name} ({provider}): {problem}.',
  disabled: 'deaktiviert, daher antwortet die URL mit 404',
  unknownChannel: 'kein Modul stellt den Kanal „{channel}“ bereit, daher antwortet die URL mit 404',
  noPublicUrl: 'public_url ist in config.yaml nicht gesetzt, daher können Zustellungen nicht geprüft werden',
  retired: '{resource} ist außer Betrieb, daher werden Zustellungen abgelehnt',
  showIntegration: 'Integration anzeigen',
  showIntegrationNamed: 'Integration {name} anzeigen',
} as const satisfies TranslationOf<typeof en>;
