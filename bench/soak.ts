// Soak test: sends requests to many organizations at a constant rate for several minutes, and checks whether latency
// and memory stay flat. Requests start on schedule even if earlier requests are slow, and latency is measured from the
// scheduled time.
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
    /** Requests per second. */
    rate: { type: 'string', default: '200' },
    organizations: { type: 'string', default: '50' },
    /** Duration covered by each line of the table, in seconds. */
    window: { type: 'string', default: '60' },
  },
});
const totalMs = Math.min(10, Number(options.minutes)) * 60_000;
const windowMs = Number(options.window) * 1000;
const rate = Number(options.rate);
/** Maximum change in a figure over the run, as a fraction of its mean. */
const tolerance = 0.05;

/** Data for one line of the table. */
interface Window {
  readonly latencies: number[];
  readonly reports: Report[];
  readonly failures: Map<string, number>;
}
const windows: Window[] = Array.from({ length: Math.ceil(totalMs / windowMs) }, () => ({
  latencies: [],
  reports: [],
  failures: new Map(),
}));

/** Sends requests on schedule until the end of the run. */
async function sendOnSchedule(
  clients: readonly Client[],
  windowAt: (ms: number) => Window | undefined,
): Promise<void> {
  const startedAt = performance.now();
  const pending = new Set<Promise<void>>();
  for (let sentCount = 0; ; ) {
    const elapsed = performance.now() - startedAt;
    if (elapsed >= totalMs) break;
    for (; sentCount < (elapsed / 1000) * rate; sentCount++) {
      const due = (sentCount / rate) * 1000;
      const client = clients[Math.floor(Math.random() * clients.length)];
      if (client === undefined) continue;
      const request = nextRequest(client).then((outcome) => {
        const window = windowAt(due);
        window?.latencies.push(performance.now() - startedAt - due);
        if (outcome !== undefined) window?.failures.set(outcome, (window.failures.get(outcome) ?? 0) + 1);
      });
      pending.add(request);
      request.finally(() => pending.delete(request));
    }
    await pause(1);
  }
  await Promise.race([Promise.all(pending), pause(30_000)]);
}

/** Fits a line to the values and returns its change over the run, as a fraction of their mean. */
function trend(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const middle = (values.length - 1) / 2;
  let [numerator, denominator] = [0, 0];
  for (const [index, value] of values.entries()) {
    numerator += (index - middle) * (value - mean);
    denominator += (index - middle) ** 2;
  }
  return denominator === 0 ? 0 : ((numerator / denominator) * (values.length - 1)) / mean;
}

const toMb = (bytes: number) => bytes / 2 ** 20;
/**
 * Returns the figures for one line of the table. The minimum heap size is the size after garbage collection.
 */
const figuresOf = ({ latencies, reports }: Window) => ({
  'p50 ms': quantile(latencies, 0.5),
  'p99 ms': quantile(latencies, 0.99),
  'max ms': Math.max(...latencies),
  'RSS MB': quantile(
    reports.map(({ rss }) => toMb(rss)),
    0.5,
  ),
  'heap MB': Math.min(...reports.map(({ heap }) => toMb(heap))),
  'loop delay ms, median': quantile(
    reports.map(({ delay }) => delay),
    0.5,
  ),
  max: Math.max(...reports.map(({ delay }) => delay)),
});
const comparedFigures = ['p50 ms', 'p99 ms', 'RSS MB', 'heap MB', 'loop delay ms, median'] as const;

function report(): string {
  const lines = windows.filter(({ latencies, reports }) => latencies.length > 0 && reports.length > 0);
  const figures = lines.map(figuresOf);
  const rows = lines.map(({ latencies, failures }, index) => [
    `${(((index + 1) * windowMs) / 60_000).toFixed(1)}`,
    String(latencies.length),
    [...failures].map(([outcome, count]) => `${count} × ${outcome}`).join(', ') || '0',
    ...Object.values(figures[index] ?? {}).map((value) => value.toFixed(1)),
  ]);
  // Ignore the first tenth, during which code is compiled, connections are opened and caches fill up.
  const steady = figures.slice(Math.ceil(figures.length / 10));
  const verdicts = comparedFigures.map((name) => {
    const relativeChange = trend(steady.map((figure) => figure[name]));
    const verdict = Math.abs(relativeChange) <= tolerance ? 'flat' : relativeChange < 0 ? 'falls' : 'rises';
    return `${name}: ${verdict} (${(relativeChange * 100).toFixed(1)} % over the run)`;
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
    const startedAt = performance.now();
    const windowAt = (ms: number) => windows[Math.floor(ms / windowMs)];
    service.process.on('message', (message: Report) =>
      windowAt(performance.now() - startedAt)?.reports.push(message),
    );
    await Promise.race([
      sendOnSchedule(clients, windowAt),
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
