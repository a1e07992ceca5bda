import { createHmac, hash } from 'node:crypto';
import { isOneOf } from '../secrets.ts';
import type { Channel, Delivery } from './channel.ts';
import { keepMessage } from './messages.ts';
import { object, text } from './meta.ts';

const form = ({ raw }: Delivery) => new URLSearchParams(raw.toString('utf8'));

/** Twilio SMS and WhatsApp: a signature of the public address with the sorted form, by the auth token. */
export const twilio: Channel = {
  label: 'Twilio',
  secretLabel: 'Auth token',
  handshake: false,
  accepts: /^application\/(x-www-form-urlencoded|json)\b/i,
  reply: { type: 'text/xml; charset=utf-8', body: '<Response/>' },
  verify: (delivery, secret, publicUrl) => {
    const given = delivery.headers['x-twilio-signature'];
    if (typeof given !== 'string' || publicUrl === '') return false;
    const url = `${publicUrl.replace(/\/$/, '')}${delivery.url}`;
    if (!URL.canParse(url)) return false;
    const bodySha = new URL(url).searchParams.get('bodySHA256');
    if (bodySha !== null && !isOneOf(bodySha.toLowerCase(), [hash('sha256', delivery.raw, 'hex')]))
      return false;
    const fields = bodySha === null ? [...form(delivery)] : [];
    const sorted = fields.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([key, value]) => key + value);
    const expected = createHmac('sha1', secret)
      .update(url + sorted.join(''), 'utf8')
      .digest('base64');
    return isOneOf(given, [expected]);
  },
  events: (delivery) => {
    const fields = form(delivery);
    const id = text(fields.get('MessageSid'));
    return id === '' ? [] : [{ id, data: Object.fromEntries(fields) }];
  },
  process: async ({ id, data }, work) => {
    const { From, Body, NumMedia } = object(data);
    const said = text(Body) || (text(NumMedia) > '0' ? '[attachment]' : '');
    await keepMessage(work, { id, from: text(From), text: said });
  },
};
