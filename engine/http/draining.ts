import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { errors } from '../errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Starts shutting down: requests are still served, but each connection closes after its current response. */
    leave: () => void;
    /** Whether shutdown has started. */
    isLeaving: () => boolean;
  }
}

/**
 * Shuts the service down in two phases. While it leaves, load balancers see that it is not ready, but everything is still
 * served. While it closes, requests on connections that are still open get 503.
 */
export const draining = fastifyPlugin(
  async (app: FastifyInstance) => {
    let leaving = false;
    let closing = false;
    app.decorate('leave', () => {
      leaving = true;
    });
    app.decorate('isLeaving', () => leaving);
    app.addHook('preClose', async () => {
      leaving = true;
      closing = true;
    });
    app.addHook('onRequest', (_request, _reply, done) => done(closing ? errors.draining() : undefined));
    // A response that started before closing leaves its connection open, and the server would wait for it.
    app.addHook('onResponse', (_request, _reply, done) => {
      if (closing) setImmediate(() => app.server.closeIdleConnections());
      done();
    });
    app.addHook('onSend', (_request, reply, payload, done) => {
      if (leaving) reply.header('connection', 'close');
      done(null, payload);
    });
  },
  { name: 'draining', fastify: '5.x', dependencies: ['errors'] },
);
