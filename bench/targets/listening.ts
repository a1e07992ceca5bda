import type { FastifyInstance } from 'fastify';

/** Listens on a free port of the loopback interface and sends the URL to the parent process. */
export async function listenAndReport(app: FastifyInstance): Promise<void> {
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  // A CPU profile is written only if the process calls exit.
  process.once('SIGTERM', () => process.exit());
  process.send?.({ url });
}
