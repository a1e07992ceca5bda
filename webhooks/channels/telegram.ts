import { readJson } from '../../engine/records/index.ts';
import { isOneOf } from '../endpoint/index.ts';
import type { Channel } from './channel.ts';
import { keepMessage } from './messages.ts';
import { object, text } from './meta.ts';

/** Telegram bots: a header carries the secret that was given to setWebhook. */
export const telegram: Channel = {
  label: 'Telegram',
  secretLabel: 'Secret token given to setWebhook',
  secretHelp: 'Choose one of 1 to 256 letters, digits, _ and -, and give it to setWebhook as secret_token.',
  handshake: false,
  accepts: /^application\/json\b/i,
  bodyLimit: 1024 * 1024,
  reply: { type: 'application/json; charset=utf-8', body: '{"ok":true}' },
  verify: ({ headers }, secret) => {
    const given = headers['x-telegram-bot-api-secret-token'];
    return typeof given === 'string' && isOneOf(given, [secret]);
  },
  events: ({ raw }) => {
    const update = object(readJson(raw));
    const id = text(update.update_id);
    return id === '' ? [] : [{ id, data: update }];
  },
  process: async ({ id, data }, work) => {
    const { message } = object(data);
    if (message === undefined) return;
    const { from, chat, text: said } = object(message);
    const sender = text(object(from).id) || text(object(chat).id);
    await keepMessage(work, { id, from: sender, text: text(said) || '[attachment]' });
  },
};
