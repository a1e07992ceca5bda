import type { Module } from '../../engine/modules/index.ts';
import { type SimulateInstance, simulateCommands } from './commands.ts';

/** Providers and partners, played for trying an instance out. */
export const simulateModule: Module<unknown, SimulateInstance> = {
  name: 'simulate',
  commands: simulateCommands,
};
