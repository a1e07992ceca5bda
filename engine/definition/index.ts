// Definition: YAML -> checked definitions, or every mistake at once with file:line:column.
// May import errors, yaml, fields.
export { checkSources } from './check.ts';
export type { Field, ResourceDefinition, ServerValue } from './definition.ts';
export { readSources } from './sources.ts';
