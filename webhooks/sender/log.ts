import { randomUUID } from 'node:crypto';
import type { MessageSender } from './outgoing.ts';

/** For development: sends nothing and logs that, without the number and the text. */
export const log: MessageSender = async ({ text, template }, _settings, _graph, logInfo) => {
  const id = `log.${randomUUID()}`;
  logInfo(
    { message_id: id, characters: text.length, template: template?.name },
    'a message would have been sent',
  );
  return id;
};
