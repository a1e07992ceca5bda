// Definition: YAML -> checked definitions, or every mistake at once with file:line:column.
// May import errors and fields.
export { checkSources } from './check.ts';
export type { Field, ResourceDefinition, ServerValue } from './definition.ts';
export { DefinitionError, type Problem, readSources, type Source } from './load.ts';
