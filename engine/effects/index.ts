// Effects: additional work in a write's statement, such as recording changes. May import config, sql, tables.

export { type Actor, type AuditConfig, commandLine, recordChanges } from './actor.ts';
export { changeLog, entrySql } from './change-log.ts';
export type { Effect, EffectCaller, WriteAction } from './effect.ts';
export { effectTables, effectVariables, enabledEffects } from './effects.ts';
