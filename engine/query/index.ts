// Query: query parameters for lists and records, with one object per query part.
// May import errors, fields, yaml, sql.

export {
  type CursorPosition,
  cursorParts,
  encodeCursor,
  parseCursor,
  positionText,
  type UnverifiedCursor,
} from './cursor.ts';
export { operatorOf } from './operators.ts';
export { pageNumber, pageSize } from './page.ts';
export { type NamedField, parameterIssue, parameterValue, type Query } from './part.ts';
export {
  type Declarations,
  declareQuery,
  describeQuery,
  listParameters,
  type ParsedQuery,
  parseQuery,
  queryClauses,
  queryCost,
  queryIndexes,
  querySchema,
  querySchemaOf,
  queryShape,
  type RequestedProjection,
  recordQuery,
} from './parts.ts';
export { foreignCursorIssue } from './sort.ts';
