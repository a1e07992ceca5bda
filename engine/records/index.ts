// Records: what routes and modules do with records, one object for each operation.
// May import errors, fields, sql, query, definition, database, tables, effects.

export {
  type Action,
  actionNames,
  administrator,
  allows,
  eventsObject,
  everything,
  type Grants,
  grantedActions,
  grantMasks,
} from './access.ts';
export { maxItems } from './batch.ts';
export { type Body, bodyRules } from './body.ts';
export {
  changeSchema,
  changeSchemas,
  changesSchema,
  hasBefore,
  selectChangedNames,
  selectChanges,
  shownInChanges,
} from './changes.ts';
export { compileExcerpts, type Excerpts } from './excerpts.ts';
export { execute } from './execute.ts';
export { exported } from './exported.ts';
export { type FormatName, formatNames, formatOf, formatOfType } from './formats.ts';
export { idempotencyTables, keptHours } from './idempotency.ts';
export type { Import } from './import.ts';
export type { ImportReport } from './import-lines.ts';
export { indexes } from './indexes.ts';
export { itemTable } from './items.ts';
export { type Matching, matching } from './matching.ts';
export type {
  Caller,
  DescribedResource,
  Exporting,
  Operation,
  OperationContext,
  OperationRequest,
  OperationResponse,
  Plan,
  Principal,
  Signing,
  Trace,
} from './operation.ts';
export { type CompiledOperations, compileOperations, operations, routed } from './operations.ts';
export { type Projection, projection } from './projection.ts';
export { mergePatchTypes, readBody, readJson } from './read-body.ts';
export { type RecordResource, type Records, records } from './records.ts';
export { distinctionOf, namesOf } from './uniques.ts';
export { type CompiledUploads, compileUploads, type Upload, uploads } from './uploads.ts';
