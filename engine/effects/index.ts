// Effects: what else a write does in its own statement; the audit log.
// May import config, sql, tables.

export { type Actor, type AuditConfig, auditVariables, commandLine, recordChanges } from './actor.ts';
export type { Caller, Effect, WriteAction } from './effect.ts';
export { effects } from './effects.ts';
export { activityTables } from './tables.ts';
