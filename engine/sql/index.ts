// Sql: builds statements and their parameters, quotes names and literals, decodes rows, and converts them to JSON and
// CSV. May import fields.

export { type Cell, type Columns, cell, type Row, rowDecoder, rowKinds } from './decode.ts';
export { defaultSql } from './defaults.ts';
export {
  column,
  createIndexSql,
  type IndexShape,
  identifier,
  indexKey,
  literal,
  lookupKey,
  quote,
  record,
  trashedColumn,
  versionColumn,
} from './names.ts';
export { allocate, ByteOutput, copyBytes } from './output.ts';
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
export { createTriggerSql, type TriggerShape, triggerFunction } from './triggers.ts';
