import { readJson } from '../../engine/records/index.ts';
import type { Channel } from './channel.ts';
import { keepMessage } from './messages.ts';
import { messagingEvents, meta, object, text } from './meta.ts';

/** A channel of Meta that delivers messages as `messaging` events. */
const messagingChannel = (label: string, kind: string): Channel => ({
  ...meta,
  label,
  events: ({ raw }) => messagingEvents(object(readJson(raw)), kind),
  process: ({ id, data }, work) => {
    const { sender, message } = object(data);
    const from = text(object(sender).id);
    return keepMessage(work, { id, from, text: text(object(message).text) || '[attachment]' });
  },
});

export const messenger = messagingChannel('Messenger', 'page');
export const instagram = messagingChannel('Instagram', 'instagram');
