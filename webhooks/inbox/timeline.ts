import type { Resource } from '../../engine/compile/index.ts';
import { literal } from '../../engine/sql/index.ts';
import type { TimelineSource } from '../../plugins/admin-ui/shell/index.ts';
import type { Channels } from '../channels/index.ts';
import { contactKind, contactReaders, findMessages } from '../endpoint/index.ts';
import { inboxTexts } from './texts/index.ts';

/** Returns the messages received from the person of a record as entries of its timeline. */
export function receivedMessages(channels: Channels, resources: readonly Resource[]): TimelineSource {
  const kinds = Object.entries(channels).flatMap(([name, { senders }]) =>
    senders === undefined ? [] : [`(${literal(name)}, ${literal(senders)})`],
  );
  const where =
    kinds.length === 0 ? 'false' : `(g.provider, ${contactKind('m.sender')}) in (${kinds.join(', ')})`;
  const isReader = contactReaders(resources);
  return {
    name: 'received-messages',
    read: async (request) => {
      if (!isReader(request)) return [];
      const messages = await findMessages(request, {
        from: `crm_received_messages m
          join crm_integrations g on g.organization_id = m.organization_id and g.id = m.integration_id`,
        party: 'm.sender',
        at: 'm.received_at',
        columns: { integration: 'g.name' },
        where,
      });
      const t = inboxTexts(request.language);
      return messages.map(({ id, at, contact, text, integration }) => ({
        ...{ id, at },
        icon: 'inbox',
        text: t('messageFrom', { sender: contact, integration }),
        note: text,
      }));
    },
  };
}
