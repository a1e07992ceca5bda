// Simulate: test deliveries of providers and partners.
// May import engine, plugins, settings, endpoint, inbound-leads, booking-forms, payments, channels, inbox.

export { simulateModule } from './module.ts';
