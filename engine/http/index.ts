// http:
// May import

export { crud } from './crud.ts';
export { failureOf, sendError } from './error-handling.ts';
export { refuseOtherMethods } from './methods.ts';
export { apiPrefix, openApiDocument } from './openapi.ts';
export { json } from './reply.ts';
export { httpServer } from './server.ts';
export { httpVariables } from './variables.ts';
