import { randomUUID } from 'node:crypto';
import type { MessageSender } from './outgoing.ts';

/** A sender for development that only logs that a message was sent, without the phone number or the text. */
export const log: MessageSender = async ({ text, template }, _settings, _graph, logInfo) => {
  const id = `log.${randomUUID()}`;
  logInfo(
    { message_id: id, characters: text.length, template: template?.name },
    'message not sent: the sender "log" only logs messages',
  );
  return id;
};
