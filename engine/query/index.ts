// Query: what a caller may ask of a list, one object per part (YAML key, parameters, SQL, description).
// May import errors, yaml, fields, sql.
export { type Filter, maxFilterValues } from './filters.ts';
export { type FilterOperator, operators } from './operators.ts';
export { deepPage, pageSize } from './page.ts';
export { type Query, type QueryPart, wrong } from './part.ts';
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
  queryParts,
  querySchema,
  queryShape,
} from './parts.ts';
