// Sender: outgoing messages, their templates, providers and status.
// May import engine, plugins, settings, endpoint, channels, inbox.

import type { Module } from '../../engine/modules/index.ts';
import { addTimelineSource } from '../../plugins/admin-ui/shell/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { senderTables } from './tables.ts';
import { sentMessages } from './timeline.ts';

export { send } from './sender.ts';

/** Outgoing messages and their status. */
export const senderModule: Module<Pick<WebhookServices, 'resources'>> = {
  name: 'sender',
  tables: senderTables,
  pages: (app, { resources }) => addTimelineSource(app, sentMessages(resources)),
};
