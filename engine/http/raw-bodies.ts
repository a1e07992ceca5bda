import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

/**
 * Passes every body to its handler as bytes. Permissions must be checked before a body is parsed, and
 * Fastify's parsers would round numbers, repair invalid UTF-8 and reject an empty DELETE.
 */
export const rawBodies = fastifyPlugin(
  async (app: FastifyInstance) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    app.decorateRequest('principal', null);
  },
  { name: 'raw-bodies', fastify: '5.x' },
);
