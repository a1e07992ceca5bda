import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { errors } from '../errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Begins to stop: requests are still served, but no connection outlives the response that it waits for. */
    leave: () => void;
    /** Whether it has begun to stop. */
    isLeaving: () => boolean;
  }
}

/**
 * How the service stops. First it leaves: balancers see that it is not ready while everything is still served. Then
 * it closes: requests on connections still open get 503.
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
    // A response that began before it closes leaves its connection open, and the server would wait for it.
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
