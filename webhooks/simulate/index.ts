// Simulate: test deliveries from providers and partners.
// May import engine, plugins, settings, endpoint, inbound-leads, booking-forms, payments, channels, inbox.

import type { Module } from '../../engine/modules/index.ts';
import type { SimulateInstance } from './commands.ts';

export { simulatedPartners } from './partners.ts';

/** Simulates providers and partners to test an instance. */
export const simulateModule: Module<unknown, SimulateInstance> = {
  name: 'simulate',
  commands: async (line) => (await import('./commands.ts')).simulateCommands(line),
};
