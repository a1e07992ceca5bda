import { readJson } from '../../engine/records/index.ts';
import type { Channel } from './channel.ts';
import { storeMessage } from './messages.ts';
import { jsonObject, jsonText, messagingEvents, meta } from './meta.ts';

/** Creates a Meta channel whose messages are delivered as `messaging` events. */
const messagingChannel = (label: string, kind: string): Channel => ({
  ...meta,
  label,
  events: ({ raw }) => messagingEvents(jsonObject(readJson(raw)), kind),
  process: ({ id, data }, context) => {
    const { sender, message } = jsonObject(data);
    const from = jsonText(jsonObject(sender).id);
    return storeMessage(context, { id, from, text: jsonText(jsonObject(message).text) || '[attachment]' });
  },
});

export const messenger = messagingChannel('Messenger', 'page');
export const instagram = messagingChannel('Instagram', 'instagram');
