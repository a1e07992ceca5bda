// Deliveries from the provider of each channel, with valid signatures.
import { type Added, metaSignature, twilioSignature } from './partners.ts';

/** Public origin of the instance, which is part of Twilio's signature. */
export const publicUrl = 'https://crm.example';

/** A provider's deliveries and the expected responses. */
export interface Sends {
  readonly provider: string;
  readonly type: string;
  /** Sizes of an accepted delivery and a rejected delivery, in bytes. */
  readonly sizes: readonly [accepted: number, rejected: number];
  readonly handshake: boolean;
  /** Returns a delivery with one event, which contains a message if the provider supports messages. */
  readonly body: (id: string, text?: string) => string;
  readonly headers: (added: Pick<Added, 'secret' | 'path'>, raw: string) => Record<string, string>;
  readonly reply: { readonly type: RegExp; readonly body: string };
  /** Returns the ID under which the event is stored. */
  readonly eventId: (id: string) => string;
  /** Sender of the message, if the provider supports messages. */
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
const messaging = (object: string, id: string, text: string) =>
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
            message: { mid: id, text },
          },
        ],
      },
    ],
  });

/** Returns a WhatsApp delivery with messages or statuses. */
export const whatsappBody = (value: object): string =>
  JSON.stringify({
    object: 'whatsapp_business_account',
    entry: [
      { id: '1', changes: [{ field: 'messages', value: { metadata: { phone_number_id: '1' }, ...value } }] },
    ],
  });

/** Returns a Lead Ads delivery. IDs are passed as JSON, so that integers of any size are possible. */
export const leadgenBody = (...values: { leadgen: string; form?: string; ad?: string }[]): string =>
  `{"object":"page","entry":[{"id":"9","time":1767225600,"changes":[${values
    .map(
      ({ leadgen, form = '"501"', ad = '"601"' }) =>
        `{"field":"leadgen","value":{"leadgen_id":${leadgen},"page_id":"9","form_id":${form},"ad_id":${ad},"created_time":1767225600}}`,
    )
    .join(',')}]}]}`;

/** Returns a Twilio form. */
export const twilioForm = (id: string, text: string): Record<string, string> => ({
  MessageSid: id,
  SmsMessageSid: id,
  AccountSid: 'AC1',
  From: '+15550107001',
  To: '+15550100017',
  Body: text,
  NumMedia: '0',
});

/** All providers. Event IDs must consist of digits, because Lead Ads and Telegram use integers. */
export const providers: readonly Sends[] = [
  {
    ...meta,
    provider: 'whatsapp',
    body: (id, text = 'Hello') =>
      whatsappBody({
        contacts: [{ profile: { name: 'Ann' }, wa_id: '15550107001' }],
        messages: [{ from: '15550107001', id, timestamp: '1767225600', type: 'text', text: { body: text } }],
      }),
    from: '15550107001',
  },
  {
    ...meta,
    provider: 'meta-lead-ads',
    // Lead Ads does not have messages, so the text becomes the form's ID.
    body: (id, text = '') => leadgenBody({ leadgen: `"${id}"`, form: JSON.stringify(text) }),
  },
  { ...meta, provider: 'messenger', body: (id, text = 'Hello') => messaging('page', id, text), from: '7001' },
  {
    ...meta,
    provider: 'instagram',
    body: (id, text = 'Hello') => messaging('instagram', id, text),
    from: '7001',
  },
  {
    provider: 'telegram',
    type: json,
    sizes: [1_000_000, 1024 * 1024],
    handshake: false,
    body: (id, text = 'Hello') =>
      `{"update_id":${id},"message":{"message_id":5,"from":{"id":7001,"first_name":"Ann"},"chat":{"id":7001},"date":1767225600,"text":${JSON.stringify(text)}}}`,
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
    body: (id, text = 'Hello') => new URLSearchParams(twilioForm(id, text)).toString(),
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
