// Inbox: integrations and the durable queue for their events.
// May import engine, plugins, settings, endpoint, channels, queue.

import type { Database } from '../../engine/database/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import type { InstanceSecrets } from '../../plugins/access/secrets/index.ts';
import { addTimelineSource } from '../../plugins/admin-ui/shell/index.ts';
import {
  type ChannelConfig,
  type ChannelModule,
  channels,
  channelsOf,
  leadAdsNeeds,
} from '../channels/index.ts';
import { sealedCheck } from '../endpoint/index.ts';
import { addDeliveries, queueCheck, queueCommands, queueMetrics } from '../queue/index.ts';
import { disabledIntegrations, unknownChannels } from './check.ts';
import { channelEndpoints } from './endpoints.ts';
import { inboxQueue, labeledInbox } from './inbox.ts';
import { type InboxServices, integrationPages } from './integrations-page.ts';
import { payloadOfEvent } from './payload.ts';
import { inboxTables } from './tables.ts';
import { inboxTexts } from './texts/index.ts';
import { receivedMessages } from './timeline.ts';

export { inboxQueue } from './inbox.ts';
export { endpointPath, integrationRows, openIntegration } from './integrations.ts';

/** Integrations with providers, and the inbox that stores and processes their events. */
export const inboxModule: Module<
  InboxServices,
  { readonly config: AuditConfig; readonly database: Database },
  { readonly config: ChannelConfig; readonly database: Database; readonly secrets: InstanceSecrets }
> &
  ChannelModule = {
  name: 'inbox',
  channels,
  tables: inboxTables,
  needs: [leadAdsNeeds],
  // Only one of the channels needs the resource.
  isDivisible: true,
  register: (app, { config }) => channelEndpoints(app, app.webhooks, channelsOf(config)),
  metrics: ({ database }) => [queueMetrics(database, 'inbox', inboxQueue)],
  pages: (screens, services) => {
    integrationPages(screens, services);
    addTimelineSource(screens, receivedMessages(channelsOf(services.config), services.resources));
    addDeliveries(screens, services, {
      name: 'deliveries',
      title: inboxTexts.later('deliveries'),
      icon: 'inbox',
      purpose: inboxTexts.later('deliveriesPurpose'),
      columns: { time: inboxTexts.later('received'), owner: inboxTexts.later('from') },
      queue: labeledInbox(channelsOf(services.config)),
      ownerPath: (id) => `integrations/integration?id=${id}`,
      ...payloadOfEvent,
    });
  },
  commands: (line) =>
    queueCommands(line, {
      noun: 'inbox',
      description: 'manage events delivered by channels',
      owner: 'integration',
      detail: 'payload',
      queue: inboxQueue,
    }),
  checks: [
    disabledIntegrations,
    unknownChannels,
    queueCheck(inboxQueue, 'inbox'),
    sealedCheck(
      'integration',
      'crm_integrations',
      ['secret', 'token'],
      "Add the previous secret back to AUTH_SECRETS, or enter the integration's secrets again in the admin UI.",
    ),
  ],
};
