import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route reads its body as a stream and has a time limit of its own for it. */
    isStreamed?: true;
  }
}

/** The longest time for a body, in milliseconds. */
const limitMs = 15_000;

/**
 * Refuses bodies that take too long, as Node does itself with `requestTimeout`, which cannot differ between routes.
 */
export const bodyTimeout = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.addHook('onRequest', ({ raw, routeOptions }, _reply, done) => {
      const { 'content-length': length = '0', 'transfer-encoding': encoding } = raw.headers;
      const hasBody = encoding !== undefined || length !== '0';
      if (hasBody && routeOptions.config.isStreamed !== true) {
        const late = setTimeout(() => {
          const error = Object.assign(new Error('the body came too slowly'), {
            code: 'ERR_HTTP_REQUEST_TIMEOUT',
          });
          app.server.emit('clientError', error, raw.socket);
        }, limitMs);
        // When it is complete, or its connection is gone.
        raw.once('close', () => clearTimeout(late));
      }
      done();
    });
  },
  { name: 'body-timeout', fastify: '5.x' },
);
