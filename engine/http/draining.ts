import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { errors } from '../errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Starts the shutdown. Requests are still served, but each connection is closed after its current
     * response.
     */
    drain: () => void;
    /** Returns whether the shutdown has started. */
    isDraining: () => boolean;
  }
}

/**
 * Shuts the service down in two phases. In the first phase, readiness checks fail so that load balancers stop
 * sending requests, but all requests are served. In the second phase, requests on open connections get 503.
 */
export const draining = fastifyPlugin(
  async (app: FastifyInstance) => {
    let isDraining = false;
    let isClosing = false;
    app.decorate('drain', () => {
      isDraining = true;
    });
    app.decorate('isDraining', () => isDraining);
    app.addHook('preClose', async () => {
      isDraining = true;
      isClosing = true;
    });
    app.addHook('onRequest', (_request, _reply, done) => done(isClosing ? errors.draining() : undefined));
    // A response that started before the second phase leaves its connection open, and the server would wait
    // for it.
    app.addHook('onResponse', (_request, _reply, done) => {
      if (isClosing) setImmediate(() => app.server.closeIdleConnections());
      done();
    });
    app.addHook('onSend', (_request, reply, payload, done) => {
      if (isDraining) reply.header('connection', 'close');
      done(null, payload);
    });
  },
  { name: 'draining', fastify: '5.x', dependencies: ['errors'] },
);
