// Modules: the kind of everything that an instance has besides records, what its commands are made with, and how old rows
// are removed.
// May import errors, config, definition, tables, compile.

export { type BackgroundOfProcess, backgroundWork, type Repeated } from './background.ts';
export type { Check, CheckedPart, Finding } from './check.ts';
export {
  asJson,
  type CommandLine,
  confirmed,
  firstLineOfInput,
  ofOrganization,
  type Result,
  table,
} from './command-line.ts';
export type { Family, Metrics, TellValue } from './metrics.ts';
export type { Module } from './module.ts';
export { type Pruned, pruneRegularly, pruningStep, removeOld } from './pruning.ts';
export { assertWritable, type Output, progress, written } from './written.ts';
