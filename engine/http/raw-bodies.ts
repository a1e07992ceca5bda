import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

/**
 * Hands bodies on as bytes, whatever their Content-Type: who may write is judged before what was sent, and
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
