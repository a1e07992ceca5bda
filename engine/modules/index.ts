// Modules: the interface of modules, and building blocks for commands, background work and retention.
// May import errors, config, definition, database, tables, effects, compile.

export { type BackgroundOfProcess, backgroundWork, type PeriodicTask } from './background.ts';
export type { DoctorCheck, DoctorSubject, Finding } from './check.ts';
export {
  type CommandLine,
  type CommandResult,
  confirm,
  firstLineOfInput,
  formatTable,
  inOrganization,
  jsonResult,
  type OrganizationContext,
  organizationOption,
} from './command-line.ts';
export type { Family, Metrics } from './metrics.ts';
export type { Module } from './module.ts';
export { assertOutputWritable, type CommandOutput, showProgress, writeOutput } from './output.ts';
export { deleteExpired, type RetentionRule, retentionBatch, startRetention } from './retention.ts';
