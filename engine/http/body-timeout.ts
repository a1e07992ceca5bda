import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route streams its body and limits its time itself. */
    isStreamed?: true;
  }
}

/** Maximum duration of a request body, in milliseconds. */
const limitMs = 15_000;

/**
 * Rejects bodies that take too long. Node's own `requestTimeout` cannot differ between routes.
 */
export const bodyTimeout = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.addHook('onRequest', ({ raw, routeOptions }, _reply, done) => {
      const { 'content-length': length = '0', 'transfer-encoding': encoding } = raw.headers;
      const hasBody = encoding !== undefined || length !== '0';
      if (hasBody && routeOptions.config.isStreamed !== true) {
        const late = setTimeout(() => {
          const error = Object.assign(new Error('the request body timed out'), {
            code: 'ERR_HTTP_REQUEST_TIMEOUT',
          });
          app.server.emit('clientError', error, raw.socket);
        }, limitMs);
        // Emitted when the body is complete or the connection closes.
        raw.once('close', () => clearTimeout(late));
      }
      done();
    });
  },
  { name: 'body-timeout', fastify: '5.x' },
);
