// Definition: YAML -> checked definitions, or every mistake at once with file:line:column.
// May import errors, yaml, fields, query.

export { checkSources } from './check.ts';
export type { Needs, ResourceDefinition } from './definition.ts';
export { checkNeeds } from './needs.ts';
export { readSources } from './sources.ts';
