import type { FastifyInstance } from 'fastify';

/** Listens on any port of loopback and tells the parent which. */
export async function listening(app: FastifyInstance): Promise<void> {
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  process.send?.({ url });
}
