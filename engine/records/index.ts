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
  isCoveredByWildcard,
  membersObject,
  wildcard,
} from './access.ts';
export { maxItems } from './batch.ts';
export { type Body, bodyRules } from './body.ts';
export { compileExcerpts, type Excerpts } from './excerpts.ts';
export { execute, limitRecords, type ReserveRecords, runOperation } from './execute.ts';
export { exportStream } from './export.ts';
export { type FormatName, formatNames, formatOf, formatOfType } from './formats.ts';
export {
  changeSchema,
  changeSchemas,
  hasPreviousVersionSql,
  loggedFieldNames,
  selectChangedNames,
  selectChanges,
} from './history.ts';
export { idempotencyOf, idempotencyTables, retentionHours } from './idempotency.ts';
export { type CompiledUploads, compileUploads, type ImportOptions, type Upload, uploads } from './import.ts';
export type { ImportSummary } from './import-lines.ts';
export { distinctionOf, indexes, namesOf } from './indexes.ts';
export { itemTable } from './items.ts';
export {
  type Caller,
  commandCaller,
  type DescribedResource,
  type EveryInput,
  type ExportReader,
  type Idempotency,
  type ListInput,
  type Operation,
  type OperationContext,
  type OperationPlan,
  type Principal,
  type TagConditions,
  type TextSigner,
} from './operation.ts';
export { type CompiledOperations, compileOperations, operations, routedOperations } from './operations.ts';
export { type Projection, projection } from './projection.ts';
export { mergePatchTypes, readBody, readJson } from './read-body.ts';
export {
  creatingRecords,
  type ExistingRecords,
  type Matching,
  matching,
  type RecordResource,
  type Records,
  records,
} from './records.ts';
export {
  type ChangeValues,
  changeValues,
  type DeletedResult,
  etagHeader,
  type OperationResult,
  type PageResult,
  pageValues,
  type RecordResult,
  type RecordValues,
  recordValues,
} from './results.ts';
