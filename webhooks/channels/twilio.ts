import { createHmac, hash } from 'node:crypto';
import { readJson } from '../../engine/records/index.ts';
import { matchesAnySecret } from '../endpoint/index.ts';
import { withoutSlash } from '../settings/index.ts';
import type { Channel, Delivery } from './channel.ts';
import { storeMessage } from './messages.ts';
import { type Json, jsonObject, jsonText } from './meta.ts';

/** Parameters of a form; Twilio sends about thirty, and ten for each file that came with a message. */
const maxParameters = 500;

/** A delivery's form; undefined if it has more parameters than Twilio sends, because sorting them is expensive. */
function formOf({ raw }: Delivery): URLSearchParams | undefined {
  const text = raw.toString('utf8');
  let parameters = 1;
  for (let at = text.indexOf('&'); at !== -1; at = text.indexOf('&', at + 1)) {
    if (++parameters > maxParameters) return undefined;
  }
  return new URLSearchParams(text);
}

/** The parameters of a delivery: a form, or JSON whose digest is in the signed address. */
const fieldsOf = (delivery: Delivery): Json =>
  /^application\/json\b/i.test(String(delivery.headers['content-type']))
    ? jsonObject(readJson(delivery.raw))
    : Object.fromEntries(formOf(delivery) ?? []);

/** Names and values as they are signed: by name, then by value, each pair once. */
function signedFields(fields: URLSearchParams): string {
  const pairs = [...fields].sort(([a, left], [b, right]) => order(a, b) || order(left, right));
  return [...new Set(pairs.map(([name, value]) => JSON.stringify([name, value])))]
    .map((pair) => (JSON.parse(pair) as string[]).join(''))
    .join('');
}
const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** X-Twilio-Signature of an address, and of the form sent to it. */
export const twilioSignature = (secret: string, url: string, fields?: URLSearchParams): string =>
  createHmac('sha1', secret)
    .update(url + (fields === undefined ? '' : signedFields(fields)), 'utf8')
    .digest('base64');

/** Twilio SMS and WhatsApp: a signature of the public address with the sorted form, by the auth token. */
export const twilio: Channel = {
  label: 'Twilio',
  secretLabel: 'Auth token',
  secretHelp: 'In the Twilio Console: Account, API keys and tokens, Auth token.',
  handshake: false,
  accepts: /^application\/(x-www-form-urlencoded|json)\b/i,
  bodyLimit: 256 * 1024,
  reply: { type: 'text/xml; charset=utf-8', body: '<Response/>' },
  verify: (delivery, secret, publicUrl) => {
    const given = delivery.headers['x-twilio-signature'];
    if (typeof given !== 'string' || publicUrl === '') return false;
    const url = `${withoutSlash(publicUrl)}${delivery.url}`;
    if (!URL.canParse(url)) return false;
    const digest = new URL(url).searchParams.get('bodySHA256');
    if (digest !== null) {
      const right = matchesAnySecret(digest.toLowerCase(), [hash('sha256', delivery.raw, 'hex')]);
      return right && matchesAnySecret(given, [twilioSignature(secret, url)]);
    }
    const fields = formOf(delivery);
    return fields !== undefined && matchesAnySecret(given, [twilioSignature(secret, url, fields)]);
  },
  events: (delivery) => {
    const data = fieldsOf(delivery);
    const id = jsonText(data.MessageSid);
    return id === '' ? [] : [{ id, data }];
  },
  process: async ({ id, data }, work) => {
    const { From, Body, NumMedia } = jsonObject(data);
    const said = jsonText(Body) || (jsonText(NumMedia) > '0' ? '[attachment]' : '');
    await storeMessage(work, { id, from: jsonText(From), text: said });
  },
};
