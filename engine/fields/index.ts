// Fields: field types, one object per type.
// Must not import other project code.

export {
  alternativesType,
  formatReference,
  isRecordReference,
  linksOf,
  referenceName,
  splitReference,
  typeLabel,
  withAlternatives,
} from './alternatives.ts';
export { currencyField } from './currency.ts';
export {
  customCells,
  customFieldName,
  customName,
  customValuesType,
  maxCustomBytes,
  noValues,
} from './custom-values.ts';
export {
  canRollUp,
  computedSql,
  computedType,
  isComputable,
  isNullableRollup,
  rollupSql,
  rollupType,
  storedRollupType,
} from './derived.ts';
export { documentIssue, documentText, parseDocument, schemaIssue } from './documents.ts';
export { type Encoder, maxJsonBytesPerByte, textCell, verbatim } from './encode.ts';
export {
  decimalText,
  ExactNumber,
  int64,
  integerText,
  isRowId,
  parseExactJson,
  parseOwnJson,
} from './exact-json.ts';
export {
  type Computation,
  type Deprecation,
  type Field,
  fieldColumns,
  hasCustomFields,
  isAssignable,
  isHookWritable,
  isKeptIfAbsent,
  isStoredRollup,
  namesMember,
  type OnDelete,
  type Rollup,
  type RollupFunction,
  refersToMany,
  refersToUser,
  type SequenceFormat,
  type ServerValue,
  type Transitions,
  transitionScope,
} from './field.ts';
export {
  extraColumns,
  type FieldTypeName,
  fieldTypeNamed,
  fieldTypeOf,
  fieldTypes,
  firstColumn,
  type TypeOptions,
} from './field-types.ts';
export { currencyCodes, isTimeZone, type TextFormatName, textFormatNames, textFormatOf } from './formats.ts';
export { jsonErrorOffset, positionAt } from './json-error.ts';
export { fieldLabel, humanize, inSentence } from './labels.ts';
export { defaultMaxValues, type ElementName } from './lists.ts';
export { anyCurrency, currencySuffix, isCurrency } from './money.ts';
export { phoneRegionOf, phoneVariants } from './phone-numbers.ts';
export { maxReferences } from './references.ts';
export {
  constraintSql,
  type RuleOptions,
  ruleKeys,
  rulesOf,
  supportsRule,
} from './rules.ts';
export { isStorable } from './string.ts';
export { completeTimestamp, isDate, isTimestamp, parseInstant } from './temporal.ts';
export {
  type ColumnDefinition,
  type Comparisons,
  type Distinction,
  type FieldType,
  indexedPrefix,
  type JsonSchema,
  type Lookup,
  lookupOf,
  type Notation,
  type OperandType,
  type ParameterText,
} from './type.ts';
export { elementIssue, validateValue, validator, valueIssue, valueSchema } from './validate.ts';
