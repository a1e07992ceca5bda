import { readJson } from '../../engine/records/index.ts';
import { matchesAnySecret } from '../endpoint/index.ts';
import type { Channel } from './channel.ts';
import { storeMessage } from './channel.ts';
import { jsonObject, jsonText } from './meta.ts';

/** Messages by carrier pigeon. A header contains the secret. */
export const pigeon: Channel = {
  label: 'Carrier pigeon',
  secretLabel: 'Ring',
  secretHelp: 'Engraved on the ring on its leg.',
  accepts: /^application\/json\b/i,
  bodyLimit: 1024,
  reply: { type: 'application/json; charset=utf-8', body: '{}' },
  verify: ({ headers: { ring } }, secret) => typeof ring === 'string' && matchesAnySecret(ring, [secret]),
  events: ({ raw }) => {
    const data = jsonObject(readJson(raw));
    const id = jsonText(data.id);
    return id === '' ? [] : [{ id, data }];
  },
  process: ({ id, data }, context) =>
    storeMessage(context, { id, from: 'pigeon', text: jsonText(jsonObject(data).text) }),
  simulation: {
    contentType: 'application/json',
    eventId: ({ id }) => id,
    body: (event) => JSON.stringify(event),
    sign: (_body, secret) => ({ ring: secret }),
  },
};
