import {
  type Channel,
  messenger as messengerChannel,
  metaLeadAds,
  metaSignature,
  telegram,
  twilio,
  twilioSignature,
  whatsapp,
} from '../channels/index.ts';
import type { Script } from './script.ts';

const json = 'application/json';
/** Returns the size of a large text that, together with its envelope, still fits into a delivery. */
const large = ({ bodyLimit }: Channel) => ({ bytes: Math.floor(bodyLimit * 0.7), isAccepted: true });
const seconds = () => Math.floor(Date.now() / 1000);
const meta = (body: Buffer, secret: string) => ({ 'x-hub-signature-256': metaSignature(secret, body) });
/** Marks digits to be written as a JSON number without rounding. */
const asNumber = (text: string) => `{"bare":${text}}`;
const withBare = (value: object) => JSON.stringify(value).replace(/"\{\\"bare\\":(\d+)\}"/g, '$1');

const messenger = (object: string): Script => ({
  contentType: json,
  large: large(messengerChannel),
  eventId: ({ id }) => `m_SIMULATED${id}`,
  body: ({ id, text }) =>
    JSON.stringify({
      object,
      entry: [
        {
          id: '1780000000000000',
          time: Date.now(),
          messaging: [
            {
              sender: { id: '7250000000000001' },
              recipient: { id: '1780000000000000' },
              timestamp: Date.now(),
              message: { mid: `m_SIMULATED${id}`, text },
            },
          ],
        },
      ],
    }),
  sign: meta,
});

/** Simulated deliveries for each channel, based on the provider's documentation. */
export const channelScripts: Readonly<Record<string, Script>> = {
  whatsapp: {
    contentType: json,
    large: large(whatsapp),
    eventId: ({ id }) => `wamid.SIMULATED${id}`,
    body: ({ id, text }) =>
      JSON.stringify({
        object: 'whatsapp_business_account',
        entry: [
          {
            id: '102290129340398',
            changes: [
              {
                field: 'messages',
                value: {
                  messaging_product: 'whatsapp',
                  metadata: { display_phone_number: '15550100001', phone_number_id: '106540352242922' },
                  contacts: [{ profile: { name: 'Sam Simulated' }, wa_id: '15550100002' }],
                  messages: [
                    {
                      from: '15550100002',
                      id: `wamid.SIMULATED${id}`,
                      timestamp: String(seconds()),
                      type: 'text',
                      text: { body: text },
                    },
                  ],
                },
              },
            ],
          },
        ],
      }),
    sign: meta,
  },
  'meta-lead-ads': {
    contentType: json,
    large: large(metaLeadAds),
    eventId: ({ id }) => id,
    body: ({ id, text }) =>
      withBare({
        object: 'page',
        entry: [
          {
            id: '153125381133',
            time: seconds(),
            changes: [
              {
                field: 'leadgen',
                value: {
                  leadgen_id: asNumber(id),
                  page_id: '153125381133',
                  form_id: '12312312312',
                  ad_id: '67546546546',
                  adgroup_id: '3433434343',
                  created_time: seconds(),
                  // This is not one of Meta's fields. It pads the large delivery.
                  ...(text.length > 1000 && { padding: text }),
                },
              },
            ],
          },
        ],
      }),
    sign: meta,
  },
  messenger: messenger('page'),
  instagram: messenger('instagram'),
  telegram: {
    contentType: json,
    large: large(telegram),
    eventId: ({ id }) => id,
    body: (event) =>
      withBare({
        update_id: asNumber(event.id),
        message: {
          message_id: 1365,
          date: seconds(),
          chat: { id: 1111111, type: 'private', first_name: 'Sam' },
          from: { id: 1111111, is_bot: false, first_name: 'Sam', last_name: 'Simulated' },
          text: event.text,
        },
      }),
    sign: (_body, secret) => ({ 'x-telegram-bot-api-secret-token': secret }),
  },
  twilio: {
    contentType: 'application/x-www-form-urlencoded',
    large: large(twilio),
    eventId: ({ id }) => `SM${id.padStart(32, '0')}`,
    body: (event) =>
      new URLSearchParams({
        ToCountry: 'US',
        MessageSid: `SM${event.id.padStart(32, '0')}`,
        AccountSid: `AC${'0'.repeat(32)}`,
        From: '+15550100002',
        To: '+15550100001',
        Body: event.text,
        NumMedia: '0',
        ProfileName: 'Sam Simulated',
      }).toString(),
    sign: (body, secret, url) => ({
      'x-twilio-signature': twilioSignature(secret, url, new URLSearchParams(body.toString('utf8'))),
    }),
  },
};
