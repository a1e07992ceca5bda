// Modules: the kind of everything that an instance has besides records, and what its commands are made with.
// May import config, definition, compile.

export {
  asJson,
  type CommandLine,
  firstLineOfInput,
  ofOrganization,
  type Result,
  table,
} from './command-line.ts';
export type { Module } from './module.ts';
