// Query: what a caller may ask of a list, one object for each part.
// May import errors, fields, yaml, sql.

export { cursorOf, cursorParts, type GivenPlace, type Place, parseCursor, placeText } from './cursor.ts';
export { pageSize } from './page.ts';
export { type NamedField, parameterValue, type Query, wrong } from './part.ts';
export {
  type Asked,
  type Declarations,
  declareQuery,
  describeQuery,
  listParameters,
  parseQuery,
  queryClauses,
  queryCost,
  queryIndexes,
  querySchema,
  querySchemaOf,
  queryShape,
  recordQuery,
  type Shown,
} from './parts.ts';
export { foreignCursor } from './sort.ts';
