// Channels: deliveries of each provider, made and signed as they do it.
import { type Added, metaSignature, twilioSignature } from './partners.ts';

/** The address at which providers reach the instance; Twilio signs it. */
export const publicUrl = 'https://crm.example';

/** What a provider sends, and what it wants to hear. */
export interface Sends {
  readonly provider: string;
  readonly type: string;
  /** Bytes of a delivery that is taken, and of one that is not. */
  readonly sizes: readonly [taken: number, refused: number];
  readonly handshake: boolean;
  /** A delivery of one event; a message where the provider has messages. */
  readonly body: (id: string, said?: string) => string;
  readonly headers: (added: Pick<Added, 'secret' | 'path'>, raw: string) => Record<string, string>;
  readonly reply: { readonly type: RegExp; readonly body: string };
  /** Under which id the event is known. */
  readonly eventId: (id: string) => string;
  /** Who says something, where the provider has messages. */
  readonly from?: string;
}

const json = 'application/json';
const meta = {
  type: json,
  sizes: [3_000_000, 4 * 1024 * 1024],
  handshake: true,
  headers: ({ secret }: Pick<Added, 'secret'>, raw: string) => ({
    'x-hub-signature-256': metaSignature(secret, raw),
  }),
  reply: { type: /^text\/plain/, body: 'EVENT_RECEIVED' },
  eventId: (id: string) => id,
} as const;
const messaging = (object: string, id: string, said: string) =>
  JSON.stringify({
    object,
    entry: [
      {
        id: '17',
        time: 1767225600,
        messaging: [
          {
            sender: { id: '7001' },
            recipient: { id: '17' },
            timestamp: 1767225600000,
            message: { mid: id, text: said },
          },
        ],
      },
    ],
  });

/** What WhatsApp sends of messages and statuses. */
export const whatsappBody = (value: object): string =>
  JSON.stringify({
    object: 'whatsapp_business_account',
    entry: [
      { id: '1', changes: [{ field: 'messages', value: { metadata: { phone_number_id: '1' }, ...value } }] },
    ],
  });

/** What Lead Ads sends; ids as JSON texts, so that a number may be any. */
export const leadgenBody = (...values: { leadgen: string; form?: string; ad?: string }[]): string =>
  `{"object":"page","entry":[{"id":"9","time":1767225600,"changes":[${values
    .map(
      ({ leadgen, form = '"501"', ad = '"601"' }) =>
        `{"field":"leadgen","value":{"leadgen_id":${leadgen},"page_id":"9","form_id":${form},"ad_id":${ad},"created_time":1767225600}}`,
    )
    .join(',')}]}]}`;

/** A form as Twilio sends it. */
export const twilioForm = (id: string, said: string): Record<string, string> => ({
  MessageSid: id,
  SmsMessageSid: id,
  AccountSid: 'AC1',
  From: '+15550107001',
  To: '+15550100017',
  Body: said,
  NumMedia: '0',
});

/** Every provider. Ids of Lead Ads and Telegram are numbers: give digits. */
export const providers: readonly Sends[] = [
  {
    ...meta,
    provider: 'whatsapp',
    body: (id, said = 'Hello') =>
      whatsappBody({
        contacts: [{ profile: { name: 'Ann' }, wa_id: '15550107001' }],
        messages: [{ from: '15550107001', id, timestamp: '1767225600', type: 'text', text: { body: said } }],
      }),
    from: '15550107001',
  },
  {
    ...meta,
    provider: 'meta-lead-ads',
    // Lead Ads says nothing; what a test wants to be large is put beside it.
    body: (id, said = '') => leadgenBody({ leadgen: `"${id}"`, form: JSON.stringify(said) }),
  },
  { ...meta, provider: 'messenger', body: (id, said = 'Hello') => messaging('page', id, said), from: '7001' },
  {
    ...meta,
    provider: 'instagram',
    body: (id, said = 'Hello') => messaging('instagram', id, said),
    from: '7001',
  },
  {
    provider: 'telegram',
    type: json,
    sizes: [1_000_000, 1024 * 1024],
    handshake: false,
    body: (id, said = 'Hello') =>
      `{"update_id":${id},"message":{"message_id":5,"from":{"id":7001,"first_name":"Ann"},"chat":{"id":7001},"date":1767225600,"text":${JSON.stringify(said)}}}`,
    headers: ({ secret }) => ({ 'x-telegram-bot-api-secret-token': secret }),
    reply: { type: /^application\/json/, body: '{"ok":true}' },
    eventId: (id) => id,
    from: '7001',
  },
  {
    provider: 'twilio',
    type: 'application/x-www-form-urlencoded',
    sizes: [250_000, 256 * 1024],
    handshake: false,
    body: (id, said = 'Hello') => new URLSearchParams(twilioForm(id, said)).toString(),
    headers: ({ secret, path }, raw) => ({
      'x-twilio-signature': twilioSignature(
        secret,
        `${publicUrl}${path}`,
        Object.fromEntries(new URLSearchParams(raw)),
      ),
    }),
    reply: { type: /^text\/xml/, body: '<Response/>' },
    eventId: (id) => id,
    from: '+15550107001',
  },
];
