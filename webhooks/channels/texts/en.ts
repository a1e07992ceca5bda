import type { Catalogue } from '../../../plugins/admin-ui/shell/index.ts';

/** English texts about the secrets of channels. */
export default {
  metaSecret: 'At developers.facebook.com, open your app, then App settings, Basic, App secret.',
  telegramSecret:
    'Choose 1 to 256 characters (letters, digits, _ and -) and pass them to setWebhook as secret_token.',
  leadAdsToken:
    'Used to fetch leads. Create a non-expiring system user token with the leads_retrieval permission for the page.',
  twilioSecret: 'In the Twilio Console, open Account, API keys and tokens, Auth token.',
} as const satisfies Catalogue;
