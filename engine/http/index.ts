// Http: the server and its limits, errors as responses, the routes of a resource, the OpenAPI document.
// May import errors, config, fields, query, database, records, compile.

export { authenticateAgain, authorize } from './authorize.ts';
export { cors } from './cors.ts';
export { crud } from './crud.ts';
export { failureOf, logRejection, sendError } from './error-handling.ts';
export { front } from './front.ts';
export { importRoutes } from './imports.ts';
export { refuseOtherMethods } from './methods.ts';
export { apiPrefix, openApiDocument } from './openapi.ts';
export { addReadOnlyMode, assertWritable } from './read-only.ts';
export { json, jsonId } from './reply.ts';
export { httpServer } from './server.ts';
export { type HttpConfig, httpVariables } from './variables.ts';
