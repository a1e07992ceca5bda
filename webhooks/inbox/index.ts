// Inbox: integrations and the durable queue for their events.
// May import engine, plugins, settings, endpoint, channels, queue.

import type { Database } from '../../engine/database/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import type { InstanceSecrets } from '../../plugins/access/secrets/index.ts';
import { leadAdsNeeds } from '../channels/index.ts';
import { sealedCheck, type WebhookServices } from '../endpoint/index.ts';
import { addDeliveries, queueCheck, queueCommands, queueMetrics } from '../queue/index.ts';
import { disabledIntegrations } from './check.ts';
import { channelEndpoints } from './endpoints.ts';
import { inboxQueue } from './inbox.ts';
import { integrationPages } from './integrations-page.ts';
import { inboxTables } from './tables.ts';

export { endpointPath, integrationRows, openIntegration } from './integrations.ts';

/** Integrations with providers, and the inbox that stores and processes their events. */
export const inboxModule: Module<
  WebhookServices,
  { readonly config: AuditConfig; readonly database: Database },
  { readonly database: Database; readonly secrets: InstanceSecrets }
> = {
  name: 'inbox',
  tables: inboxTables,
  needs: [leadAdsNeeds],
  // Only one of the channels needs the resource.
  isDivisible: true,
  register: (app) => channelEndpoints(app, app.webhooks),
  metrics: ({ database }) => [queueMetrics(database, 'inbox', inboxQueue)],
  pages: (screens, services) => {
    integrationPages(screens, services);
    addDeliveries(screens, services, {
      name: 'deliveries',
      title: 'Deliveries',
      icon: 'inbox',
      purpose: 'Events that providers deliver to your integrations appear here.',
      columns: { time: 'Received', owner: 'From' },
      queue: inboxQueue,
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
    queueCheck(inboxQueue, 'inbox'),
    sealedCheck(
      'integration',
      'crm_integrations',
      ['secret', 'token'],
      "Add the previous secret back to AUTH_SECRETS, or enter the integration's secrets again in the admin UI.",
    ),
  ],
};
