// Records: what routes and modules do with records, one object per operation (plan, statement, response, description).
// May import errors, fields, sql, query, definition, effects, the types of database.
export { type Action, actionNames, actions, allows, everything, type Grants, grantMasks } from './access.ts';
export { type Body, type BodyRules, bodyRules } from './body.ts';
export { execute } from './execute.ts';
export { indexes } from './indexes.ts';
export type {
  Caller,
  CompiledOperation,
  DescribedResource,
  Operation,
  OperationContext,
  OperationRequest,
  Plan,
  Principal,
} from './operation.ts';
export {
  type CompiledOperations,
  compileOperations,
  type OperationName,
  operations,
  routed,
} from './operations.ts';
export { projection } from './projection.ts';
export { readBody, readJson } from './read-body.ts';
export { type RecordResource, type Records, records } from './records.ts';
