// Compile: turns a resource definition into its entity, operations and OpenAPI description.
// May import fields, sql, query, definition, database, tables, effects, records.

export { compileResource, type Resource } from './compile.ts';
export { recordExamples, type Sample } from './examples.ts';
export { type AddedResponses, deprecationOf, type Fragment } from './openapi.ts';
export { explainStatements, type StatementPlan } from './plans.ts';
export { batchSchemas } from './schemas.ts';
