// Soak: a constant rate of requests over many organizations for some minutes, and whether the service stays as it is.
// Requests begin when they are due, however slow the ones before are, and their latency counts from that moment.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { readConfig } from '../app/config.ts';
import { openDatabase } from '../engine/database/open.ts';
import { formatTable } from '../engine/modules/command-line.ts';
import { makeDatabase, startPostgres } from '../test/support/postgres.ts';
import { quantile } from './load.ts';
import { createOrganizations } from './seed.ts';
import { startBenchService } from './service.ts';
import type { Report } from './soak-probe.ts';
import { type Client, makeClient, nextRequest } from './soak-requests.ts';

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    /** Requests in a second. */
    rate: { type: 'string', default: '200' },
    organizations: { type: 'string', default: '50' },
    /** Seconds of each line of the table. */
    window: { type: 'string', default: '60' },
  },
});
const totalMs = Math.min(10, Number(options.minutes)) * 60_000;
const windowMs = Number(options.window) * 1000;
const rate = Number(options.rate);
/** How much a figure may change over the run, as a part of its mean. */
const tolerance = 0.05;

/** What is collected within one line of the table. */
interface Window {
  readonly latencies: number[];
  readonly reports: Report[];
  readonly failed: Map<string, number>;
}
const windows: Window[] = Array.from({ length: Math.ceil(totalMs / windowMs) }, () => ({
  latencies: [],
  reports: [],
  failed: new Map(),
}));

/** Sends requests at their times until the end. */
async function drive(
  clients: readonly Client[],
  windowAt: (ms: number) => Window | undefined,
): Promise<void> {
  const began = performance.now();
  const pending = new Set<Promise<void>>();
  for (let number = 0; ; ) {
    const elapsed = performance.now() - began;
    if (elapsed >= totalMs) break;
    for (; number < (elapsed / 1000) * rate; number++) {
      const due = (number / rate) * 1000;
      const client = clients[Math.floor(Math.random() * clients.length)];
      if (client === undefined) continue;
      const sent = nextRequest(client).then((outcome) => {
        const window = windowAt(due);
        window?.latencies.push(performance.now() - began - due);
        if (outcome !== undefined) window?.failed.set(outcome, (window.failed.get(outcome) ?? 0) + 1);
      });
      pending.add(sent);
      sent.finally(() => pending.delete(sent));
    }
    await pause(1);
  }
  await Promise.race([Promise.all(pending), pause(30_000)]);
}

/** The change over the run of the straight line through values, as a part of their mean. */
function change(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const middle = (values.length - 1) / 2;
  let [above, below] = [0, 0];
  for (const [index, value] of values.entries()) {
    above += (index - middle) * (value - mean);
    below += (index - middle) ** 2;
  }
  return below === 0 ? 0 : ((above / below) * (values.length - 1)) / mean;
}

const mb = (bytes: number) => bytes / 2 ** 20;
/** The figures of a line; the heap is what is left after a collection of garbage, so its least. */
const figuresOf = ({ latencies, reports }: Window) => ({
  'p50 ms': quantile(latencies, 0.5),
  'p99 ms': quantile(latencies, 0.99),
  'max ms': Math.max(...latencies),
  'RSS MB': quantile(
    reports.map(({ rss }) => mb(rss)),
    0.5,
  ),
  'heap MB': Math.min(...reports.map(({ heap }) => mb(heap))),
  'loop delay ms, median': quantile(
    reports.map(({ delay }) => delay),
    0.5,
  ),
  max: Math.max(...reports.map(({ delay }) => delay)),
});
const compared = ['p50 ms', 'p99 ms', 'RSS MB', 'heap MB', 'loop delay ms, median'] as const;

function report(): string {
  const lines = windows.filter(({ latencies, reports }) => latencies.length > 0 && reports.length > 0);
  const figures = lines.map(figuresOf);
  const rows = lines.map(({ latencies, failed }, index) => [
    `${(((index + 1) * windowMs) / 60_000).toFixed(1)}`,
    String(latencies.length),
    [...failed].map(([outcome, count]) => `${count} × ${outcome}`).join(', ') || '0',
    ...Object.values(figures[index] ?? {}).map((value) => value.toFixed(1)),
  ]);
  // The first tenth warms up: code is compiled, and connections and caches fill.
  const steady = figures.slice(Math.ceil(figures.length / 10));
  const verdicts = compared.map((name) => {
    const part = change(steady.map((each) => each[name]));
    const verdict = Math.abs(part) <= tolerance ? 'flat' : part < 0 ? 'falls' : 'rises';
    return `${name}: ${verdict} (${(part * 100).toFixed(1)} % over the run)`;
  });
  const head = ['minute', 'requests', 'failed', ...Object.keys(figures[0] ?? {})];
  return `${formatTable(head, rows)}\n\n${verdicts.join('\n')}\n`;
}

const folder = mkdtempSync(join(tmpdir(), 'crm-soak-'));
const server = await startPostgres({ shared_buffers: '256MB', max_wal_size: '2GB' });
try {
  const { url } = await makeDatabase(server.url);
  const environment = { DATABASE_URL: url, DATA_DIR: folder, MIGRATE_ON_START: 'true' };
  const probe = new URL('soak-probe.ts', import.meta.url).href;
  const service = await startBenchService(environment, ['--import', probe]);
  try {
    const config = readConfig(environment);
    const database = await openDatabase(config, []);
    const keys = await createOrganizations(database, config.keyPrefix, Number(options.organizations));
    await database.close();
    const { email = '', password = '' } = service.printed;
    const clients = keys.map((key) => makeClient(service.url, key, { email, password }));
    process.stderr.write(
      `${rate} requests/s in ${keys.length} organizations for ${totalMs / 60_000} minutes …\n`,
    );
    const began = performance.now();
    const windowAt = (ms: number) => windows[Math.floor(ms / windowMs)];
    service.process.on('message', (message: Report) =>
      windowAt(performance.now() - began)?.reports.push(message),
    );
    await Promise.race([
      drive(clients, windowAt),
      once(service.process, 'exit').then(() => Promise.reject(new Error('the service ended'))),
    ]);
    process.stdout.write(report());
  } finally {
    await service.stop();
  }
} finally {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit();
