// Bench: the engine, a hand-written handler and MikroORM's em.find, in one run on one real PostgreSQL.
// May import engine/ and the test support that starts a server.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { formatTable } from '../engine/modules/command-line.ts';
import { makeDatabase, startPostgres } from '../test/support/postgres.ts';
import { eventsReport, measureEvents } from './events.ts';
import { type Figure, goalsReport } from './goals.ts';
import { growthReport, measureGrowth } from './growth.ts';
import { bareCost, byKey, type Dialect, inTurn, median, operations, type Round, round } from './load.ts';
import { rows, seed, seededOrganization, seededOrganizations } from './seed.ts';
import { flags } from './service.ts';
import { measureStarts, startReport } from './start.ts';
import { profiling, type RunningTarget, startTarget } from './target.ts';

const { values: options } = parseArgs({
  options: {
    json: { type: 'string' },
    quick: { type: 'boolean', default: false },
    /** A part of the operations, by their names with a comma between. */
    only: { type: 'string', default: [...Object.keys(operations), 'growth', 'start', 'events'].join() },
    connections: { type: 'string', default: '16' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    /** A folder for a CPU profile of each target. */
    profile: { type: 'string' },
  },
});
const rounds = Number(options.rounds ?? (options.quick ? 1 : 7));
const seconds = Number(options.seconds ?? (options.quick ? 0.3 : 3));
const connections = Number(options.connections);
const chosen = Object.keys(operations).filter((name) => options.only.split(',').includes(name));

interface Target {
  readonly name: string;
  readonly script: string;
  /** Flags of Node. */
  readonly flags?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly dialect: (keys: readonly string[]) => Dialect;
  readonly operations: readonly string[];
}

const byQuery: Dialect = {
  path: '/leads',
  query: (organization) => `organization=${organization}`,
  headers: () => ({}),
};
const common = Object.entries(operations).flatMap(([name, { isOurs }]) => (isOurs ? [] : [name]));

const targets: readonly Target[] = [
  { name: 'engine', script: 'engine', flags, dialect: byKey, operations: Object.keys(operations) },
  {
    name: 'engine, no activity',
    script: 'engine',
    flags,
    environment: { AUDIT: 'false' },
    dialect: byKey,
    operations: ['POST', 'PUT', 'DELETE'],
  },
  { name: 'hand-written', script: 'hand-written', dialect: () => byQuery, operations: common },
  { name: 'em.find', script: 'orm', dialect: () => byQuery, operations: common },
];

interface Running extends Target, RunningTarget {
  readonly spoken: Dialect;
}

async function start(
  target: Target,
  databaseUrl: string,
  folder: string,
  keys: readonly string[],
): Promise<Running> {
  const profile = options.profile === undefined ? [] : profiling(options.profile, target.name);
  const environment = { DATABASE_URL: databaseUrl, DATA_DIR: folder, ...target.environment };
  const started = await startTarget(target.script, environment, [...(target.flags ?? []), ...profile]);
  return { ...target, ...started, spoken: target.dialect(keys) };
}

/** Every target must answer the same for the same record and list, or the figures compare nothing. */
async function assertEquivalent(all: readonly Running[]): Promise<void> {
  const normal = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value), (_key, each) =>
      typeof each === 'string' && /^\d{4}-\d\d-\d\dT/.test(each) ? Date.parse(each) : each,
    );
  for (const path of ['/8', '']) {
    const answers = await Promise.all(
      all.map(async ({ url, spoken }) => {
        const response = await fetch(`${url}${spoken.path}${path}?${spoken.query(seededOrganization(8))}`, {
          headers: spoken.headers(seededOrganization(8)),
        });
        return normal(await response.json());
      }),
    );
    const [first, ...others] = answers.map((answer) => JSON.stringify(sorted(answer)));
    for (const [index, other] of others.entries()) {
      if (other !== first) throw new Error(`${all[index + 1]?.name} answers otherwise:\n${first}\n${other}`);
    }
  }
}

/** Keys in one order, all the way down. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, each]) => [key, sorted(each)]),
  );
}

async function measure(all: readonly Running[], databaseUrl: string): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const operation of chosen) {
    const taking = all.filter((target) => target.operations.includes(operation));
    const results = await inTurn(rounds, taking, (target) => {
      const load = { url: target.url, databaseUrl, dialect: target.spoken, seconds, connections, rows };
      const measured = { server: () => [target.process.pid ?? 0], database: server.processes };
      return round(operation, load, measured);
    });
    for (const [index, { name }] of taking.entries()) {
      const of = (key: keyof Round) => median((results[index] ?? []).map((each) => each[key]));
      figures.push({
        target: name,
        operation,
        rate: of('rate'),
        p50: of('p50'),
        p99: of('p99'),
        server: of('server'),
        database: of('database'),
      });
    }
  }
  return figures;
}

/** Statements that find the ids of the same records without anything else. */
const bare: Readonly<Record<string, string>> = {
  'page 900':
    'select id from leads where organization_id = 1 order by created_at desc, id desc limit 20 offset 17980',
  'order without index': 'select id from leads where organization_id = 1 order by company limit 20',
};

async function measureBare(databaseUrl: string): Promise<Record<string, number>> {
  const costs: Record<string, number> = {};
  for (const operation of chosen) {
    const text = bare[operation];
    if (text !== undefined)
      costs[operation] = await bareCost(text, { databaseUrl, seconds }, server.processes);
  }
  return costs;
}

function report(figures: readonly Figure[], costs: Readonly<Record<string, number>>): string {
  const figure = (target: string, operation: string) =>
    figures.find((each) => each.target === target && each.operation === operation);
  /** How many times better the engine is; more is better for rates, less for CPU time. */
  const ratios = (operation: string, target: string) => {
    const [ours, theirs] = [figure('engine', operation), figure(target, operation)];
    if (ours === undefined || theirs === undefined) return ['', ''];
    const cpu = (theirs.server + theirs.database) / (ours.server + ours.database);
    return [`${(ours.rate / theirs.rate).toFixed(2)}×`, `${cpu.toFixed(2)}×`];
  };
  const lines = figures.map((each) => [
    each.operation,
    each.target,
    each.rate.toFixed(0),
    each.p50.toFixed(1),
    each.p99.toFixed(1),
    each.server.toFixed(0),
    each.database.toFixed(0),
  ]);
  const others = ['hand-written', 'em.find', 'engine, no activity'];
  const compared = chosen
    .filter((operation) => figure('hand-written', operation) !== undefined)
    .map((operation) => [operation, ...others.flatMap((target) => ratios(operation, target))]);
  return `${formatTable(
    ['operation', 'target', 'requests/s', 'p50 ms', 'p99 ms', 'CPU µs, server', 'CPU µs, PostgreSQL'],
    lines,
  )}\n\n${formatTable(
    [
      'engine against',
      'hand-written, requests/s',
      'CPU',
      'em.find, requests/s',
      'CPU',
      'without activity, requests/s',
      'CPU',
    ],
    compared,
  )}\n\n${goalsReport({ of: figure, bare: costs })}`;
}

const machine = {
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: availableParallelism(),
  node: process.version,
  rows,
  organizations: seededOrganizations,
  connections,
  rounds,
  seconds,
  date: new Date().toISOString(),
};

const folder = mkdtempSync(join(tmpdir(), 'crm-bench-'));
const server = await startPostgres({
  fsync: 'on',
  shared_buffers: '512MB',
  max_connections: '200',
  max_wal_size: '4GB',
});
const running: Running[] = [];
try {
  const { url } = await makeDatabase(server.url);
  process.stderr.write(`seeding ${rows} leads in ${seededOrganizations} organizations …\n`);
  const keys = await seed(url);
  for (const target of targets) running.push(await start(target, url, folder, keys));
  await assertEquivalent(running);
  process.stderr.write(`measuring ${rounds} rounds of ${seconds} s for each target and operation …\n`);
  const figures = await measure(running, url);
  const costs = await measureBare(url);
  process.stdout.write(`${machine.cores} × ${machine.cpu}, Node ${machine.node}\n`);
  if (figures.length > 0) process.stdout.write(`\n${report(figures, costs)}\n`);
  for (const { process: child } of running.splice(0)) child.kill();
  const parts = options.only.split(',');
  const growth = parts.includes('growth')
    ? await measureGrowth(server, rounds, { seconds, connections })
    : [];
  if (growth.length > 0) process.stdout.write(`\n${growthReport(growth)}\n`);
  const empty = await makeDatabase(server.url);
  const starts = parts.includes('start') ? await measureStarts(empty.url, rounds) : [];
  if (starts.length > 0) process.stdout.write(`\n${startReport(starts)}\n`);
  const events = parts.includes('events')
    ? await measureEvents((await makeDatabase(server.url)).url, seconds, options.quick ? 2000 : 100_000)
    : undefined;
  if (events !== undefined) process.stdout.write(`\n${eventsReport(events)}\n`);
  if (options.json !== undefined)
    writeFileSync(
      options.json,
      JSON.stringify({ machine, figures, bare: costs, growth, starts, events }, null, 2),
    );
} finally {
  for (const { process: child } of running) child.kill();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
