// Definition: turns YAML into checked definitions, or reports every issue as file:line:column with a suggestion.
// May import errors, fields, yaml, query.

export { checkSources } from './check.ts';
export type { FieldRequirements, ResourceDefinition, Unique } from './definition.ts';
export { editorSchemas } from './editor.ts';
export { checkRequirements } from './requirements.ts';
export { fileStem, readSources } from './sources.ts';
