// Query: what a caller may ask of a list, one object per part (YAML key, parameters, SQL, description).
// May import errors, yaml, fields, sql.

export { pageSize } from './page.ts';
export { type Query, wrong } from './part.ts';
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
  queryShape,
} from './parts.ts';
