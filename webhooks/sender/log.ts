import { randomUUID } from 'node:crypto';
import type { Sender } from './outgoing.ts';

/** Sends nothing and says so in the log: for development. Neither the number nor the text is written there. */
export const log: Sender = async ({ text, template }, _settings, _graph, logInfo) => {
  const id = `log.${randomUUID()}`;
  logInfo(
    { message_id: id, characters: text.length, template: template?.name },
    'a message would have been sent',
  );
  return id;
};
