// Compile: a checked definition -> a frozen Resource (entity, operations, description).
// May import errors, fields, sql, query, definition, effects, records.

export { compile, type Resource } from './compile.ts';
export type { Fragment } from './openapi.ts';
