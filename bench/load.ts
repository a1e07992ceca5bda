import autocannon from 'autocannon';
import pg from 'pg';
import { cpuOf } from './cpu.ts';
import { filter, seededOrganization, seededOrganizations } from './seed.ts';

/** How a target is spoken to. */
export interface Dialect {
  readonly path: string;
  /** Query and headers that say for which organization (1 to 50) a request is. */
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
/** Records of one batch. */
export const batchSize = 1000;
const batchBody = JSON.stringify({ records: Array(batchSize).fill(lead) });

/** What a round puts load on, and how much. */
export interface Load {
  readonly url: string;
  readonly databaseUrl: string;
  readonly dialect: Dialect;
  readonly seconds: number;
  readonly connections: number;
  /** Leads that are there. */
  readonly rows: number;
}

/** The API, with a key for each organization. */
export const byKey = (keys: readonly string[]): Dialect => ({
  path: '/api/v1/leads',
  query: () => '',
  headers: (organization) => ({ authorization: `Bearer ${keys[organization - 1]}` }),
});

/** One kind of request. */
interface Operation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** After the path of the leads. @param id of a lead of the organization */
  readonly path?: (id: number) => string;
  /** Parameters, each with an "&" after it. */
  readonly query?: string;
  readonly accept?: string;
  readonly body?: string;
  /** The only organization that is asked for; by default that of a lead chosen at random. */
  readonly organization?: number;
  /** Requests at the same time, where more would be refused. */
  readonly connections?: number;
  /** Addresses of requests, made before each round. */
  readonly prepare?: (load: Load) => Promise<readonly Address[]>;
  /** Whether only the engine has it. */
  readonly isOurs?: boolean;
}

/** What a prepared request is about. */
interface Address {
  readonly organization: number;
  readonly path: string;
}

const byId = (id: number) => `/${id}`;
const status = `status=${encodeURIComponent(filter)}&`;
/** The organization that has half of all leads. */
const largest = 1;

/** What is measured. */
export const operations: Readonly<Record<string, Operation>> = {
  'GET by id': { method: 'GET', path: byId },
  list: { method: 'GET' },
  'list filtered': { method: 'GET', query: status },
  'filtered in other order': { method: 'GET', query: `${status}sort=created_at&dir=asc&` },
  'page 900': { method: 'GET', query: 'page=900&', organization: largest, isOurs: true },
  'order without index': {
    method: 'GET',
    query: 'sort=company&',
    organization: largest,
    connections: 2,
    isOurs: true,
  },
  'cursor page': { method: 'GET', prepare: cursors, isOurs: true },
  /** All records of an organization, about 2,000. */
  export: { method: 'GET', accept: 'application/x-ndjson', organization: 2, connections: 2, isOurs: true },
  POST: { method: 'POST', body },
  'POST in turn': { method: 'POST', body, connections: 1, isOurs: true },
  batch: { method: 'POST', path: () => '/batch', body: batchBody, connections: 1, isOurs: true },
  PUT: { method: 'PUT', path: byId, body },
  DELETE: { method: 'DELETE', prepare: doomed },
};

/** Pages of the largest organization, each as the one before links to it. */
async function cursors({ url, dialect: { path, headers } }: Load): Promise<Address[]> {
  const found: Address[] = [];
  for (let next: string | undefined = path; next !== undefined && found.length < 50; ) {
    const response: Response = await fetch(new URL(next, url), { headers: headers(largest) });
    await response.arrayBuffer();
    next = /<([^>]*)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
    if (next !== undefined) found.push({ organization: largest, path: next.slice(path.length) });
  }
  return found;
}

/** New leads, to be deleted: more than a round can do. */
async function doomed({ databaseUrl, seconds }: Load): Promise<Address[]> {
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

/** One round. */
export interface Round {
  /** Requests per second. */
  readonly rate: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** CPU time of a request in microseconds: of the server process, and of PostgreSQL. */
  readonly server: number;
  readonly database: number;
}

/** Processes whose CPU time is measured. */
export interface Measured {
  readonly server: () => readonly number[];
  readonly database: () => readonly number[];
}

/** Requests of one connection, spread over organizations and records. */
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
  address: Address,
): autocannon.Request {
  return {
    method,
    path: `${path}${address.path}${query(address.organization)}`,
    headers: {
      ...headers(address.organization),
      ...(accept !== undefined && { accept }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body }),
  };
}

/** Loads a target for several seconds. @throws Error if a response was not successful */
export async function round(name: string, load: Load, measured: Measured): Promise<Round> {
  const operation = operations[name];
  if (operation === undefined) throw new Error(`no operation ${name}`);
  const { url, dialect, seconds } = load;
  const connections = operation.connections ?? load.connections;
  const addresses = await operation.prepare?.(load);
  // Each connection has requests of its own: otherwise all would write the same records at the same time.
  let client = 0;
  const requestsOfNext = () => {
    // Few are not divided: they are read, so each connection may have all.
    const mine =
      addresses && addresses.length < 2 * connections
        ? addresses
        : addresses?.filter((_, index) => index % connections === client);
    client++;
    return mine?.map((address) => requestOf(operation, dialect, address)) ?? requests(operation, load);
  };
  const began = performance.now();
  const before = { server: cpuOf(measured.server()), database: cpuOf(measured.database()) };
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const options = {
      url,
      connections,
      // Ended by the timer below: autocannon itself counts in whole seconds.
      duration: seconds + 60,
      setupClient: (each: autocannon.Client) => each.setRequests(requestsOfNext()),
    };
    const running = autocannon(options, (error, done) => (error ? reject(error) : resolve(done)));
    setTimeout(() => running.stop(), seconds * 1000);
  });
  const elapsed = (performance.now() - began) / 1000;
  if (result.non2xx + result.errors + result.timeouts > 0) {
    throw new Error(`${name} at ${url}: ${result.non2xx} refusals, ${result.errors} errors`);
  }
  const { total } = result.requests;
  return {
    rate: total / elapsed,
    p50: result.latency.p50,
    p99: result.latency.p99,
    server: (cpuOf(measured.server()) - before.server) / total,
    database: (cpuOf(measured.database()) - before.database) / total,
  };
}

/**
 * Runs rounds of several targets in turn, so that what else the machine does falls on all alike. The first warms up.
 * @returns the results of each target
 */
export async function inTurn<Target, Result>(
  rounds: number,
  targets: readonly Target[],
  run: (target: Target) => Promise<Result>,
): Promise<Result[][]> {
  const results = targets.map((): Result[] => []);
  for (let number = 0; number <= rounds; number++) {
    for (const [index, target] of targets.entries()) {
      const result = await run(target);
      if (number > 0) results[index]?.push(result);
    }
  }
  return results;
}

/** CPU time of PostgreSQL, in microseconds, for one run of a bare statement on one connection. */
export async function bareCost(
  text: string,
  { databaseUrl, seconds }: Pick<Load, 'databaseUrl' | 'seconds'>,
  database: Measured['database'],
): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const run = () => client.query({ name: 'bare', text });
  await run();
  const before = cpuOf(database());
  let runs = 0;
  for (const end = performance.now() + seconds * 1000; performance.now() < end; runs++) await run();
  const used = cpuOf(database()) - before;
  await client.end();
  return used / runs;
}

/** The value below which a part (0 to 1) of them are. */
export const quantile = (values: readonly number[], part: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? 0;

export const median = (values: readonly number[]): number => quantile(values, 0.5);
