import { createHmac } from 'node:crypto';
import { matchesAnySecret } from '../endpoint/index.ts';
import type { Channel, ChannelEvent, Delivery } from './channel.ts';

/** X-Hub-Signature-256 of a body. */
export const metaSignature = (secret: string, raw: Buffer): string =>
  `sha256=${createHmac('sha256', secret).update(raw).digest('hex')}`;

/** Common to all webhooks of Meta: the handshake, and a signature of the raw body with the app secret. */
export const meta = {
  secretLabel: 'App secret',
  secretHelp: 'At developers.facebook.com: your app, App settings, Basic, App secret.',
  handshake: true,
  accepts: /^application\/json\b/i,
  // Meta documents up to 3 MB and a thousand events in one delivery.
  bodyLimit: 4 * 1024 * 1024,
  reply: { type: 'text/plain; charset=utf-8', body: 'EVENT_RECEIVED' },
  verify: ({ headers, raw }: Delivery, secret: string): boolean => {
    const given = headers['x-hub-signature-256'];
    return typeof given === 'string' && matchesAnySecret(given.toLowerCase(), [metaSignature(secret, raw)]);
  },
} as const satisfies Partial<Channel>;

/** A JSON value as a list of objects; anything else is left out. */
export type Json = Readonly<Record<string, unknown>>;
export const jsonObject = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
export const jsonList = (value: unknown): readonly Json[] =>
  Array.isArray(value) ? value.map(jsonObject) : [];
/** A text, or a number as it was written (an exact one also after it was stored as JSON); `''` for anything else. */
export function jsonText(value: unknown): string {
  if (typeof value === 'number') return String(value);
  const written = typeof value === 'string' ? value : jsonObject(value).source;
  return typeof written === 'string' ? written.toWellFormed().replaceAll('\0', '') : '';
}

/** The `messaging` events of Messenger and Instagram: messages that people sent, not echoes of ours. */
export function messagingEvents(payload: Json, kind: string): ChannelEvent[] {
  if (payload.object !== kind) return [];
  return jsonList(payload.entry)
    .flatMap((entry) => jsonList(entry.messaging))
    .filter((event) => jsonObject(event.message).is_echo !== true)
    .map((event) => ({ id: jsonText(jsonObject(event.message).mid), data: event }))
    .filter((event) => event.id !== '');
}
