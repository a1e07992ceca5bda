import type { Resource } from '../../engine/compile/index.ts';
import {
  type DisplayValue,
  ownWords,
  type TextIn,
  type TimelineSource,
} from '../../plugins/admin-ui/shell/index.ts';
import { contactReaders, findMessages } from '../endpoint/index.ts';
import { senderTexts } from './texts/index.ts';

const { later } = senderTexts;

/** The states of messages. Providers can report others. */
const states: Readonly<Record<string, { readonly text: TextIn; readonly state: DisplayValue['state'] }>> = {
  sent: { text: later('sent'), state: 'quiet' },
  delivered: { text: later('delivered'), state: 'good' },
  read: { text: later('read'), state: 'good' },
  failed: { text: later('failed'), state: 'bad' },
};

/** Returns the messages sent to the person of a record as entries of its timeline. */
export function sentMessages(resources: readonly Resource[]): TimelineSource {
  const isReader = contactReaders(resources);
  return {
    name: 'sent-messages',
    read: async (request) => {
      if (!isReader(request)) return [];
      const { language } = request;
      const t = senderTexts(language);
      const messages = await findMessages(request, {
        from: 'crm_messages m',
        party: 'm.recipient',
        at: 'm.created_at',
        columns: { status: 'm.status' },
      });
      return messages.map(({ id, at, contact, text, status }) => {
        const { text: label = () => ownWords(status), state = 'quiet' } =
          (Object.hasOwn(states, status) ? states[status] : undefined) ?? {};
        return {
          ...{ id, at },
          icon: 'send',
          text: t('messageTo', { recipient: contact }),
          badge: { text: label(language), state },
          note: text,
        };
      });
    },
  };
}
