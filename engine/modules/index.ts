// Modules: the interface of modules, and building blocks for commands, background work and retention.
// May import errors, config, definition, database, tables, effects, records, compile.

export {
  type BackgroundOfProcess,
  backgroundWork,
  type PeriodicTask,
  repeatedWork,
} from './background.ts';
export {
  assertOutputWritable,
  type CommandLine,
  type CommandOutput,
  type CommandResult,
  confirm,
  firstLineOfInput,
  formatTable,
  inOrganization,
  jsonResult,
  type OrganizationContext,
  organizationOption,
  showProgress,
  writeOutput,
} from './command-line.ts';
export {
  type DescribedCode,
  type DoctorCheck,
  type DoctorSubject,
  type Family,
  type Finding,
  isServed,
  type Metrics,
  type Module,
  type SectionRules,
} from './module.ts';
export { deleteExpired, type RetentionRule, retentionBatch, startRetention } from './retention.ts';
