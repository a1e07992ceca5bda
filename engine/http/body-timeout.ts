import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route streams its body and enforces its own time limit. */
    isStreamed?: true;
  }
}

/** Maximum time to receive a request body, in milliseconds. */
const limitMs = 15_000;

/** Rejects bodies that take too long. Node's `requestTimeout` cannot differ between routes. */
export const bodyTimeout = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.addHook('onRequest', ({ raw, routeOptions }, _reply, done) => {
      const { 'content-length': length = '0', 'transfer-encoding': encoding } = raw.headers;
      const hasBody = encoding !== undefined || length !== '0';
      if (hasBody && routeOptions.config.isStreamed !== true) {
        const timer = setTimeout(() => {
          const error = Object.assign(new Error('the request body timed out'), {
            code: 'ERR_HTTP_REQUEST_TIMEOUT',
          });
          app.server.emit('clientError', error, raw.socket);
        }, limitMs);
        // Emitted when the body is complete or the connection is closed.
        raw.once('close', () => clearTimeout(timer));
      }
      done();
    });
  },
  { name: 'body-timeout', fastify: '5.x' },
);
