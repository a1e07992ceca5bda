// Fields: the types of field values, one object per type.
// Must not import other project code.

export { textCell } from './csv.ts';
export { type Encoder, maxJsonBytesPerByte, verbatim } from './encode.ts';
export { ExactNumber, int64, integerText, isRowId } from './exact.ts';
export { parseExactJson } from './exact-json.ts';
export { type Deprecation, type Field, fieldColumns, type ServerValue } from './field.ts';
export { extraColumns, type FieldTypeName, fieldTypes, firstColumn } from './field-types.ts';
export { jsonErrorOffset, positionAt } from './json-error.ts';
export { indexedPrefix, type Lookup, lookupOf } from './lookups.ts';
export { isStorable } from './string.ts';
export { completeTimestamp, isDate, parseInstant, parseTimestamp } from './temporal.ts';
export type { ColumnDefinition, Distinction, FieldType, JsonSchema, ParameterText } from './type.ts';
export { errorMessage, validateValue, validator, valueSchema } from './validate.ts';
