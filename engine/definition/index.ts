// Definition: checks YAML and returns definitions, or reports all issues with file:line:column and a suggestion.
// May import errors, fields, yaml, query.

export { checkSources } from './check.ts';
export type { FieldRequirements, ResourceDefinition, Unique } from './definition.ts';
export { editorSchemas } from './editor.ts';
export { checkRequirements } from './requirements.ts';
export { fileStem, readSources } from './sources.ts';
