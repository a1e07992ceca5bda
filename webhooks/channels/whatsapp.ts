import { readJson } from '../../engine/records/index.ts';
import { type Channel, followMessage, PermanentError, storeMessage } from './channel.ts';
import { jsonList, jsonObject, jsonText, meta, metaSimulation } from './meta.ts';

/** WhatsApp Cloud API: incoming messages, and status updates for outgoing messages. */
export const whatsapp: Channel = {
  ...meta,
  label: 'WhatsApp Cloud',
  senders: 'phone',
  events: ({ raw }) => {
    const payload = jsonObject(readJson(raw));
    if (payload.object !== 'whatsapp_business_account') return [];
    const values = jsonList(payload.entry)
      .flatMap((entry) => jsonList(entry.changes))
      .filter((change) => change.field === 'messages')
      .map((change) => jsonObject(change.value));
    return [
      ...values
        .flatMap((value) => jsonList(value.messages))
        .map((message) => ({ id: jsonText(message.id), data: { message } })),
      // A message goes through several statuses. Each change is a separate event.
      ...values
        .flatMap((value) => jsonList(value.statuses))
        .map((status) => ({ id: `${jsonText(status.id)} ${jsonText(status.status)}`, data: { status } })),
    ].filter((event) => event.id.trim() !== '');
  },
  process: async ({ data }, context) => {
    const { message, status } = jsonObject(data);
    if (status !== undefined) {
      const { id, status: newStatus } = jsonObject(status);
      if (jsonText(id) === '') throw new PermanentError('the event does not contain a message ID');
      return followMessage(context, { id: jsonText(id), status: jsonText(newStatus).slice(0, 40) });
    }
    const { id, from, type, text: body } = jsonObject(message);
    const text = jsonText(jsonObject(body).body);
    return storeMessage(context, {
      id: jsonText(id),
      from: jsonText(from),
      text: text || `[${jsonText(type)}]`,
    });
  },
  simulation: {
    ...metaSimulation,
    eventId: ({ id }) => `wamid.SIMULATED${id}`,
    body: ({ id, text }) =>
      JSON.stringify({
        object: 'whatsapp_business_account',
        entry: [
          {
            id: '102290129340398',
            changes: [
              {
                field: 'messages',
                value: {
                  messaging_product: 'whatsapp',
                  metadata: { display_phone_number: '15550100001', phone_number_id: '106540352242922' },
                  contacts: [{ profile: { name: 'Sam Simulated' }, wa_id: '15550100002' }],
                  messages: [
                    {
                      from: '15550100002',
                      id: `wamid.SIMULATED${id}`,
                      timestamp: String(Math.floor(Date.now() / 1000)),
                      type: 'text',
                      text: { body: text },
                    },
                  ],
                },
              },
            ],
          },
        ],
      }),
  },
};
