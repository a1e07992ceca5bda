import fastify, { type FastifyInstance } from 'fastify';
import type { ReadinessReport } from './readiness.ts';

/**
 * Health checks for operators and balancers on a separate port, without credentials: `/livez`, whether the process
 * runs, and `/readyz`, whether it should get requests. Both respond in JSON with 200 or 503.
 */
export function operations(readiness: () => Promise<ReadinessReport>): FastifyInstance {
  const app = fastify({ requestTimeout: 5_000, bodyLimit: 1024, forceCloseConnections: true });
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('cache-control', 'no-store');
    done();
  });
  app.get('/livez', async () => ({ status: 'ok' }));
  app.get('/readyz', async (_request, reply) => {
    const { checks: results, ...rest } = await readiness();
    const found = Object.entries(results);
    const checks = Object.fromEntries(found.map(([name, problem]) => [name, problem ?? 'ok']));
    const failing = found.flatMap(([name, problem]) => (problem === undefined ? [] : [name]));
    if (failing.length === 0) return { status: 'ready', checks, ...rest };
    return reply.code(503).send({ error: `not ready: ${failing.join(', ')}`, checks, ...rest });
  });
  app.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'not found' }));
  return app;
}
