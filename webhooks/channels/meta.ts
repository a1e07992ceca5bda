import { createHmac } from 'node:crypto';
import { ExactNumber } from '../../engine/fields/index.ts';
import { matchesAnySecret } from '../endpoint/index.ts';
import type { Channel, ChannelEvent, ProviderRequest } from './channel.ts';
import { channelsTexts } from './texts/index.ts';

/** Computes the `X-Hub-Signature-256` header for a body. */
const metaSignature = (secret: string, raw: Buffer): string =>
  `sha256=${createHmac('sha256', secret).update(raw).digest('hex')}`;

/** Properties shared by all Meta webhooks: the handshake, and a signature of the raw body with the app secret. */
export const meta = {
  secretLabel: 'App secret',
  secretHelp: channelsTexts.later('metaSecret'),
  handshake: true,
  accepts: /^application\/json\b/i,
  // Meta documents up to 3 MB and 1,000 events per delivery.
  bodyLimit: 4 * 1024 * 1024,
  reply: { type: 'text/plain; charset=utf-8', body: 'EVENT_RECEIVED' },
  verify: ({ headers, raw }: ProviderRequest, secret: string): boolean => {
    const signature = headers['x-hub-signature-256'];
    return (
      typeof signature === 'string' && matchesAnySecret(signature.toLowerCase(), [metaSignature(secret, raw)])
    );
  },
} as const satisfies Partial<Channel>;

/** Properties shared by simulated deliveries for all Meta webhooks. */
export const metaSimulation = {
  contentType: 'application/json',
  sign: (body: Buffer, secret: string) => ({ 'x-hub-signature-256': metaSignature(secret, body) }),
} as const;

/** Wraps digits so that {@link jsonWithNumbers} writes them as a JSON number without rounding. */
export const asNumber = (digits: string) => `{"bare":${digits}}`;
export const jsonWithNumbers = (value: object): string =>
  JSON.stringify(value).replace(/"\{\\"bare\\":(\d+)\}"/g, '$1');

/** A JSON object. */
export type Json = Readonly<Record<string, unknown>>;
export const jsonObject = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
export const jsonList = (value: unknown): readonly Json[] =>
  Array.isArray(value) ? value.map(jsonObject) : [];
/** Returns a string or number as a string, as it was sent. Returns an empty string for anything else. */
export function jsonText(value: unknown): string {
  if (typeof value === 'number') return String(value);
  const text = value instanceof ExactNumber ? value.source : value;
  return typeof text === 'string' ? text.toWellFormed().replaceAll('\0', '') : '';
}

/** Returns the `messaging` events in a Messenger or Instagram payload, without echoes of outgoing messages. */
export function messagingEvents(payload: Json, kind: string): ChannelEvent[] {
  if (payload.object !== kind) return [];
  return jsonList(payload.entry)
    .flatMap((entry) => jsonList(entry.messaging))
    .filter((event) => jsonObject(event.message).is_echo !== true)
    .map((event) => ({ id: jsonText(jsonObject(event.message).mid), data: event }))
    .filter((event) => event.id !== '');
}
