import type { TranslationOf } from '../../../plugins/admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts about the secrets of channels. */
export default {
  metaSecret: 'Öffnen Sie auf developers.facebook.com Ihre App und dort App settings, Basic, App secret.',
  telegramSecret:
    'Wählen Sie 1 bis 256 Zeichen (Buchstaben, Ziffern, _ und -) und übergeben Sie sie setWebhook als secret_token.',
  leadAdsToken:
    'Damit werden Leads abgerufen. Erstellen Sie für die Seite ein unbefristetes Systembenutzer-Token mit der Berechtigung leads_retrieval.',
  twilioSecret: 'Öffnen Sie in der Twilio Console Account, API keys and tokens, Auth token.',
} as const satisfies TranslationOf<typeof en>;
