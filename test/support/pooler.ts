// PgBouncer, as packaged by Debian, in front of a test's PostgreSQL.
import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, responding } from './postgres.ts';

const program = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/opt/homebrew/bin/pgbouncer'].find((path) =>
  existsSync(path),
);

/** The reason pooler tests cannot run on this machine, or false if they can. */
export const noPooler = program === undefined && 'no PgBouncer: install the package pgbouncer';

/** A running PgBouncer. */
export interface Pooler {
  /** URL of the same database through the pooler. */
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/**
 * Starts PgBouncer in transaction mode with three connections to the server.
 * @param database URL of a database
 * @param settings additional lines for its `[pgbouncer]` section
 */
export async function startPooler(
  database: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<Pooler> {
  for (let tries = 0; ; tries++) {
    try {
      return await startOnFreePort(database, settings);
    } catch (cause) {
      // Another process can take the port first.
      if (tries === 2) throw cause;
    }
  }
}

async function startOnFreePort(
  database: string,
  settings: Readonly<Record<string, string>>,
): Promise<Pooler> {
  const folder = mkdtempSync(join(tmpdir(), 'crm-pooler-'));
  chmodSync(folder, 0o755);
  const server = new URL(database);
  const port = await freePort();
  const users = join(folder, 'users.txt');
  writeFileSync(users, `"${server.username}" "${decodeURIComponent(server.password)}"\n`);
  const lines = Object.entries({
    listen_addr: '127.0.0.1',
    listen_port: String(port),
    unix_socket_dir: '',
    auth_type: 'scram-sha-256',
    auth_file: users,
    pool_mode: 'transaction',
    default_pool_size: '3',
    max_client_conn: '200',
    ...settings,
  }).map(([name, value]) => `${name} = ${value}`);
  const file = join(folder, 'pgbouncer.ini');
  writeFileSync(
    file,
    `[databases]\n* = host=127.0.0.1 port=${server.port}\n[pgbouncer]\n${lines.join('\n')}\n`,
  );
  // PgBouncer does not run as root. Neither does PostgreSQL, so its package has created a user.
  const user = process.getuid?.() === 0 ? ['-u', 'postgres'] : [];
  const pooler = spawn(String(program), [...user, file], { stdio: 'ignore' });
  const ended = new Promise((resolve) => pooler.once('exit', resolve));
  server.port = String(port);
  const stop = async () => {
    pooler.kill('SIGKILL');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  const failed = ended.then(() => {
    throw new Error('PgBouncer did not start');
  });
  await Promise.race([responding(server.href), failed]).catch(async (cause: unknown) => {
    await stop();
    throw cause;
  });
  return { url: server.href, stop };
}
