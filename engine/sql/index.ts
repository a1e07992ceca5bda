// Sql: statements whose text and parameters are made together; names and literals; rows of records as JSON.
// May import fields.

export { identifier, literal, quote } from './names.ts';
export { copied, Output, slice } from './output.ts';
export { column, indexKey, lookupKey, record, versionColumn } from './record.ts';
export { between, type Layout, type Records, recordsAsJson, type Selected } from './records.ts';
export {
  arrayText,
  type ForMany,
  inputNumber,
  inputs,
  type Lane,
  type Many,
  type Placeholder,
  type Prepared,
  prepare,
  type Statement,
  type Value,
  valuesOfMany,
} from './statement.ts';
