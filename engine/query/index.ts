// Query: query parameters for lists and records, with one object per query part.
// May import errors, fields, yaml, sql.

export {
  type CursorPosition,
  cursorParts,
  encodeCursor,
  oppositeSide,
  parseCursor,
  positionText,
  readsBackward,
  type UnverifiedCursor,
} from './cursor.ts';
export { customValueColumns, customValuesTable, withCustomFilters } from './custom-filters.ts';
export {
  type Children,
  expandedRecords,
  isReferenceList,
  type ListOrder,
  maxExpansions,
  maxListed,
  nestedRelations,
  type ReferrerOrder,
  type Relation,
  referencedRecords,
  withExpansion,
  withRelations,
} from './expansion.ts';
export { describeNames, namesIn, unknownNameIssue } from './fields-parameter.ts';
export type { Filter } from './filter.ts';
export {
  type ConditionNode,
  comparedField,
  conditionFields,
  describeCustomFilters,
  equalityParameter,
  isGroup,
  maxFilterValues,
  parseValue,
  unknownFieldMessage,
} from './filters.ts';
export { type OperatorName, operatorOf } from './operators.ts';
export { farOffset, farthestPage, pageNumber, pageSize } from './page.ts';
export {
  type CallerSql,
  type NamedField,
  type OverlaidList,
  parameterIssue,
  parameterValue,
  type Query,
  type VisibleIds,
} from './part.ts';
export {
  conditionParameters,
  confirmParameter,
  type Declarations,
  declareQuery,
  describeConditions,
  describeQuery,
  listParameters,
  overlaidLists,
  type ParsedQuery,
  parseConditions,
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
export { foreignCursorIssue, maxSortKeys, orderKeys, sortKeys } from './sort.ts';
export { combinations, conditionKeys, filterHint, parseWhere, whereLimits } from './where.ts';
