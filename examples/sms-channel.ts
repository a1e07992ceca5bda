// Adds the channel "sms" for a fictional SMS gateway: it receives messages and delivery reports, and sends messages.
import { createHmac } from 'node:crypto';
import {
  defineModule,
  followMessage,
  matchesAnySecret,
  PermanentError,
  RetryableError,
  readBody,
  storeMessage,
} from 'crm-engine';

/** A message in a delivery of the gateway: `{ "messages": [ … ], "reports": [ … ] }`. */
interface GatewayMessage {
  readonly id: string;
  readonly from: string;
  readonly text: string;
}

/** A delivery report: the status of a message that was sent through the gateway. */
interface GatewayReport {
  readonly id: string;
  readonly status: 'delivered' | 'failed';
}

type GatewayEvent = { readonly message: GatewayMessage } | { readonly report: GatewayReport };

/** Returns the valid entries of a list in a delivery: objects whose `id` is a text. */
const entriesOf = <Entry extends { readonly id: string }>(list: unknown): readonly Entry[] =>
  Array.isArray(list)
    ? list.filter((entry): entry is Entry => typeof entry?.id === 'string' && entry.id !== '')
    : [];

const signature = (secret: string, body: Buffer): string =>
  createHmac('sha256', secret).update(body).digest('hex');

export default defineModule({
  name: 'sms-channel',
  settings: (section) => {
    const { url } = section as { url?: unknown };
    if (typeof url !== 'string' || !URL.canParse(url)) throw new Error('url must be the URL of the gateway');
    return { url: url.replace(/\/$/, '') };
  },
  channels: {
    sms: {
      label: 'SMS gateway',
      secretLabel: 'Signing key',
      secretHelp: 'In the console of the gateway, open Webhooks, Signing key.',
      tokenLabel: 'API token',
      tokenHelp: 'Used to send messages. In the console of the gateway, open API tokens.',
      senders: 'phone',
      accepts: /^application\/json\b/i,
      bodyLimit: 1024 * 1024,
      reply: { type: 'application/json', body: '{"ok":true}' },
      verify: ({ headers, raw }, secret) => {
        const header = headers['x-gateway-signature'];
        return typeof header === 'string' && matchesAnySecret(header, [signature(secret, raw)]);
      },
      events: ({ headers, raw }) => {
        const { messages, reports } = readBody(String(headers['content-type']), raw);
        return [
          ...entriesOf<GatewayMessage>(messages).map((message) => ({ id: message.id, data: { message } })),
          // The statuses of a message are different events.
          ...entriesOf<GatewayReport>(reports).map((report) => ({
            id: `${report.id} ${report.status}`,
            data: { report },
          })),
        ];
      },
      process: async ({ data }, context) => {
        const event = data as GatewayEvent;
        if ('report' in event) return followMessage(context, event.report);
        const { id, from, text } = event.message;
        if (typeof from !== 'string' || typeof text !== 'string')
          throw new PermanentError('the message has no sender or text');
        return storeMessage(context, { id, from, text });
      },
      send: async ({ to, text }, { integration, moduleSettings, signal }) => {
        if (!/^\+\d{6,15}$/.test(to))
          throw new PermanentError('the recipient is not a phone number in international format');
        const response = await fetch(`${moduleSettings().url}/messages`, {
          method: 'POST',
          headers: { authorization: `Bearer ${integration.token}`, 'content-type': 'application/json' },
          body: JSON.stringify({ to, text }),
          signal,
        }).catch((cause: unknown) => {
          throw new RetryableError('the gateway cannot be reached', { cause });
        });
        if (!response.ok) throw new RetryableError(`the gateway responded with ${response.status}`);
        const { id } = (await response.json()) as { readonly id: string };
        return id;
      },
      simulation: {
        contentType: 'application/json',
        eventId: ({ id }) => `sms-${id}`,
        body: ({ id, text }) =>
          JSON.stringify({ messages: [{ id: `sms-${id}`, from: '+15550100002', text }] }),
        sign: (body, secret) => ({ 'x-gateway-signature': signature(secret, body) }),
      },
    },
  },
});
