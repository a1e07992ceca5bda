// Workers: measures the cost and benefit of a second process. Each worker is limited to half a core by being
// stopped half of the time, so that a machine with two cores has room for two workers, PostgreSQL and the
// load generator.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import autocannon from 'autocannon';
import { formatTable } from '../engine/modules/command-line.ts';
import { makeDatabase, startPostgres } from '../test/support/postgres.ts';
import { cpuOf } from './cpu.ts';
import { inTurn, median } from './load.ts';
import { type Service, startBenchService } from './service.ts';

const { values: options } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, seconds: { type: 'string', default: '3' } },
});
const [rounds, seconds] = [Number(options.rounds), Number(options.seconds)];
/**
 * Number of connections per worker. With fewer connections, fewer requests are batched, which makes each request more
 * expensive.
 */
const connections = 32;
/** Time that a worker limited to half a core runs before it is stopped for just as long, in milliseconds. */
const sliceMs = 20;

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number);
/** Returns the IDs of the processes that serve requests, which are the service's workers or the service itself. */
const servingPids = ({ pid, printed }: Service): number[] =>
  printed.workers === undefined ? [pid] : childrenOf(pid);

/**
 * Performs work while each process is limited to half a core. If there are two processes, one runs while the
 * other is stopped.
 */
async function withHalfCores<T>(pids: readonly number[], work: () => Promise<T>): Promise<T> {
  let isDone = false;
  const alternate = async () => {
    for (let round = 0; !isDone; round++) {
      for (const [index, pid] of pids.entries())
        process.kill(pid, index % 2 === round % 2 ? 'SIGSTOP' : 'SIGCONT');
      await pause(sliceMs);
    }
    for (const pid of pids) process.kill(pid, 'SIGCONT');
  };
  const alternation = alternate();
  try {
    return await work();
  } finally {
    isDone = true;
    await alternation;
  }
}

interface Round {
  readonly rate: number;
  /** CPU time used per request by all of the service's processes, in microseconds. */
  readonly cpu: number;
}

async function round(service: Service): Promise<Round> {
  const serving = servingPids(service);
  const pids = [...new Set([service.pid, ...serving])];
  const before = cpuOf(pids);
  const result = await autocannon({
    url: `${service.url}/api/v1/leads`,
    connections: connections * serving.length,
    duration: seconds,
    headers: { authorization: `Bearer ${service.printed.key}` },
  });
  if (result.non2xx + result.errors > 0)
    throw new Error(`${result.non2xx} refusals, ${result.errors} errors`);
  return {
    rate: result.requests.total / result.duration,
    cpu: (cpuOf(pids) - before) / result.requests.total,
  };
}

const folder = mkdtempSync(join(tmpdir(), 'crm-workers-'));
const server = await startPostgres({ shared_buffers: '128MB' });
const services: Service[] = [];
try {
  for (const workers of ['1', '2']) {
    const { url } = await makeDatabase(server.url);
    const environment = { DATABASE_URL: url, DATA_DIR: folder, MIGRATE_ON_START: 'true', WORKERS: workers };
    services.push(await startBenchService(environment));
  }
  const results = await inTurn(rounds, services, async (service) => ({
    free: await round(service),
    held: await withHalfCores(servingPids(service), () => round(service)),
  }));
  const unlimited = results.map((roundResults) => roundResults.map((result) => result.free));
  const limited = results.map((roundResults) => roundResults.map((result) => result.held));
  const medianOf = (roundResults: readonly Round[] | undefined, key: keyof Round) =>
    median((roundResults ?? []).map((result) => result[key]));
  const rows = ['1', '2'].map((workers, index) => [
    workers,
    medianOf(unlimited[index], 'rate').toFixed(0),
    medianOf(unlimited[index], 'cpu').toFixed(0),
    medianOf(limited[index], 'rate').toFixed(0),
    medianOf(limited[index], 'cpu').toFixed(0),
  ]);
  const head = ['workers', 'requests/s', 'CPU µs', 'half a core each: requests/s', 'CPU µs'];
  const cpu = medianOf(unlimited[1], 'cpu') / medianOf(unlimited[0], 'cpu');
  const rate = medianOf(limited[1], 'rate') / medianOf(limited[0], 'rate');
  const verdicts = [
    `CPU of a request by two workers: ${cpu.toFixed(2)}× of one, target ≤ 1.05×: ${cpu <= 1.05 ? 'met' : 'missed'}`,
    `two workers on half a core each: ${rate.toFixed(2)}× of one, target ≥ 1.8×: ${rate >= 1.8 ? 'met' : 'missed'}`,
  ];
  process.stdout.write(`${formatTable(head, rows)}\n\n${verdicts.join('\n')}\n`);
} finally {
  for (const service of services) await service.stop();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit();
