// Starve: measures how an organization is affected by another organization that sends as many expensive requests as
// possible. Uses one PostgreSQL server and one engine process with a heap of 512 MB.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import autocannon from 'autocannon';
import { readConfig } from '../app/config.ts';
import { entitiesFor } from '../app/instance.ts';
import { loadResources } from '../app/serve/build.ts';
import { openDatabase } from '../engine/database/open.ts';
import { commandLine } from '../engine/effects/actor.ts';
import { formatTable } from '../engine/modules/command-line.ts';
import { transaction } from '../engine/tables/handle.ts';
import { createKey } from '../plugins/access/api-keys/keys.ts';
import { profileId } from '../plugins/access/profiles/profiles.ts';
import { createOrganization } from '../plugins/tenants/organizations/organizations.ts';
import { makeDatabase, startPostgres } from '../test/support/postgres.ts';
import { createTables } from '../test/support/tables.ts';
import { median, quantile } from './load.ts';

const { values: options } = parseArgs({ options: { readers: { type: 'boolean', default: false } } });
const seconds = 5;
const rounds = options.readers ? 0 : 3;
const greedyConnections = 64;
const slowReaders = 500;
const worstQuery = `sort=description&dir=desc&${Array.from({ length: 50 }, (_, n) => `status=Status+${n}`).join('&')}`;

/**
 * Creates organizations with 300,000 leads, 4,000 leads, and two tables of large records.
 * @returns an API key for each
 */
async function seedOrganizations(databaseUrl: string): Promise<readonly string[]> {
  const config = readConfig({ DATABASE_URL: databaseUrl, DATABASE_STATEMENT_TIMEOUT_MS: '120000' });
  const database = await openDatabase(config, entitiesFor(await loadResources(config)));
  await createTables(database);
  const actor = commandLine({ audit: false });
  const keys: string[] = [];
  for (const slug of ['greedy', 'modest', 'slow']) {
    const key = await transaction(database, async (tables) => {
      const organization = await createOrganization(tables, actor, slug, slug);
      const profile = await profileId(tables, organization, 'administrator');
      const options = { organization, profile, name: 'bench', user: null, onBehalfOf: null, expiresAt: null };
      return createKey(tables, actor, config.keyPrefix, options);
    });
    keys.push(key.plaintext);
  }
  const em = database.orm.em.fork();
  const leads = (organization: number, firstId: number, count: number) =>
    em.execute(`insert into leads (organization_id, id, created_at, updated_at, last_name, status, description)
      select ${organization}, n, now() - n * interval '1 minute', now(), 'Last ' || n, 'Status ' || n % 100,
        md5(n::text) || ' is a description of lead ' || n || ', about as long as people write them.'
      from generate_series(${firstId}, ${firstId + count - 1}) n`);
  await leads(1, 1, options.readers ? 1000 : 300_000);
  await leads(2, 400_001, 4000);
  const large = (name: string, organization: number, bytes: number) =>
    em.execute(`insert into ${name} (organization_id, created_at, updated_at, description)
      select ${organization}, now(), now(), repeat('x', ${bytes}) from generate_series(1, 20)`);
  await large('accounts', 3, 50_000);
  await large('contacts', 3, 1_000_000);
  await em.execute('vacuum analyze');
  await database.close();
  return keys;
}

interface Load {
  readonly p50: number;
  readonly p99: number;
  readonly rate: number;
  /** Number of responses by status. */
  readonly statuses: Readonly<Record<string, number>>;
}

/** Sends GET requests for single records in the modest organization over 16 connections. */
async function modestLoad(url: string, key: string): Promise<Load> {
  return load(url, 16, key, () => `/api/v1/leads/${400_001 + Math.floor(Math.random() * 4000)}`, seconds);
}

function load(url: string, connections: number, key: string, path: () => string, forSeconds: number) {
  const statuses: Record<string, number> = {};
  /** Exact response times in milliseconds. autocannon's histogram rounds them. */
  const times: number[] = [];
  return new Promise<Load>((resolve, reject) => {
    const requests = Array.from({ length: 200 }, () => ({
      method: 'GET' as const,
      path: path(),
      headers: { authorization: `Bearer ${key}` },
      onResponse: (status: number) => {
        statuses[status] = (statuses[status] ?? 0) + 1;
      },
    }));
    autocannon({ url, connections, duration: forSeconds, requests }, (error, result) => {
      if (error) return reject(error);
      resolve({ p50: median(times), p99: quantile(times, 0.99), rate: result.requests.average, statuses });
    }).on('response', (_client, _status, _bytes, milliseconds) => times.push(milliseconds));
  });
}

/** Returns the current and the maximum memory of a process, in MB. */
function memoryOf({ pid }: ChildProcess): { current: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const megabytes = (name: string) =>
    Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1024);
  return { current: megabytes('VmRSS'), peak: megabytes('VmHWM') };
}

/**
 * Opens connections that request a list and read a few bytes per second, or nothing if `bytesPerSecond` is 0.
 * @returns a function that closes them and returns the number of responses by status
 */
async function readSlowly(url: string, key: string, path: string, bytesPerSecond: number) {
  const { hostname, port } = new URL(url);
  const sockets: Socket[] = [];
  const responded = new Set<Socket>();
  const statuses: Record<string, number> = {};
  const readChunk = (socket: Socket, bytes: number) => {
    const chunk = socket.read(bytes) as Buffer | null;
    if (chunk === null || responded.has(socket)) return;
    responded.add(socket);
    // The status code in "HTTP/1.1 200".
    const status = chunk.toString('latin1', 9, 12);
    statuses[status] = (statuses[status] ?? 0) + 1;
  };
  for (let count = 0; count < slowReaders; count++) {
    const socket = new Socket({ highWaterMark: 1024 } as object);
    socket.on('error', () => {});
    socket.pause();
    socket.connect(Number(port), hostname);
    await once(socket, 'connect');
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    sockets.push(socket);
  }
  const timer = setInterval(() => {
    if (bytesPerSecond > 0) for (const socket of sockets) readChunk(socket, bytesPerSecond);
  }, 1000);
  return () => {
    clearInterval(timer);
    for (const socket of sockets) {
      readChunk(socket, 12);
      socket.destroy();
    }
    return statuses;
  };
}

const formatStatuses = (statuses: Load['statuses']) =>
  Object.entries(statuses)
    .map(([status, count]) => `${count} × ${status}`)
    .join(', ');

const folder = mkdtempSync(join(tmpdir(), 'crm-starve-'));
const server = await startPostgres({ fsync: 'on', shared_buffers: '512MB', max_connections: '100' });
let child: ChildProcess | undefined;
try {
  const { url: databaseUrl } = await makeDatabase(server.url);
  process.stderr.write('seeding 304,000 leads …\n');
  const [greedyKey = '', modestKey = '', slowKey = ''] = await seedOrganizations(databaseUrl);
  child = fork(join(import.meta.dirname, 'targets', 'engine.ts'), {
    execArgv: ['--max-old-space-size=512'],
    env: { ...process.env, DATABASE_URL: databaseUrl, DATA_DIR: folder, LOG_LEVEL: 'error' },
  });
  const target = child;
  const [message] = await once(target, 'message');
  const { url } = message as { url: string };
  const lines: string[][] = [];
  const addLine = (name: string, figures: Load, note: string) =>
    lines.push([
      name,
      figures.rate.toFixed(0),
      figures.p50.toFixed(1),
      figures.p99.toFixed(1),
      formatStatuses(figures.statuses),
      note,
    ]);

  await modestLoad(url, modestKey);
  const ratios: number[] = [];
  for (let count = 0; count < rounds; count++) {
    const alone = await modestLoad(url, modestKey);
    addLine('alone', alone, '');
    const greedyLoad = load(
      url,
      greedyConnections,
      greedyKey,
      () => `/api/v1/leads?${worstQuery}`,
      seconds + 2,
    );
    await pause(1000);
    const underLoad = await modestLoad(url, modestKey);
    addLine(
      `next to ${greedyConnections} worst lists`,
      underLoad,
      `lists: ${formatStatuses((await greedyLoad).statuses)}`,
    );
    ratios.push(underLoad.p99 / alone.p99);
  }
  const many = Array.from({ length: 1200 }, () => 'status=x').join('&');
  const rejection = await fetch(`${url}/api/v1/leads?${many}`, {
    headers: { authorization: `Bearer ${greedyKey}` },
  });
  for (const [name, path, rate] of [
    ['pages of 1 MB, 2 KiB/s', '/api/v1/accounts', 2048],
    ['pages of 20 MB, unread', '/api/v1/contacts', 0],
  ] as const) {
    const stopReading = await readSlowly(url, slowKey, path, rate);
    // Node.js accepts one connection per tick, so this request waits until the readers' connections have been
    // accepted.
    const requestedAt = performance.now();
    const [response] = (await once(get(`${url}/docs/openapi.json`, { agent: false }), 'response')) as [
      IncomingMessage,
    ];
    await once(response.resume(), 'end');
    const waitedMs = (performance.now() - requestedAt).toFixed(0);
    const underLoad = await modestLoad(url, modestKey);
    const { current, peak } = memoryOf(target);
    const note = `a new connection: ${waitedMs} ms; RSS ${current} MB, at most ${peak} MB; readers: ${formatStatuses(stopReading()) || 'none read'}`;
    addLine(`next to ${slowReaders} readers: ${name}`, underLoad, note);
  }
  const titles = ['GET by id of another organization', 'requests/s', 'p50 ms', 'p99 ms', 'responses', ''];
  process.stdout.write(`${formatTable(titles, lines)}\n\n`);
  process.stdout.write(`p99 next to the worst lists against alone: ${median(ratios).toFixed(2)}×\n`);
  process.stdout.write(`1,200 values of one filter: ${rejection.status}\n`);
  process.stdout.write(`the process is ${target.exitCode === null ? 'alive' : 'gone'}\n`);
} finally {
  child?.kill();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
