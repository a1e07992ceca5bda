// Sql: statements whose text and parameters are made together; names and literals.
// May import fields.

export { column, indexKey, lookupKey, record } from './record.ts';
export {
  identifier,
  type Lane,
  literal,
  type Placeholder,
  type Prepared,
  prepare,
  quote,
  type Statement,
} from './statement.ts';
