import { readJson } from '../../engine/records/index.ts';
import { type Channel, GiveUp } from './channel.ts';
import { followMessage, keepMessage } from './messages.ts';
import { list, meta, object, text } from './meta.ts';

/** WhatsApp Cloud API: incoming messages, and statuses of outgoing ones. */
export const whatsapp: Channel = {
  ...meta,
  label: 'WhatsApp Cloud',
  events: ({ raw }) => {
    const payload = object(readJson(raw));
    if (payload.object !== 'whatsapp_business_account') return [];
    const values = list(payload.entry)
      .flatMap((entry) => list(entry.changes))
      .filter((change) => change.field === 'messages')
      .map((change) => object(change.value));
    return [
      ...values
        .flatMap((value) => list(value.messages))
        .map((message) => ({ id: text(message.id), data: { message } })),
      // The same message has several statuses, each an event of its own.
      ...values
        .flatMap((value) => list(value.statuses))
        .map((status) => ({ id: `${text(status.id)} ${text(status.status)}`, data: { status } })),
    ].filter((event) => event.id.trim() !== '');
  },
  process: async ({ data }, work) => {
    const { message, status } = object(data);
    if (status !== undefined) {
      const { id, status: now } = object(status);
      if (text(id) === '') throw new GiveUp('the event names no message');
      return followMessage(work, { id: text(id), status: text(now).slice(0, 40) });
    }
    const { id, from, type, text: body } = object(message);
    const said = text(object(body).body);
    return keepMessage(work, { id: text(id), from: text(from), text: said || `[${text(type)}]` });
  },
};
