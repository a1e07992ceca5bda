// Sql: statements whose text and parameters are made together; names and literals; rows of records as JSON.
// May import fields.

export { identifier, literal, quote } from './names.ts';
export { ByteOutput, copyBytes, slice } from './output.ts';
export { column, indexKey, lookupKey, record, versionColumn } from './record.ts';
export {
  type Layout,
  type RecordWriter,
  recordsAsJson,
  type SelectedColumns,
  separators,
} from './records.ts';
export {
  arrayText,
  type BatchForm,
  type BatchStatement,
  type BoundValue,
  batchValues,
  inputIndex,
  inputs,
  type Lane,
  type Placeholder,
  type Prepared,
  prepare,
  type Statement,
} from './statement.ts';
