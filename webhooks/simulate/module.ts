import type { Module } from '../../engine/modules/index.ts';
import type { SimulateInstance } from './commands.ts';

/** Simulates providers and partners to test an instance. */
export const simulateModule: Module<unknown, SimulateInstance> = {
  name: 'simulate',
  commands: async (line) => (await import('./commands.ts')).simulateCommands(line),
};
