import { readJson } from '../../engine/records/index.ts';
import { matchesAnySecret } from '../endpoint/index.ts';
import { type Channel, storeMessage } from './channel.ts';
import { asNumber, jsonObject, jsonText, jsonWithNumbers } from './meta.ts';
import { channelsTexts } from './texts/index.ts';

/** Telegram bots. Each delivery has a header with the secret token that was passed to setWebhook. */
export const telegram: Channel = {
  label: 'Telegram',
  secretLabel: 'Secret token',
  secretHelp: channelsTexts.later('telegramSecret'),
  accepts: /^application\/json\b/i,
  bodyLimit: 1024 * 1024,
  reply: { type: 'application/json; charset=utf-8', body: '{"ok":true}' },
  verify: ({ headers }, secret) => {
    const token = headers['x-telegram-bot-api-secret-token'];
    return typeof token === 'string' && matchesAnySecret(token, [secret]);
  },
  events: ({ raw }) => {
    const update = jsonObject(readJson(raw));
    const id = jsonText(update.update_id);
    return id === '' ? [] : [{ id, data: update }];
  },
  process: async ({ id, data }, context) => {
    const { message } = jsonObject(data);
    if (message === undefined) return;
    const { from, chat, text } = jsonObject(message);
    const sender = jsonText(jsonObject(from).id) || jsonText(jsonObject(chat).id);
    await storeMessage(context, { id, from: sender, text: jsonText(text) || '[attachment]' });
  },
  simulation: {
    contentType: 'application/json',
    eventId: ({ id }) => id,
    body: (event) =>
      jsonWithNumbers({
        update_id: asNumber(event.id),
        message: {
          message_id: 1365,
          date: Math.floor(Date.now() / 1000),
          chat: { id: 1111111, type: 'private', first_name: 'Sam' },
          from: { id: 1111111, is_bot: false, first_name: 'Sam', last_name: 'Simulated' },
          text: event.text,
        },
      }),
    sign: (_body, secret) => ({ 'x-telegram-bot-api-secret-token': secret }),
  },
};
