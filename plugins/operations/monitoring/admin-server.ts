import type { FastifyInstance } from 'fastify';
import type { FamilyValues } from './families.ts';
import type { ReadinessReport } from './readiness.ts';

/** Functions that provide the data for the admin port's responses. */
interface AdminReports {
  /** Returns the reason the process should be restarted, or undefined if it is working. */
  readonly liveness: () => string | undefined;
  readonly readiness: () => Promise<ReadinessReport>;
  /** Returns each process's metric families. */
  readonly metrics: () => Promise<readonly (readonly FamilyValues[])[]>;
}

/**
 * Creates the server for the admin port, which operators, load balancers and monitoring systems use. It does
 * not authenticate clients. `/livez` reports whether the process works, and `/readyz` reports whether it
 * should receive requests. Both respond with JSON and status 200 or 503. `/metrics` responds in the
 * Prometheus format.
 */
export async function createAdminServer({
  liveness,
  readiness,
  metrics,
}: AdminReports): Promise<FastifyInstance> {
  const { default: fastify } = await import('fastify');
  const app = fastify({ requestTimeout: 5_000, bodyLimit: 1024, forceCloseConnections: true });
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('cache-control', 'no-store');
    done();
  });
  app.get('/livez', async (_request, reply) => {
    const problem = liveness();
    return problem === undefined
      ? { status: 'ok' }
      : reply.code(503).send({ error: `not alive: ${problem}` });
  });
  app.get('/readyz', async (_request, reply) => {
    const { checks: results, replicas, ...rest } = await readiness();
    const checks = problemOrOk(results);
    const report = { checks, ...(replicas && { replicas: problemOrOk(replicas) }), ...rest };
    const failing = Object.entries(results).flatMap(([name, problem]) =>
      problem === undefined ? [] : [name],
    );
    if (failing.length === 0) return { status: 'ready', ...report };
    return reply.code(503).send({ error: `not ready: ${failing.join(', ')}`, ...report });
  });
  app.get('/metrics', async (_request, reply) => {
    const { exposition } = await import('./exposition.ts');
    const [report, processes] = await Promise.all([readiness(), metrics()]);
    const { text, type } = await exposition(report, processes);
    return reply.type(type).send(text);
  });
  app.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'Not found' }));
  return app;
}

/** Returns the problem found by each check, or `ok` if the check passed. */
const problemOrOk = (problems: object): Record<string, string> =>
  Object.fromEntries(Object.entries(problems).map(([name, problem]) => [name, String(problem ?? 'ok')]));

/**
 * Sums the counters and histograms from several processes. Gauges are omitted, because their values are valid
 * only when measured.
 */
export async function countsOf(
  processes: readonly (readonly FamilyValues[])[],
): Promise<readonly FamilyValues[]> {
  return (await import('./exposition.ts')).counts(processes);
}
