// Webhooks: what partners and channels call, each a module in a folder of its own; may name resources.
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

/** Every webhook; the others build on `endpoint`. */
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
