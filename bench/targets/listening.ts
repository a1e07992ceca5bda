import type { FastifyInstance } from 'fastify';

/** Listens on any port of loopback and tells the parent which. */
export async function listening(app: FastifyInstance): Promise<void> {
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  // A profile is written when the process exits by itself.
  process.once('SIGTERM', () => process.exit());
  process.send?.({ url });
}
