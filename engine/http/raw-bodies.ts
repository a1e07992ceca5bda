import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

/**
 * Passes every body on as bytes. Permissions are checked before a body is read, and Fastify's own parsers would round
 * numbers, repair invalid UTF-8 and reject an empty DELETE.
 */
export const rawBodies = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    app.decorateRequest('principal', null);
  },
  { name: 'raw-bodies', fastify: '5.x' },
);
