import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { UserError } from '../../engine/errors.ts';
import { createAdminServer } from '../../plugins/operations/monitoring/index.ts';
import type { Config } from '../config.ts';

/**
 * Starts listening.
 * @param prefix prefix of the environment variables for host and port, used in messages
 * @throws UserError with a one-line message if listening fails
 */
export async function listen(
  app: { readonly listen: (address: Pick<Config, 'host' | 'port'>) => Promise<string> },
  { host, port }: Pick<Config, 'host' | 'port'>,
  prefix: string,
): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const reasons: Readonly<Record<string, string>> = {
      EADDRINUSE: `port ${port} on ${host} is already in use. Choose another with ${prefix}PORT`,
      EACCES: `port ${port} needs more privileges than this process has. Choose another with ${prefix}PORT`,
      EADDRNOTAVAIL: `${host} is not an IP address of this machine. Choose another with ${prefix}HOST`,
      ENOTFOUND: `${host} is not an IP address of this machine. Choose another with ${prefix}HOST`,
    };
    throw new UserError(reasons[code ?? ''] ?? `cannot listen: ${message}`, { cause });
  }
}

/** Returns a server's URL for clients on this machine. */
export function urlOf({ server }: Pick<FastifyInstance, 'server'>, host: string): string {
  const { port } = server.address() as AddressInfo;
  const isAnywhere = host === '0.0.0.0' || host === '::';
  return `http://${isAnywhere ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** The listener of the admin port. */
export interface AdminListener {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** Starts listening on the admin port if ADMIN_PORT is set. */
export async function startAdminListener(
  { adminPort, adminHost }: Config,
  sources: Parameters<typeof createAdminServer>[0],
): Promise<AdminListener | undefined> {
  if (adminPort === undefined) return undefined;
  const app = await createAdminServer(sources);
  await listen(app, { host: adminHost, port: adminPort }, 'ADMIN_');
  return { url: urlOf(app, adminHost), close: () => app.close() };
}
