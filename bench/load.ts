import autocannon from 'autocannon';
import { cpuOf } from './cpu.ts';
import { filter, organizations, rows } from './seed.ts';

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
const batchSize = 1000;
const batchBody = JSON.stringify({ records: Array(batchSize).fill(lead) });

type Make = (
  dialect: Dialect,
  organization: number,
  id: number,
) => { method: 'GET' | 'POST' | 'PUT'; path: string; accept?: string; body?: string };

/** What is measured. */
export const operations: Readonly<Record<string, Make>> = {
  'GET by id': ({ path, query }, organization, id) => ({
    method: 'GET',
    path: `${path}/${id}?${query(organization)}`,
  }),
  list: ({ path, query }, organization) => ({ method: 'GET', path: `${path}?${query(organization)}` }),
  'list filtered': ({ path, query }, organization) => ({
    method: 'GET',
    path: `${path}?status=${encodeURIComponent(filter)}&${query(organization)}`,
  }),
  'deep page (150)': ({ path, query }, organization) => ({
    method: 'GET',
    path: `${path}?page=150&${query(organization)}`,
  }),
  /** All records of an organization, 4,000. */
  export: ({ path, query }, organization) => ({
    method: 'GET',
    path: `${path}?${query(organization)}`,
    accept: 'application/x-ndjson',
  }),
  POST: ({ path, query }, organization) => ({ method: 'POST', path: `${path}?${query(organization)}` }),
  [`batch (${batchSize})`]: ({ path, query }, organization) => ({
    method: 'POST',
    path: `${path}/batch?${query(organization)}`,
    body: batchBody,
  }),
  PUT: ({ path, query }, organization, id) => ({
    method: 'PUT',
    path: `${path}/${id}?${query(organization)}`,
  }),
};

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
function requests(make: Make, dialect: Dialect): autocannon.Request[] {
  return Array.from({ length: 250 }, () => {
    const organization = 1 + Math.floor(Math.random() * organizations);
    const id = organization + organizations * Math.floor((Math.random() * rows) / organizations);
    const { accept, ...request } = make(dialect, organization, id);
    const headers = { ...dialect.headers(organization), ...(accept !== undefined && { accept }) };
    if (request.method === 'GET') return { ...request, headers };
    return { body, ...request, headers: { ...headers, 'content-type': 'application/json' } };
  });
}

/** Puts load on a target for some seconds. @throws Error when an answer was no success */
export async function round(
  url: string,
  dialect: Dialect,
  operation: string,
  seconds: number,
  connections: number,
  measured: Measured,
): Promise<Round> {
  const make = operations[operation];
  if (make === undefined) throw new Error(`no operation ${operation}`);
  const began = performance.now();
  const before = { server: cpuOf(measured.server()), database: cpuOf(measured.database()) };
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const options = {
      url,
      connections,
      // Ended by the timer below: autocannon itself counts in whole seconds.
      duration: seconds + 60,
      // Not the same for all: they would write the same records at the same time.
      setupClient: (client: autocannon.Client) => client.setRequests(requests(make, dialect)),
    };
    const running = autocannon(options, (error, done) => (error ? reject(error) : resolve(done)));
    setTimeout(() => running.stop(), seconds * 1000);
  });
  const elapsed = (performance.now() - began) / 1000;
  if (result.non2xx + result.errors + result.timeouts > 0) {
    throw new Error(`${operation} at ${url}: ${result.non2xx} refusals, ${result.errors} errors`);
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

export const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
