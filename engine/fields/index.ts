// Fields: field types, one object per type.
// Must not import other project code.

export { type Encoder, maxJsonBytesPerByte, textCell, verbatim } from './encode.ts';
export { ExactNumber, int64, integerText, isRowId, parseExactJson } from './exact-json.ts';
export {
  type Deprecation,
  type Field,
  fieldColumns,
  isAssignable,
  refersToUser,
  type ServerValue,
} from './field.ts';
export { extraColumns, type FieldTypeName, fieldTypes, firstColumn } from './field-types.ts';
export { jsonErrorOffset, positionAt } from './json-error.ts';
export { isStorable } from './string.ts';
export { completeTimestamp, isDate, parseInstant, parseTimestamp } from './temporal.ts';
export {
  type ColumnDefinition,
  type Distinction,
  type FieldType,
  indexedPrefix,
  type JsonSchema,
  type Lookup,
  lookupOf,
  type ParameterText,
} from './type.ts';
export { errorMessage, validateValue, validator, valueSchema } from './validate.ts';
