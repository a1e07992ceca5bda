import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { errors } from '../engine/errors.ts';

/** While the process stops, what comes on connections still open is told to go elsewhere. */
export const draining = fastifyPlugin(
  async (app: FastifyInstance) => {
    let stopping = false;
    app.addHook('preClose', async () => {
      stopping = true;
    });
    app.addHook('onRequest', (_request, _reply, done) => done(stopping ? errors.draining() : undefined));
  },
  { name: 'draining', fastify: '5.x', dependencies: ['errors'] },
);
