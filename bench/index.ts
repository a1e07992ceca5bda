// Bench: compares the engine, a hand-written handler and MikroORM's em.find in one run on the same PostgreSQL server.
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
import { measureScopes, scopesReport } from './scopes.ts';
import { filter, rows, seed, seededOrganization, seededOrganizations } from './seed.ts';
import { flags } from './service.ts';
import { measureStarts, startReport } from './start.ts';
import { profileFlags, type RunningTarget, startTarget } from './target.ts';
import { measureUpserts, upsertsReport } from './upserts.ts';

const { values: options } = parseArgs({
  options: {
    json: { type: 'string' },
    quick: { type: 'boolean', default: false },
    /** Comma-separated names of the operations to measure. */
    only: {
      type: 'string',
      default: [...Object.keys(operations), 'growth', 'scopes', 'upserts', 'start', 'events'].join(),
    },
    connections: { type: 'string', default: '16' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    /** Folder for the targets' CPU profiles. */
    profile: { type: 'string' },
  },
});
const rounds = Number(options.rounds ?? (options.quick ? 1 : 7));
const seconds = Number(options.seconds ?? (options.quick ? 0.3 : 3));
const connections = Number(options.connections);
const selectedOperations = Object.keys(operations).filter((name) => options.only.split(',').includes(name));

interface Target {
  readonly name: string;
  readonly script: string;
  /** Command-line flags of Node.js. */
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
  // Modules with hooks of other resources, and of this one.
  ...(['accounts', 'leads'] as const).map((resource) => ({
    name: `engine, hook of ${resource}`,
    script: 'engine',
    flags,
    environment: { CRM_CONFIG: join(import.meta.dirname, `hooks/${resource}.yaml`) },
    dialect: byKey,
    operations: ['POST', 'PUT', 'DELETE'],
  })),
  { name: 'hand-written', script: 'hand-written', dialect: () => byQuery, operations: common },
  { name: 'em.find', script: 'orm', dialect: () => byQuery, operations: common },
];

interface RunningBench extends Target, RunningTarget {
  readonly requestFormat: Dialect;
}

async function start(
  target: Target,
  databaseUrl: string,
  folder: string,
  keys: readonly string[],
): Promise<RunningBench> {
  const profile = options.profile === undefined ? [] : profileFlags(options.profile, target.name);
  const environment = { DATABASE_URL: databaseUrl, DATA_DIR: folder, ...target.environment };
  const running = await startTarget(target.script, environment, [...(target.flags ?? []), ...profile]);
  return { ...target, ...running, requestFormat: target.dialect(keys) };
}

/** Checks that all targets return the same record and list. Otherwise the figures would not be comparable. */
async function assertEquivalent(targets: readonly RunningBench[]): Promise<void> {
  const normalize = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value), (_key, item) =>
      typeof item === 'string' && /^\d{4}-\d\d-\d\dT/.test(item) ? Date.parse(item) : item,
    );
  for (const path of ['/8', '']) {
    const responses = await Promise.all(
      targets.map(async ({ url, requestFormat }) => {
        const response = await fetch(
          `${url}${requestFormat.path}${path}?${requestFormat.query(seededOrganization(8))}`,
          {
            headers: requestFormat.headers(seededOrganization(8)),
          },
        );
        return normalize(await response.json());
      }),
    );
    const [first, ...others] = responses.map((answer) => JSON.stringify(sortKeys(answer)));
    for (const [index, other] of others.entries()) {
      if (other !== first)
        throw new Error(`${targets[index + 1]?.name} answers otherwise:\n${first}\n${other}`);
    }
  }
}

/** Returns a copy of a JSON value with sorted object keys. */
function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, sortKeys(item)]),
  );
}

async function measure(targets: readonly RunningBench[], databaseUrl: string): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const operation of selectedOperations) {
    const participants = targets.filter((target) => target.operations.includes(operation));
    const results = await inTurn(rounds, participants, (target) => {
      const load = {
        url: target.url,
        databaseUrl,
        dialect: target.requestFormat,
        seconds,
        connections,
        rows,
      };
      const processes = { server: () => [target.process.pid ?? 0], database: server.processes };
      return round(operation, load, processes);
    });
    for (const [index, { name }] of participants.entries()) {
      const medianOf = (key: keyof Round) =>
        median((results[index] ?? []).map((roundResult) => roundResult[key]));
      figures.push({
        target: name,
        operation,
        rate: medianOf('rate'),
        p50: medianOf('p50'),
        p99: medianOf('p99'),
        server: medianOf('server'),
        database: medianOf('database'),
      });
    }
  }
  return figures;
}

/** Minimal statements that select the IDs of an operation's records, or its groups. */
const bare: Readonly<Record<string, string>> = {
  'page 900':
    'select id from leads where organization_id = 1 order by created_at desc, id desc limit 20 offset 17980',
  aggregate:
    'select status, count(*), sum(lead_score) from leads where organization_id = 1 group by 1 order by 1',
  'query with any': `select id from leads where organization_id = 1 and (status = '${filter}' or rating = 'Hot') order by created_at desc, id desc limit 20`,
  'order without index': 'select id from leads where organization_id = 1 order by company limit 20',
};

async function measureBare(databaseUrl: string): Promise<Record<string, number>> {
  const costs: Record<string, number> = {};
  for (const operation of selectedOperations) {
    const text = bare[operation];
    if (text !== undefined)
      costs[operation] = await bareCost(text, { databaseUrl, seconds }, server.processes);
  }
  return costs;
}

function report(figures: readonly Figure[], costs: Readonly<Record<string, number>>): string {
  const figure = (target: string, operation: string) =>
    figures.find((entry) => entry.target === target && entry.operation === operation);
  /** Returns the factors by which the engine's rate and CPU time are better than the target's. */
  const ratios = (operation: string, target: string) => {
    const [ours, other] = [figure('engine', operation), figure(target, operation)];
    if (ours === undefined || other === undefined) return ['', ''];
    const cpu = (other.server + other.database) / (ours.server + ours.database);
    return [`${(ours.rate / other.rate).toFixed(2)}×`, `${cpu.toFixed(2)}×`];
  };
  const lines = figures.map((entry) => [
    entry.operation,
    entry.target,
    entry.rate.toFixed(0),
    entry.p50.toFixed(1),
    entry.p99.toFixed(1),
    entry.server.toFixed(0),
    entry.database.toFixed(0),
  ]);
  const otherTargets = ['hand-written', 'em.find', 'engine, no activity'];
  const comparisons = selectedOperations
    .filter((operation) => figure('hand-written', operation) !== undefined)
    .map((operation) => [operation, ...otherTargets.flatMap((target) => ratios(operation, target))]);
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
    comparisons,
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
const running: RunningBench[] = [];
try {
  const { url } = await makeDatabase(server.url);
  process.stderr.write(`seeding ${rows} leads in ${seededOrganizations} organizations …\n`);
  const [keys = []] = await seed(url);
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
  const scopes = parts.includes('scopes')
    ? await measureScopes(server, rounds, { seconds, connections })
    : [];
  if (scopes.length > 0) process.stdout.write(`\n${scopesReport(scopes)}\n`);
  const upserts = parts.includes('upserts') ? await measureUpserts(server, rounds, { seconds }) : [];
  if (upserts.length > 0) process.stdout.write(`\n${upsertsReport(upserts)}\n`);
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
      JSON.stringify({ machine, figures, bare: costs, growth, scopes, upserts, starts, events }, null, 2),
    );
} finally {
  for (const { process: child } of running) child.kill();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
