// Compile: turns a resource definition into its entity, operations and OpenAPI description.
// May import fields, sql, query, definition, database, tables, effects, records.

export { compileResource, type Resource, type ResourceView } from './compile.ts';
export { documentWithCustomFields } from './custom-openapi.ts';
export { recordExamples, type Sample } from './examples.ts';
export { type AddedResponses, deprecationOf, type Fragment } from './openapi.ts';
export { explainStatements, omittedPairs, type StatementPlan } from './plans.ts';
export { sortByReferences } from './reference-order.ts';
export { batchSchemas, pascal, referencedUserSchema } from './schemas.ts';
