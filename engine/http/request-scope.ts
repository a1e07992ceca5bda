import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { RequestScope, runInRequest } from '../database/index.ts';
import { afterwards } from './memory.ts';
import { ownerOf } from './owner.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Context of the request's statements. */
    scope: RequestScope;
  }
}

/**
 * Runs handlers in a context that tells the database which request a statement is for, and whether its client
 * has disconnected.
 */
export const requestScopes = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.decorateRequest('owner', '');
    app.addHook('onRequest', (request, reply, done) => {
      const scope = new RequestScope(() => ownerOf(request));
      request.scope = scope;
      afterwards(request, reply, () => {
        if (!reply.raw.writableFinished) scope.disconnect();
      });
      runInRequest(scope, done);
    });
    // Body events run in the connection's context, so the request's context is restored here.
    app.addHook('preValidation', (request, _reply, done) => runInRequest(request.scope, done));
  },
  { name: 'request-scopes', fastify: '5.x', dependencies: ['errors'] },
);
