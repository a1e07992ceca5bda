// HTTP: the server and its limits, error responses, resource routes, and the OpenAPI document.
// May import errors, config, fields, query, database, records, compile.

export { authenticateAgain, authorize, limitsChanged } from './authorize.ts';
export { cors } from './cors.ts';
export { crud, fieldNamesInRequest } from './crud.ts';
export { httpErrorOf, logRejection, sendError } from './error-handling.ts';
export { importRoutes } from './imports.ts';
export { rejectOtherMethods } from './methods.ts';
export { apiPrefix, openApiDocument } from './openapi.ts';
export { openApi32, usedSchemas } from './openapi-3-2.ts';
export { addReadOnlyMode, assertWritable } from './read-only.ts';
export { json, jsonId } from './reply.ts';
export { httpServer } from './server.ts';
export { createSwitchableListener } from './switchable-listener.ts';
export { type HttpConfig, httpVariables } from './variables.ts';
