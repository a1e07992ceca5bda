// Webhooks: endpoints for partners and channels, one module per folder. Only these modules can refer to
// resources by name.
// May import engine and plugins.
import { bookingFormsModule } from './booking-forms/index.ts';
import { endpoint } from './endpoint/index.ts';
import { inboundLeadsModule } from './inbound-leads/index.ts';
import { inboxModule } from './inbox/index.ts';
import { partnerStatusModule } from './partner-status/index.ts';
import { paymentsModule } from './payments/index.ts';
import { senderModule } from './sender/index.ts';
import { simulateModule } from './simulate/index.ts';
import { subscriptionsModule } from './subscriptions/index.ts';

/** All webhook modules. `endpoint` comes first because other modules depend on it. */
export const webhookModules = [
  endpoint,
  inboundLeadsModule,
  bookingFormsModule,
  senderModule,
  paymentsModule,
  inboxModule,
  subscriptionsModule,
  partnerStatusModule,
  simulateModule,
];
