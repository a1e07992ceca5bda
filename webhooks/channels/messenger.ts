import { readJson } from '../../engine/records/index.ts';
import { type Channel, storeMessage } from './channel.ts';
import { jsonObject, jsonText, messagingEvents, meta, metaSimulation } from './meta.ts';

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
  simulation: {
    ...metaSimulation,
    eventId: ({ id }) => `m_SIMULATED${id}`,
    body: ({ id, text }) =>
      JSON.stringify({
        object: kind,
        entry: [
          {
            id: '1780000000000000',
            time: Date.now(),
            messaging: [
              {
                sender: { id: '7250000000000001' },
                recipient: { id: '1780000000000000' },
                timestamp: Date.now(),
                message: { mid: `m_SIMULATED${id}`, text },
              },
            ],
          },
        ],
      }),
  },
});

export const messenger = messagingChannel('Messenger', 'page');
export const instagram = messagingChannel('Instagram', 'instagram');
