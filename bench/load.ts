import autocannon from 'autocannon';
import pg from 'pg';
import { cpuOf } from './cpu.ts';
import { filter, seededOrganization, seededOrganizations } from './seed.ts';

/** Request format of a target. */
export interface Dialect {
  readonly path: string;
  /** These functions return the query or headers that select an organization, from 1 to 50. */
  readonly query: (organization: number) => string;
  readonly headers: (organization: number) => Readonly<Record<string, string>>;
}

const lead = {
  first_name: 'Ada',
  last_name: 'Lovelace',
  company: 'Analytical Engines',
  email: 'ada@example.com',
  phone: '+44 20 7946 0000',
  status: filter,
  rating: 'Hot',
  source: 'Website',
  lead_score: 7,
  timezone: 'Europe/London',
  description: 'Wants to know what a program is.',
};
const body = JSON.stringify(lead);
/** Number of records in a batch. */
export const batchSize = 1000;
const batchBody = JSON.stringify({ records: Array(batchSize).fill(lead) });

/** Target and size of the generated load. */
export interface Load {
  readonly url: string;
  readonly databaseUrl: string;
  readonly dialect: Dialect;
  readonly seconds: number;
  readonly connections: number;
  /** Number of existing leads. */
  readonly rows: number;
}

/** Returns the API's request format, with a key for each organization. */
export const byKey = (keys: readonly string[]): Dialect => ({
  path: '/api/v1/leads',
  query: () => '',
  headers: (organization) => ({ authorization: `Bearer ${keys[organization - 1]}` }),
});

/** A kind of request to measure. */
interface Operation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Returns the path relative to the leads' path. @param id ID of a lead in the organization */
  readonly path?: (id: number) => string;
  /** Query parameters, each followed by "&". */
  readonly query?: string;
  readonly accept?: string;
  readonly body?: string;
  /** Organization that all requests belong to. Default: the organization of a random lead. */
  readonly organization?: number;
  /** Number of concurrent requests. Set only if the API would reject the usual number. */
  readonly connections?: number;
  /** Prepares a round and returns the paths of its requests. */
  readonly prepare?: (load: Load) => Promise<readonly PreparedRequest[]>;
  /** Whether only the engine supports the operation. */
  readonly isOurs?: boolean;
}

/** Organization and path of a prepared request. */
interface PreparedRequest {
  readonly organization: number;
  readonly path: string;
}

const byId = (id: number) => `/${id}`;
const status = `status=${encodeURIComponent(filter)}&`;
/** The organization that has half of all leads. */
const largestOrganization = 1;

/** Operations to measure, by name. */
export const operations: Readonly<Record<string, Operation>> = {
  'GET by id': { method: 'GET', path: byId },
  list: { method: 'GET' },
  'list filtered': { method: 'GET', query: status },
  'filtered in other order': { method: 'GET', query: `${status}sort=created_at&dir=asc&` },
  'page 900': { method: 'GET', query: 'page=900&', organization: largestOrganization, isOurs: true },
  'order without index': {
    method: 'GET',
    query: 'sort=company&',
    organization: largestOrganization,
    connections: 2,
    isOurs: true,
  },
  'query with any': {
    method: 'POST',
    path: () => '/query',
    body: JSON.stringify({
      where: {
        any: [
          { field: 'status', op: 'eq', value: filter },
          { field: 'rating', op: 'eq', value: 'Hot' },
        ],
      },
    }),
    organization: largestOrganization,
    connections: 2,
    isOurs: true,
  },
  aggregate: {
    method: 'GET',
    path: () => '/aggregate',
    query: 'group_by=status&measure=count(),sum(lead_score)&',
    organization: largestOrganization,
    connections: 1,
    isOurs: true,
  },
  'cursor page': { method: 'GET', prepare: cursors, isOurs: true },
  /** Exports all of an organization's records (about 2,000). */
  export: { method: 'GET', accept: 'application/x-ndjson', organization: 2, connections: 2, isOurs: true },
  POST: { method: 'POST', body },
  'POST in turn': { method: 'POST', body, connections: 1, isOurs: true },
  batch: { method: 'POST', path: () => '/batch', body: batchBody, connections: 1, isOurs: true },
  PUT: { method: 'PUT', path: byId, body },
  DELETE: { method: 'DELETE', prepare: deletableLeads },
};

/** Follows the largest organization's page links. @returns their paths, at most 50 */
async function cursors({ url, dialect: { path, headers } }: Load): Promise<PreparedRequest[]> {
  const pages: PreparedRequest[] = [];
  for (let nextPath: string | undefined = path; nextPath !== undefined && pages.length < 50; ) {
    const response: Response = await fetch(new URL(nextPath, url), { headers: headers(largestOrganization) });
    await response.arrayBuffer();
    nextPath = /<([^>]*)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
    if (nextPath !== undefined)
      pages.push({ organization: largestOrganization, path: nextPath.slice(path.length) });
  }
  return pages;
}

/** Creates more leads than a round can delete. @returns their paths */
async function deletableLeads({ databaseUrl, seconds }: Load): Promise<PreparedRequest[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(`delete from leads where last_name like 'Doomed %'`);
  const { rows } = await client.query<{ id: string; organization_id: string }>(
    `insert into leads (organization_id, created_at, updated_at, last_name)
     select 1 + n % ${seededOrganizations}, now(), now(), 'Doomed ' || n from generate_series(1, $1) n
     returning id::text, organization_id::text`,
    [2000 + 30_000 * seconds],
  );
  await client.end();
  return rows.map(({ id, organization_id }) => ({ organization: Number(organization_id), path: `/${id}?` }));
}

/** Figures of one round. */
export interface Round {
  /** Requests per second. */
  readonly rate: number;
  /** Median latency, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** CPU time used per request by the server process and by PostgreSQL, in microseconds. */
  readonly server: number;
  readonly database: number;
}

/** Functions that return the process IDs of the measured processes. */
export interface MeasuredProcesses {
  readonly server: () => readonly number[];
  readonly database: () => readonly number[];
}

/** Returns the requests that one connection sends for random records. */
function requests(operation: Operation, { dialect, rows }: Load): autocannon.Request[] {
  return Array.from({ length: 250 }, () => {
    const id = 1 + Math.floor(Math.random() * rows);
    const organization = operation.organization ?? seededOrganization(id);
    const path = `${operation.path?.(id) ?? ''}?${operation.query ?? ''}`;
    return requestOf(operation, dialect, { organization, path });
  });
}

function requestOf(
  { method, accept, body }: Operation,
  { path, query, headers }: Dialect,
  prepared: PreparedRequest,
): autocannon.Request {
  return {
    method,
    path: `${path}${prepared.path}${query(prepared.organization)}`,
    headers: {
      ...headers(prepared.organization),
      ...(accept !== undefined && { accept }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body }),
  };
}

/** Sends requests to a target for `seconds` seconds. @throws Error if a request fails */
export async function round(name: string, load: Load, processes: MeasuredProcesses): Promise<Round> {
  const operation = operations[name];
  if (operation === undefined) throw new Error(`no operation ${name}`);
  const { url, dialect, seconds } = load;
  const connections = operation.connections ?? load.connections;
  const addresses = await operation.prepare?.(load);
  // Each connection has its own requests. Otherwise all connections would write the same records at the same time.
  let client = 0;
  const nextRequests = () => {
    // The paths in a short list are only read, so all connections can share them.
    const ownPaths =
      addresses && addresses.length < 2 * connections
        ? addresses
        : addresses?.filter((_, index) => index % connections === client);
    client++;
    return ownPaths?.map((prepared) => requestOf(operation, dialect, prepared)) ?? requests(operation, load);
  };
  const startedAt = performance.now();
  const before = { server: cpuOf(processes.server()), database: cpuOf(processes.database()) };
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const options = {
      url,
      connections,
      // The timer below stops the load, because autocannon only supports whole seconds.
      duration: seconds + 60,
      setupClient: (client: autocannon.Client) => client.setRequests(nextRequests()),
    };
    const instance = autocannon(options, (error, output) => (error ? reject(error) : resolve(output)));
    setTimeout(() => instance.stop(), seconds * 1000);
  });
  const elapsed = (performance.now() - startedAt) / 1000;
  if (result.non2xx + result.errors + result.timeouts > 0) {
    throw new Error(`${name} at ${url}: ${result.non2xx} refusals, ${result.errors} errors`);
  }
  const { total } = result.requests;
  return {
    rate: total / elapsed,
    p50: result.latency.p50,
    p99: result.latency.p99,
    server: (cpuOf(processes.server()) - before.server) / total,
    database: (cpuOf(processes.database()) - before.database) / total,
  };
}

/**
 * Runs the rounds of several targets alternately, so that other load on the machine affects all targets. The first
 * round is a warm-up and is not counted.
 * @returns the results of each target
 */
export async function inTurn<Target, Result>(
  rounds: number,
  targets: readonly Target[],
  run: (target: Target) => Promise<Result>,
): Promise<Result[][]> {
  const results = targets.map((): Result[] => []);
  for (let roundIndex = 0; roundIndex <= rounds; roundIndex++) {
    for (const [index, target] of targets.entries()) {
      const result = await run(target);
      if (roundIndex > 0) results[index]?.push(result);
    }
  }
  return results;
}

/** Measures PostgreSQL's CPU time for a statement on one connection, in microseconds. */
export async function bareCost(
  text: string,
  { databaseUrl, seconds }: Pick<Load, 'databaseUrl' | 'seconds'>,
  database: MeasuredProcesses['database'],
): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const run = () => client.query({ name: 'bare', text });
  await run();
  const before = cpuOf(database());
  let runs = 0;
  for (const end = performance.now() + seconds * 1000; performance.now() < end; runs++) await run();
  const cpuTime = cpuOf(database()) - before;
  await client.end();
  return cpuTime / runs;
}

/** Returns a quantile of the values. @param fraction from 0 to 1 */
export const quantile = (values: readonly number[], fraction: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * fraction))] ?? 0;

export const median = (values: readonly number[]): number => quantile(values, 0.5);
