import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { errors } from '../engine/errors.ts';

/**
 * While the process stops, what comes on connections still open is told to go elsewhere, and no connection
 * outlives the answer it waits for.
 */
export const draining = fastifyPlugin(
  async (app: FastifyInstance) => {
    let stopping = false;
    app.addHook('preClose', async () => {
      stopping = true;
    });
    app.addHook('onRequest', (_request, _reply, done) => done(stopping ? errors.draining() : undefined));
    app.addHook('onSend', (_request, reply, payload, done) => {
      if (stopping) reply.header('connection', 'close');
      done(null, payload);
    });
  },
  { name: 'draining', fastify: '5.x', dependencies: ['errors'] },
);
