// Subscriptions: sends changes to customers' URLs.
// May import engine, plugins, settings, endpoint, queue.

import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import { administratorProfile } from '../../engine/records/index.ts';
import { listRows, tablesOf } from '../../engine/tables/index.ts';
import { memberRows } from '../../plugins/access/members/index.ts';
import {
  cachedOpener,
  type InstanceSecrets,
  renewSealed,
  sealing,
} from '../../plugins/access/secrets/index.ts';
import { feedSigning } from '../../plugins/change-log/index.ts';
import type { Mailer } from '../../plugins/operations/mail/index.ts';
import { sealedCheck, type WebhookServices } from '../endpoint/index.ts';
import { queueCheck, queueCommands, queueMetrics, startQueueRetention, startWorker } from '../queue/index.ts';
import type { SettingsConfig } from '../settings/index.ts';
import { subscriptionRoutes } from './api.ts';
import { startBatching } from './batches.ts';
import { receiversCheck } from './check.ts';
import { deliverer } from './deliver.ts';
import { type DeliveryClaim, deliveryQueue } from './deliveries.ts';
import { subscriptionsFragment } from './description.ts';
import { startFanOut } from './fan-out.ts';
import { subscriptionPages } from './page.ts';
import { poster } from './post.ts';
import { subscriptionTables } from './tables.ts';

/** Creates a function that logs that a subscription was disabled, and notifies administrators. */
const noticeOf =
  (app: FastifyInstance, database: Database, mailer: Mailer) =>
  async (organization: string, subscription: string, reason: string): Promise<void> => {
    app.log.warn({ organization, subscription, reason }, 'event subscription disabled');
    if (!mailer.isEnabled()) return;
    const where = [sql`p.name = ${administratorProfile}`];
    const administrators = await listRows(tablesOf(database), memberRows, organization, { where });
    const text = `Event subscription ${subscription} was disabled because its events could not be delivered: ${reason}. Changes are kept in the change log. They will be sent when you enable the subscription again under "Webhooks" in the admin UI.`;
    for (const { email } of administrators)
      await mailer.send({ to: email, subject: 'An event subscription was disabled', text });
  };

export interface SubscriptionServices extends WebhookServices {
  readonly config: AuditConfig;
  readonly mailer: Mailer;
}

export interface SubscriptionInstance {
  readonly config: AuditConfig & SettingsConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
}

/** Event subscriptions, which send changes to customers' URLs. */
export const subscriptionsModule: Module<
  SubscriptionServices,
  SubscriptionInstance,
  Pick<SubscriptionInstance, 'database' | 'secrets'>
> = {
  name: 'subscriptions',
  tables: subscriptionTables,
  openApi: subscriptionsFragment,
  register: (app, { config, database, resources, secrets, settings, mailer }) => {
    const urlPolicy = () => settings.current.events;
    const sealed = cachedOpener(sealing(secrets));
    const worker = startWorker<DeliveryClaim>(
      app,
      database,
      deliveryQueue,
      deliverer(app, {
        database,
        resources,
        sealing: sealed,
        poster: poster(urlPolicy),
        publicUrl: () => settings.current.public_url,
        notify: noticeOf(app, database, mailer),
      }),
    );
    startQueueRetention(
      app,
      database,
      deliveryQueue,
      (status) => settings.current.retention[`events_${status}_days`],
    );
    renewSealed(app, database, sealed, 'crm_event_subscriptions', ['secret', 'previous_secret']);
    startBatching(app, database, worker.wake);
    const fanOut = config.audit ? startFanOut(app, database, resources, worker.wake) : undefined;
    subscriptionRoutes(app, {
      config,
      database,
      resources,
      sealing: sealed,
      signing: feedSigning(secrets),
      urlPolicy,
      wake: () => {
        fanOut?.now();
        worker.wake();
      },
    });
  },
  metrics: ({ database }) => [queueMetrics(database, 'deliveries', deliveryQueue)],
  pages: subscriptionPages,
  commands: async (line) => {
    const { subscriptionCommands } = await import('./commands.ts');
    subscriptionCommands(line);
    queueCommands(line, {
      noun: 'delivery',
      description: 'manage event subscription deliveries',
      owner: 'subscription',
      detail: 'heads',
      queue: deliveryQueue,
    });
  },
  checks: [
    queueCheck(deliveryQueue, 'delivery'),
    receiversCheck,
    sealedCheck(
      'event subscription',
      'crm_event_subscriptions',
      ['secret', 'previous_secret'],
      'Add the previous secret back to AUTH_SECRETS, or replace the signing secret with "crm subscription rotate".',
    ),
  ],
};
