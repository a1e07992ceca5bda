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
    const { checks: results, replicas, ...rest } = await readiness();
    const checks = passedOr(results);
    const report = { checks, ...(replicas && { replicas: passedOr(replicas) }), ...rest };
    const failing = Object.entries(results).flatMap(([name, problem]) =>
      problem === undefined ? [] : [name],
    );
    if (failing.length === 0) return { status: 'ready', ...report };
    return reply.code(503).send({ error: `not ready: ${failing.join(', ')}`, ...report });
  });
  app.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'not found' }));
  return app;
}

/** Each problem, or `ok`. */
const passedOr = (problems: object): Record<string, string> =>
  Object.fromEntries(Object.entries(problems).map(([name, problem]) => [name, String(problem ?? 'ok')]));
