// Definition: turns YAML into checked definitions, or reports every issue as file:line:column with a suggestion.
// May import errors, fields, yaml, query, expressions.

export { aggregateParameters } from './aggregates.ts';
export { checkSources } from './check-sources.ts';
export {
  type CustomFieldOptions,
  type CustomTypeName,
  customTypes,
  readCustomField,
} from './custom-fields.ts';
export type {
  AggregateField,
  Aggregates,
  FieldRequirements,
  Lock,
  RecordCheck,
  ResourceDefinition,
  Scope,
  Screen,
  Trash,
  Unique,
} from './definition.ts';
export { editorSchemas } from './editor.ts';
export { recordLabel, resourceLabel } from './labels.ts';
export { checkRequirements } from './requirements.ts';
export { fileStem, readSources } from './sources.ts';
