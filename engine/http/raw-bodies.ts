import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

/**
 * Passes bodies on as bytes for every Content-Type: permissions are checked before the body is read, and
 * Fastify's own parsers would round numbers, repair broken UTF-8 and refuse an empty DELETE.
 */
export const rawBodies = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    app.decorateRequest('principal', null);
  },
  { name: 'raw-bodies', fastify: '5.x' },
);
