// Records: the operations on records, for routes and modules.
// May import errors, fields, sql, query, definition, database, tables, effects.

export {
  type Action,
  actionNames,
  administratorProfile,
  allows,
  eventsObject,
  type Grants,
  grantedActions,
  grantMasks,
  wildcard,
} from './access.ts';
export { maxItems } from './batch.ts';
export { type Body, bodyRules } from './body.ts';
export {
  changeSchema,
  changeSchemas,
  hasPreviousVersionSql,
  loggedFieldNames,
  selectChangedNames,
  selectChanges,
} from './changes.ts';
export { commandCaller } from './command-caller.ts';
export { compileExcerpts, type Excerpts } from './excerpts.ts';
export { execute, runOperation } from './execute.ts';
export { exportStream } from './exported.ts';
export { type FormatName, formatNames, formatOf, formatOfType } from './formats.ts';
export { idempotencyOf, idempotencyTables, retentionHours } from './idempotency.ts';
export type { ImportOptions } from './import.ts';
export type { ImportSummary } from './import-lines.ts';
export { indexes } from './indexes.ts';
export { itemTable } from './items.ts';
export { type Matching, matching } from './matching.ts';
export type {
  Caller,
  DescribedResource,
  EveryInput,
  ExportReader,
  Idempotency,
  ListInput,
  Operation,
  OperationContext,
  OperationPlan,
  Principal,
  TagConditions,
  TextSigner,
  Trace,
} from './operation.ts';
export { type CompiledOperations, compileOperations, operations, routedOperations } from './operations.ts';
export { type Projection, projection } from './projection.ts';
export { mergePatchTypes, readBody, readJson } from './read-body.ts';
export { limitRecords, type ReserveRecords } from './record-limit.ts';
export {
  creatingRecords,
  type ExistingRecords,
  type RecordResource,
  type Records,
  records,
} from './records.ts';
export { etagHeader } from './response-headers.ts';
export {
  type ChangeValues,
  changeValues,
  type DeletedResult,
  type OperationResult,
  type PageResult,
  pageValues,
  type RecordResult,
  type RecordValues,
  recordValues,
} from './results.ts';
export { distinctionOf, namesOf } from './uniques.ts';
export { type CompiledUploads, compileUploads, type Upload, uploads } from './uploads.ts';
