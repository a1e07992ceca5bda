import { createHmac, hash } from 'node:crypto';
import { readJson } from '../../engine/records/index.ts';
import { matchesAnySecret } from '../endpoint/index.ts';
import { withoutSlash } from '../settings/index.ts';
import { type Channel, type ProviderRequest, storeMessage } from './channel.ts';
import { type Json, jsonObject, jsonText } from './meta.ts';
import { channelsTexts } from './texts/index.ts';

/** Maximum number of form parameters. Twilio sends about 30, plus 10 for each attachment. */
const maxParameters = 500;

/** Parses a delivery's form. Returns undefined if it has too many parameters to sort cheaply. */
function formOf({ raw }: ProviderRequest): URLSearchParams | undefined {
  const text = raw.toString('utf8');
  let parameters = 1;
  for (let at = text.indexOf('&'); at !== -1; at = text.indexOf('&', at + 1)) {
    if (++parameters > maxParameters) return undefined;
  }
  return new URLSearchParams(text);
}

/** Returns a delivery's parameters, parsed from a form or from JSON whose digest is part of the signed URL. */
const fieldsOf = (delivery: ProviderRequest): Json =>
  /^application\/json\b/i.test(String(delivery.headers['content-type']))
    ? jsonObject(readJson(delivery.raw))
    : Object.fromEntries(formOf(delivery) ?? []);

/** Concatenates the names and values to sign, sorted by name and then by value, without duplicate pairs. */
function signedFields(fields: URLSearchParams): string {
  const pairs = [...fields].sort(([a, left], [b, right]) => order(a, b) || order(left, right));
  return [...new Set(pairs.map(([name, value]) => JSON.stringify([name, value])))]
    .map((pair) => (JSON.parse(pair) as string[]).join(''))
    .join('');
}
const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Computes the `X-Twilio-Signature` header for a URL and the form sent to it. */
const twilioSignature = (secret: string, url: string, fields?: URLSearchParams): string =>
  createHmac('sha1', secret)
    .update(url + (fields === undefined ? '' : signedFields(fields)), 'utf8')
    .digest('base64');

/** Twilio SMS and WhatsApp. The public URL and the sorted form are signed with the auth token. */
export const twilio: Channel = {
  label: 'Twilio',
  secretLabel: 'Auth token',
  secretHelp: channelsTexts.later('twilioSecret'),
  senders: 'phone',
  signsUrl: true,
  accepts: /^application\/(x-www-form-urlencoded|json)\b/i,
  bodyLimit: 256 * 1024,
  reply: { type: 'text/xml; charset=utf-8', body: '<Response/>' },
  verify: (delivery, secret, publicUrl) => {
    const signature = delivery.headers['x-twilio-signature'];
    if (typeof signature !== 'string' || publicUrl === '') return false;
    const url = `${withoutSlash(publicUrl)}${delivery.url}`;
    if (!URL.canParse(url)) return false;
    const digest = new URL(url).searchParams.get('bodySHA256');
    if (digest !== null) {
      const isDigestValid = matchesAnySecret(digest.toLowerCase(), [hash('sha256', delivery.raw, 'hex')]);
      return isDigestValid && matchesAnySecret(signature, [twilioSignature(secret, url)]);
    }
    const fields = formOf(delivery);
    return fields !== undefined && matchesAnySecret(signature, [twilioSignature(secret, url, fields)]);
  },
  events: (delivery) => {
    const data = fieldsOf(delivery);
    const id = jsonText(data.MessageSid);
    return id === '' ? [] : [{ id, data }];
  },
  process: async ({ id, data }, context) => {
    const { From, Body, NumMedia } = jsonObject(data);
    const text = jsonText(Body) || (jsonText(NumMedia) > '0' ? '[attachment]' : '');
    await storeMessage(context, { id, from: jsonText(From), text });
  },
  simulation: {
    contentType: 'application/x-www-form-urlencoded',
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
