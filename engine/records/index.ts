// Records: the operations on records, for routes and modules.
// May import errors, fields, sql, query, definition, database, tables, effects.

export {
  type Action,
  actionNames,
  actionsOf,
  actionsOfAll,
  administratorProfile,
  allows,
  type CallerIdentity,
  compileGrants,
  covers,
  eventsObject,
  everyGrant,
  fieldGroups,
  fieldsObject,
  type GrantedResource,
  type Grants,
  grantedActions,
  grantsWithin,
  groupActions,
  groupObject,
  isAction,
  isCoveredByWildcard,
  membersObject,
  noGrants,
  otherObjects,
  type Principal,
  type ProtectedResource,
  readsOf,
  recordLimits,
  type StoredGrant,
  scopesOf,
  uncoveredGrants,
  wildcard,
} from './access.ts';
export {
  type ActionInput,
  acceptsEmptyBody,
  actionPath,
  actionResultJson,
  actionsOfResource,
  type CompiledAction,
  compileAction,
  labelOfAction,
  type ModuleAction,
  ownGrants,
  placeOfAction,
} from './actions.ts';
export { groupsOf, measuresOf, valueSchemas } from './aggregate-names.ts';
export { maxGroups } from './aggregate-sql.ts';
export { batchLimits, maxItems } from './batch.ts';
export { type Body, bodyRules, writableLists } from './body.ts';
export { maxBulk, maxBulkBytes } from './bulk.ts';
export {
  hasPreviousVersionSql,
  loggedFieldNames,
  selectChangedNames,
  selectChanges,
} from './changes.ts';
export { checkSql, constraints } from './constraints.ts';
export { guessColumns, plainName, previewCsv } from './csv-preview.ts';
export {
  customFieldsIn,
  forgetCustomFields,
  organizationCustomFields,
  storedOptions,
} from './custom-definitions.ts';
export { type CustomFields, visibleCustomFields } from './custom-fields.ts';
export {
  customFieldsTable,
  customFieldTables,
  customValuesTriggerBody,
} from './custom-tables.ts';
export { findDependents } from './delete-referrers.ts';
export {
  type DeleteRules,
  deleteRulesOf,
  hasDeleteRules,
  maxDeleted,
  type Referrer,
  removalOf,
} from './delete-rules.ts';
export { approvalIn, approverName } from './email-addresses.ts';
export { compileExcerpts, type Excerpts } from './excerpts.ts';
export {
  dryRun,
  execute,
  inTransaction,
  runOperation,
} from './execute.ts';
export type { Executor, TransactionExecutor } from './executor.ts';
export { exportStream } from './export.ts';
export { compileFindLock, type FindLock, type RecordLock } from './find-lock.ts';
export { type FormatName, formatNames, formatOf, formatOfType } from './formats.ts';
export {
  type ChangeStates,
  changeActionsText,
  changeSchema,
  changeSchemas,
  compileChange,
  compileChangeStates,
  pastTenses,
  removalActions,
} from './history.ts';
export { reopenedRecords } from './hook-records.ts';
export {
  type ActionContext,
  type CommittedChange,
  type CompletedWrite,
  type FindOptions,
  type HookCaller,
  type HookContext,
  type HookRecords,
  type ImmediateAction,
  type InputOf,
  type JobAction,
  type JobContext,
  type ModuleCode,
  type ModuleHooks,
  type PlannedWrite,
  type RecordOf,
  Rejection,
  type ResourceAction,
  type ResourceHooks,
  type ResourceName,
  type Where,
} from './hook-types.ts';
export { fieldsByName, type HookValues, hookType, parseHookValues, toHookValues } from './hook-values.ts';
export { hookView } from './hook-views.ts';
export { hookCaller, measuredCall, moduleError, rejectOnAbort, systemContext } from './hooks.ts';
export { idempotencyOf, idempotencyTables, retentionHours } from './idempotency.ts';
export { type CompiledUploads, compileUploads, type ImportOptions, type Upload, uploads } from './import.ts';
export type { ImportSummary } from './import-lines.ts';
export { distinctionOf, indexes, namesOf, uniqueIndexName, uniqueKeys } from './indexes.ts';
export { itemTable } from './items.ts';
export {
  idOfJob,
  type JobState,
  type JobStatus,
  jobErrorJson,
  jobJson,
  jobsPath,
  jobTables,
  queueJob,
  runningJobIndex,
  unfinishedJob,
} from './jobs.ts';
export { type Delimiter, delimiters } from './line-parsers.ts';
export { hidesReferences, isLinkTable, linkTable } from './link-tables.ts';
export { maxExactCount } from './list.ts';
export {
  ignoreLocksSql,
  ignoringLocksSql,
  lockingReferences,
  lockTriggers,
  parentLockTrigger,
  parentLockTriggers,
  recordLockTrigger,
} from './lock-triggers.ts';
export { type MatchingStates, matchingStates } from './matching-states.ts';
export { isBlank, maxMoved } from './merge.ts';
export { mergeTables } from './merge-tables.ts';
export {
  type BodyRequirements,
  type Caller,
  commandCaller,
  type DescribedResource,
  type EveryInput,
  type ExportReader,
  type HookView,
  type Idempotency,
  type InstanceHooks,
  type ListInput,
  type ModuleCall,
  type Operation,
  type OperationContext,
  type OperationPlan,
  type TagConditions,
  type TextSigner,
} from './operation.ts';
export {
  bodyRequirements,
  type CompiledOperations,
  compileOperations,
  operations,
  operationsOf,
  type RoutedOperation,
  routedOperation,
} from './operations.ts';
export { type OrganizationRecords, organizationRecords } from './organization-records.ts';
export { type Projection, projection } from './projection.ts';
export { maxQueryBytes, namedParameters } from './query.ts';
export { defaultBodyLimit, mergePatchTypes, readBody, readJson } from './read-body.ts';
export { limitRecords, type RecordLimits } from './record-limits.ts';
export {
  changingRecords,
  creatingRecords,
  type ExistingRecords,
  insertRecord,
  type Matching,
  matching,
  type RecordResource,
  type Records,
  type RecordsWork,
} from './record-resource.ts';
export { compileErase, compilePurge, compilePurgeBatch, type RemoveOperation } from './remove.ts';
export {
  type BulkResult,
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
  replayedHeader,
} from './results.ts';
export { compileLock, compileLockForWrite, type LockForWrite } from './row-lock.ts';
export { type CallerScope, trashSql, visibleLimitSql, visibleSql } from './rows.ts';
export { sequenceFields, sequenceName, sequenceTables } from './sequence-numbers.ts';
export {
  combinedColumns,
  recalculateSql,
  rollupTrigger,
  rollupTriggers,
  type StoredRollups,
  storedRollups,
} from './stored-rollups.ts';
export { compileTransitionScopes, type TransitionScopes } from './transition-scopes.ts';
export { trashedAt } from './trash-list.ts';
export { maxHints } from './unknown-names.ts';
export { undoDays } from './unmerge.ts';
export { canReadAll, fullView, hasLimits, limitedView, type View } from './view.ts';
export { type ChangeView, hidesCustomValues, limitsChanges, visibleChanges } from './visible-changes.ts';
