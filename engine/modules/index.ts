// Modules: the kind of everything that an instance has besides records; the engine itself knows none.
// May import config, compile, definition.

export {
  asJson,
  type CommandLine,
  firstLineOfInput,
  ofOrganization,
  type Result,
  table,
} from './command-line.ts';
export type { Module } from './module.ts';
