import type { FastifyInstance } from 'fastify';
import type { FamilyValues } from './families.ts';
import type { ReadinessReport } from './readiness.ts';

/** What the operators' port tells. */
export interface OperationsReport {
  /** Why the process should be restarted; undefined if it should not. */
  readonly liveness: () => string | undefined;
  readonly readiness: () => Promise<ReadinessReport>;
  /** What operators watch, of each process. */
  readonly metrics: () => Promise<readonly (readonly FamilyValues[])[]>;
}

/**
 * For operators, balancers and monitoring on a separate port, without credentials: `/livez`, whether the process works,
 * and `/readyz`, whether it should get requests, both in JSON with 200 or 503; `/metrics`, in the format of Prometheus.
 */
export async function operations({
  liveness,
  readiness,
  metrics,
}: OperationsReport): Promise<FastifyInstance> {
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
    const checks = passedOr(results);
    const report = { checks, ...(replicas && { replicas: passedOr(replicas) }), ...rest };
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

/** Each problem, or `ok`. */
const passedOr = (problems: object): Record<string, string> =>
  Object.fromEntries(Object.entries(problems).map(([name, problem]) => [name, String(problem ?? 'ok')]));

/** What is counted, of several processes, without what is true at one moment only. */
export async function countsOf(
  processes: readonly (readonly FamilyValues[])[],
): Promise<readonly FamilyValues[]> {
  return (await import('./exposition.ts')).counts(processes);
}
