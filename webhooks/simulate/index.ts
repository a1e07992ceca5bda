// Simulate: providers and partners, played for trying an instance out.
// May import engine, plugins, settings, endpoint, inbound-leads, booking-forms, payments, channels, inbox.

export { simulateModule } from './module.ts';
