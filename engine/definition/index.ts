// Definition: YAML → checked definitions, or every mistake at once with file:line:column and a suggestion.
// May import errors, fields, yaml, query.

export { checkSources } from './check.ts';
export type { Needs, ResourceDefinition, Unique } from './definition.ts';
export { editorSchemas } from './editor.ts';
export { checkNeeds } from './needs.ts';
export { readSources, stem } from './sources.ts';
