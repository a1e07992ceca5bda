// WORKERS: several processes serve one instance. A dead worker is replaced without affecting the other
// workers, and background work runs once.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, linkSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { Agent, get, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type pg from 'pg';
import { heartbeats, intervalFor, missedAtStartFor } from '../../app/serve/heartbeats.ts';
import { restartBackoff } from '../../app/serve/worker-pool.ts';
import { leadgenBody } from '../support/channels.ts';
import { send, temporaryFolder } from '../support/instance.ts';
import { samplesOf, sumOf } from '../support/metrics.ts';
import { type Added, deliver, integrate, onStored, settingsFile } from '../support/partners.ts';
import {
  apart,
  assertRefused,
  childrenOf,
  commandLine,
  connected,
  crm,
  type Environment,
  emptyStorage,
  type Options,
  rows,
  type Service,
  type Storage,
  serve,
  until,
} from '../support/process.ts';
import { patienceMs, patient } from '../support/promised.ts';
import { startProvider } from '../support/providers.ts';

test('replaces dead workers with growing delays and gives up if no other worker is alive', () => {
  const alone = restartBackoff();
  const delays = Array.from({ length: 9 }, (_, index) => alone.next(index * 1000, false));
  assert.deepEqual(delays, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, undefined]);
  assert.equal(alone.next(100_000, false), 100, 'the workers have lived long enough');
  const others = restartBackoff();
  const beside = Array.from({ length: 20 }, (_, index) => others.next(index * 1000, true));
  assert.equal(beside.at(-1), 10_000);
});

test('treats a worker as hung after five missed heartbeats, and later while it starts', () => {
  const pulse = heartbeats<string>(2, 30);
  pulse.add('serving');
  pulse.serves('serving');
  pulse.add('starting');
  const hungAt: Record<string, number> = {};
  for (let beat = 1; beat <= 40; beat++) {
    for (const worker of pulse.beat().hung) hungAt[worker] = beat;
    // One response resets the missed heartbeats.
    if (beat === 4) pulse.responded('serving');
    if (beat === 11) assert.equal(pulse.problem(), undefined, 'the worker has just been killed');
    if (beat === 12) pulse.remove('serving');
    if (beat === 14) assert.equal(pulse.problem(), undefined);
    if (beat === 15) assert.equal(pulse.problem(), 'no worker responds');
  }
  assert.deepEqual(hungAt, { serving: 10, starting: 31 });
  assert.equal(pulse.problem(), 'a worker cannot be stopped');
  pulse.remove('starting');
  pulse.add('next');
  pulse.serves('next');
  pulse.responded('next');
  assert.equal(pulse.problem(), undefined, 'the replacement responds');
});

test('a worker that was slow to start has as much time to respond as any other', () => {
  const pulse = heartbeats<string>(1, 30);
  pulse.add('slow');
  const hung = (beats: number) => Array.from({ length: beats }, () => pulse.beat().hung).flat();
  assert.deepEqual(hung(29), []);
  pulse.serves('slow');
  assert.deepEqual([hung(5), hung(1)], [[], ['slow']]);
});

test('workers have at least two minutes to start, or thirty heartbeats', () => {
  assert.deepEqual(
    [1, 1000, 10_000, 600_000].map((limitMs) => [intervalFor(limitMs), missedAtStartFor(limitMs)]),
    [
      [1, 120_000],
      [200, 600],
      [2000, 60],
      [120_000, 30],
    ],
  );
});

test('reports a problem when workers hang repeatedly despite replacements', () => {
  const pulse = heartbeats<number>(1, 30);
  pulse.add(0);
  pulse.serves(0);
  const hangs = [1, 2, 3].map((worker) => {
    pulse.add(worker);
    pulse.serves(worker);
    for (let beat = 0; beat < 6; beat++) {
      pulse.beat();
      pulse.responded(0);
    }
    pulse.remove(worker);
    return pulse.problem();
  });
  assert.deepEqual(hangs, [undefined, undefined, 'workers hang repeatedly']);
  for (let beat = 0; beat < 60; beat++) {
    pulse.beat();
    pulse.responded(0);
  }
  assert.equal(pulse.problem(), undefined, 'no worker has hung for a while');
});

/** Options that run the command line so that SIGUSR2 puts a process in an endless synchronous loop. */
const blockable: Options = {
  program: ['--import', `data:text/javascript,process.on('SIGUSR2',()=>{for(;;);})`, ...commandLine],
};

/**
 * Returns whether a child already runs a worker's program. The supervisor waits for the program to start, so
 * stopping the child earlier would stop the supervisor too.
 */
function runsWorker(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').includes('NODE_UNIQUE_ID=');
  } catch {
    // The process has exited.
    return false;
  }
}

test('kills and replaces a blocked or stopped worker; /livez fails when no worker responds', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const storage = await emptyStorage('postgresql');
  const service = await serve(
    {
      ...storage.environment,
      WORKERS: '2',
      MIGRATE_ON_START: 'true',
      ADMIN_PORT: '0',
      DATABASE_POOL: '12',
      WORKER_TIMEOUT_MS: '5000',
      LOG_LEVEL: 'fatal',
    },
    blockable,
  );
  t.after(async () => {
    await service.kill();
    await storage.remove();
  });
  const admin = String(service.printed.admin);
  const livez = async () => (await send(admin, 'GET /livez')).status;
  const isComplete = async () => {
    const { status, json } = await send(admin, 'GET /readyz');
    return status === 200 && (json.workers as { serving: number }).serving === 2;
  };
  for (const signal of ['SIGUSR2', 'SIGSTOP'] as const) {
    const [hung = assert.fail()] = childrenOf(service.pid);
    process.kill(hung, signal);
    await until(() => !childrenOf(service.pid).includes(hung), `kill the worker after ${signal}`);
    await until(isComplete, 'replace it');
    assert.ok(
      service.stderr().includes(`crm: worker ${hung} has not responded for 5 s; killing it\n`),
      service.stderr(),
    );
    assert.equal(await livez(), 200);
  }

  // Each replacement is stopped too, so replacing workers does not help.
  const halted = new Set<number>();
  await until(async () => {
    for (const pid of childrenOf(service.pid)) {
      if (halted.has(pid) || !runsWorker(pid)) continue;
      process.kill(pid, 'SIGSTOP');
      halted.add(pid);
    }
    return /"not alive: no worker responds"/.test((await send(admin, 'GET /livez')).text);
  }, 'not be alive');
  for (const pid of childrenOf(service.pid)) process.kill(pid, 'SIGKILL');
  await until(async () => (await isComplete()) && (await livez()) === 200, 'be alive again');
  assert.ok([...halted].every((pid) => !childrenOf(service.pid).includes(pid)));
});

test('kills blocked and stopped workers at the end of a test, also without their supervisor', {
  skip: process.platform !== 'linux',
}, async () => {
  const storage = await emptyStorage('postgresql');
  const environment = {
    ...storage.environment,
    WORKERS: '2',
    MIGRATE_ON_START: 'true',
    DATABASE_POOL: '12',
    LOG_LEVEL: 'fatal',
  };
  const service = await serve(environment, blockable);
  const workers = childrenOf(service.pid);
  const [blocked = assert.fail(), stopped = assert.fail()] = workers;
  process.kill(blocked, 'SIGUSR2');
  process.kill(stopped, 'SIGSTOP');
  service.signal('SIGKILL');
  await until(() => !existsSync(`/proc/${service.pid}`), 'end the supervisor');
  for (const pid of workers) process.kill(pid, 'SIGTERM');
  const killed = service.kill();
  await until(() => workers.every((pid) => !existsSync(`/proc/${pid}`)), 'end the workers');
  await killed;
  await storage.remove();
});

test('rejects several workers for the embedded database', async () => {
  const temporary = temporaryFolder();
  const refused = await crm(['serve'], { WORKERS: '2', DATA_DIR: join(temporary.path, 'data') });
  assertRefused(refused, /^crm: WORKERS needs PostgreSQL: set DATABASE_URL/);
  temporary.remove();
});

/** Time for which the service still accepts requests after SIGTERM, in milliseconds. */
const stopDelayMs = 500;

describe('two workers', { concurrency: 1, skip: process.platform !== 'linux' }, () => {
  let settings: ReturnType<typeof settingsFile>;
  let graph: Awaited<ReturnType<typeof startProvider>>;
  let storage: Storage;
  let environment: Environment;
  let service: Service;
  let key: string;
  let page: Added<{ id: string }>;
  before(async () => {
    graph = await startProvider();
    settings = settingsFile({ graph: { base_url: graph.url, timeout_ms: 10_000 } });
    storage = await emptyStorage('postgresql');
    environment = {
      ...patient,
      ...storage.environment,
      WORKERS: '2',
      MIGRATE_ON_START: 'true',
      ...settings.environment,
      ADMIN_PORT: '0',
      DATABASE_POOL: '32',
      STOP_DELAY_MS: String(stopDelayMs),
      // A test stops a worker until other workers have responded.
      WORKER_TIMEOUT_MS: '120000',
      LOG_LEVEL: 'fatal',
    };
    service = await serve(environment);
    key = String(service.printed.key);
    page = await onStored(environment, (opened) => integrate(opened, { id: '1' }, 'meta-lead-ads'));
  });
  after(async () => {
    await service?.kill();
    await graph?.close();
    await storage?.remove();
  });

  const readyz = () => send(String(service.printed.admin), 'GET /readyz');
  const areReady = async () => {
    const { status, json } = await readyz();
    return status === 200 && (json.workers as { serving: number }).serving === 2;
  };
  const fine = { database: 'ok', migrations: 'ok', configuration: 'ok', draining: 'ok', workers: 'ok' };

  const scrape = async () => (await send(String(service.printed.admin), 'GET /metrics')).text;
  /** Returns the number of requests for contacts in /metrics. */
  const counted = async () =>
    sumOf(
      samplesOf(await scrape(), 'crm_http_request_duration_seconds_count').filter(
        ({ labels }) => labels.route === '/api/v1/contacts',
      ),
    );

  /** Requests a list. @returns its status, or the error message */
  const request = (agent: Agent): Promise<string> =>
    new Promise((resolve) => {
      const headers = { authorization: `Bearer ${key}` };
      const asked = get(
        `${service.url}/api/v1/leads?page=1`,
        { agent, headers, timeout: patienceMs },
        (response) => {
          response.resume().on('end', () => resolve(String(response.statusCode)));
          response.on('error', ({ message }) => resolve(message));
        },
      );
      asked.on('error', ({ message }) => resolve(message));
      asked.on('timeout', () => asked.destroy(new Error('no response')));
    });

  /**
   * Starts clients that send one request after another until they are stopped. Each client uses one
   * connection, or a new one for each request.
   */
  const startClients = (count: number, keepAlive = true) => {
    const outcomes: Record<string, number> = {};
    let isOver = false;
    const client = async () => {
      const agent = new Agent({ keepAlive, maxSockets: 1 });
      while (!isOver) {
        const outcome = await request(agent);
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
        await pause(2);
      }
      agent.destroy();
    };
    const running = Promise.all(Array.from({ length: count }, client));
    const end = async () => {
      isOver = true;
      await running;
      return outcomes;
    };
    return { outcomes, end };
  };

  test('print startup output once, and the admin port covers all workers', async () => {
    assert.equal(service.stdout().trim().split('\n').length, 1);
    assert.equal(service.printed.workers, 2);
    assert.equal(childrenOf(service.pid).length, 2);
    const ready = { status: 'ready', checks: fine, workers: { serving: 2, of: 2 } };
    // On a busy machine, a database probe can time out.
    await until(async () => {
      const { status, json } = await readyz();
      return status === 200 && isDeepStrictEqual(json, ready);
    }, 'be ready');
  });

  test('do not start without the admin port', async () => {
    const port = new URL(String(service.printed.admin)).port;
    const refused = await crm(['serve', '--json'], { ...environment, PORT: '0', ADMIN_PORT: port }, apart);
    assertRefused(refused, `port ${port} on 127.0.0.1 is already in use. Choose another with ADMIN_PORT`);
  });

  test('add up in /metrics, with metrics of the instance reported once', async () => {
    // Connections are distributed in turn.
    for (let count = 0; count < 10; count++)
      await service.call('GET /api/v1/contacts', { key, headers: { connection: 'close' } });
    await until(async () => (await counted()) === 10, 'be counted');
    let text = '';
    const limit = () =>
      samplesOf(text, 'crm_database_connections_limit').find(({ labels }) => labels.pool === 'lists')?.value;
    // On a busy machine, the report of a worker can be late, in which case its metrics are missing.
    await until(async () => {
      text = await scrape();
      return limit() === 12;
    }, 'add up the limits, six requests each');
    assert.deepEqual(
      [samplesOf(text, 'crm_workers_serving'), samplesOf(text, 'crm_build_info').map(({ value }) => value)],
      [[{ labels: {}, value: 2 }], [1]],
    );
    const waiting = samplesOf(text, 'crm_queue_items').filter(({ labels }) => labels.state === 'waiting');
    assert.equal(waiting.length, 2);
  });

  test('count wrong passwords together', async () => {
    const attempt = () =>
      service.call('POST /auth/login', {
        body: { email: 'nobody@example.com', password: 'wrong' },
        headers: { connection: 'close' },
      });
    const statuses: number[] = [];
    for (let count = 0; count < 22; count++) statuses.push((await attempt()).status);
    assert.deepEqual(statuses, [...Array<number>(20).fill(401), 429, 429]);
  });

  test('both report a missing migration', async () => {
    const rename = (from: string, to: string) =>
      connected(String(environment.DATABASE_URL), (client) =>
        client.query(`update crm_migrations set name = replace(name, '${from}', '${to}')`),
      );
    await rename('Migration', 'Another');
    await until(async () => {
      const { status, json } = await readyz();
      return status === 503 && /^missing: Migration\d+/.test((json.checks as typeof fine).migrations);
    }, 'not ready');
    await rename('Another', 'Migration');
    await until(areReady, 'ready again');
  });

  test('both follow config.yaml and report its errors', async () => {
    settings.write({ no_such_key: 1 });
    await until(async () => {
      const { status, json } = await readyz();
      return status === 503 && /rejected/.test((json.checks as typeof fine).configuration);
    }, 'not ready');
    settings.write({ graph: { base_url: graph.url, timeout_ms: 10_000 } });
    await until(areReady, 'ready again');
  });

  test('are not ready if a check fails in any one of them', async (t) => {
    const valid = readFileSync(settings.path);
    // Workers do not notice changes through another name of the file, so only the worker that receives the
    // signal reads it.
    const otherName = `${settings.path}.other`;
    linkSync(settings.path, otherName);
    /** Lets both workers read the valid file. A previous test's change can have made both read the invalid file. */
    const restore = () => {
      writeFileSync(otherName, valid);
      for (const worker of childrenOf(service.pid)) process.kill(worker, 'SIGHUP');
    };
    t.after(() => {
      restore();
      unlinkSync(otherName);
    });
    const isReported = async (ready: 0 | 1) =>
      samplesOf(await scrape(), 'crm_ready').some(
        ({ labels, value }) => labels.check === 'configuration' && value === ready,
      );
    for (const worker of childrenOf(service.pid)) {
      writeFileSync(otherName, 'no_such_key: 1\n');
      process.kill(worker, 'SIGHUP');
      await until(async () => {
        const { status, json } = await readyz();
        return status === 503 && /rejected/.test((json.checks as typeof fine).configuration);
      }, 'not ready');
      await until(() => isReported(0), 'report the check in /metrics');
      restore();
      await until(areReady, 'ready again');
      await until(() => isReported(1), 'report in /metrics that the check passes');
    }
  });

  const ids = Array.from({ length: 40 }, (_, index) => String(900_000_000_000_000 + index));
  test('replace a killed worker, failing only its own requests, and continue the inbox', async (t) => {
    for (const id of ids) graph.leads.set(id, { id, field_data: [{ name: 'last_name', values: [id] }] });
    const clients = startClients(8);
    t.after(clients.end);
    const [leader, other] = childrenOf(service.pid);
    const deliverAll = async (some: readonly string[]) => {
      for (const leadgen of some)
        assert.equal((await deliver(service, page, leadgenBody({ leadgen: `"${leadgen}"` }))).status, 200);
    };
    await deliverAll(ids.slice(0, 20));
    const asked = (id: string) => graph.requests.filter(({ path }) => path.endsWith(`/${id}`)).length;
    await until(() => ids.slice(0, 20).every((id) => asked(id) > 0), 'process the first half');
    // Items processed so far are stored.
    await until(
      async () => (await rows(environment, `select from crm_inbox where status <> 'done'`)).length === 0,
      'finish the first half',
    );
    const isCounted = async () => (await counted()) === 10;
    await until(isCounted, 'be counted');
    process.kill(leader ?? assert.fail(), 'SIGKILL');
    await until(() => service.stderr().includes('exited (SIGKILL)'), 'notice');
    await until(async () => (await readyz()).status === 200, 'serve by the other worker');
    await until(areReady, 'replace it');
    assert.ok(childrenOf(service.pid).includes(other ?? 0));
    await until(isCounted, 'keep its counters');
    await deliverAll(ids.slice(20));
    await until(() => ids.every((id) => asked(id) > 0), 'process the second half');
    const { 200: served = 0, ...failed } = await clients.end();
    const failures = Object.values(failed).reduce((sum, each) => sum + each, 0);
    assert.ok(served > 50, `${served} requests`);
    // Each client loses at most its connection to the killed worker and one that the worker never accepts.
    assert.ok(failures <= 16, JSON.stringify(failed));
    assert.deepEqual(
      Object.keys(failed).filter((each) => !/socket hang up|ECONNRESET/.test(each)),
      [],
    );
    assert.match(service.stderr(), /^crm: worker \d+ exited \(SIGKILL\); starting another one\n$/);
    assert.deepEqual(
      ids.map(asked).filter((each) => each !== 1),
      [],
      'each item was processed once',
    );
  });

  test('close a connection that was assigned to a worker but never accepted when the worker exits', async () => {
    const [, stopped = assert.fail()] = childrenOf(service.pid);
    process.kill(stopped, 'SIGSTOP');
    const outcomes: string[] = [];
    const asked = Array.from({ length: 6 }, async () => {
      outcomes.push(await request(new Agent()));
    });
    // Wait for the requests that the other worker accepts.
    await until(() => outcomes.length === 5, 'serve all but one');
    process.kill(stopped, 'SIGKILL');
    await until(() => outcomes.length === 6, 'end the last one');
    await Promise.all(asked);
    assert.deepEqual(outcomes.slice(0, 5), Array<string>(5).fill('200'));
    assert.match(outcomes[5] ?? '', /socket hang up|ECONNRESET/);
    await until(areReady, 'replace it');
  });

  /** Time for which each worker waits for its requests after a SIGTERM and the delay, in milliseconds. */
  const workerDrainMs = 3_250;
  /**
   * Sends SIGTERM and checks the responses until the service has stopped.
   * @returns false if the test was slower than the time for which a worker waits, so that requests were lost
   */
  async function drains(): Promise<boolean> {
    const clients = startClients(8, false);
    let signalled = Number.POSITIVE_INFINITY;
    const drain = async (client: pg.Client) => {
      await client.query('begin');
      await client.query('lock table contacts in access exclusive mode');
      const body = { last_name: 'in flight' };
      const waiting = Array.from({ length: 3 }, () => service.call('POST /api/v1/contacts', { key, body }));
      // Rejections are reported below.
      for (const each of waiting) each.catch(() => {});
      await until(async () => {
        const { rows: blocked } = await client.query(
          `select from pg_locks where not granted and relation = 'contacts'::regclass`,
        );
        return blocked.length === 3;
      }, 'wait for the lock');
      signalled = performance.now();
      service.signal('SIGTERM');
      // On a busy machine, a check of the database or a worker's report can be late.
      const draining = { ...fine, draining: 'stopping' };
      await until(async () => isDeepStrictEqual((await readyz()).json.checks, draining), 'not ready');
      const serving = async () => ((await readyz()).json.workers as { serving: number }).serving;
      await until(async () => (await serving()) === 1, 'stop the first');
      const before = clients.outcomes['200'] ?? 0;
      const hasLost = () => Object.keys(clients.outcomes).some((outcome) => outcome !== '200');
      await until(() => hasLost() || (clients.outcomes['200'] ?? 0) > before + 20, 'serve by the other');
      assert.deepEqual(Object.keys(await clients.end()), ['200'], JSON.stringify(clients.outcomes));
      await client.query('rollback');
      const statuses = (await Promise.all(waiting)).map(({ status }) => status);
      assert.deepEqual(statuses, Array<number>(3).fill(201));
      const { code, stderr } = await service.ended;
      assert.equal(code, 0, stderr);
    };
    try {
      await connected(String(environment.DATABASE_URL), drain);
      return true;
    } catch (cause) {
      if (performance.now() - signalled < stopDelayMs + workerDrainMs) throw cause;
      return false;
    } finally {
      await clients.end();
    }
  }

  test('drain one after another on SIGTERM while others keep serving, losing no request', async () => {
    await until(async () => {
      if (await drains()) return true;
      await service.kill();
      service = await serve(environment);
      return false;
    }, 'drain');
    const leads = await rows(
      environment,
      `select meta_leadgen_id from leads where last_name = meta_leadgen_id order by 1`,
    );
    assert.deepEqual(leads.flat(), ids);
  });

  test('close connections of a worker that becomes ready while the service drains', async () => {
    await service.kill();
    service = await serve({ ...environment, STOP_DELAY_MS: String(patienceMs) });
    const [killed = assert.fail()] = childrenOf(service.pid);
    process.kill(killed, 'SIGKILL');
    await until(() => service.stderr().includes('exited (SIGKILL)'), 'notice');
    service.signal('SIGTERM');
    await until(async () => {
      const { json } = await readyz();
      return (
        (json.checks as typeof fine).draining !== 'ok' && (json.workers as { serving: number }).serving === 2
      );
    }, 'replace it while draining');
    const isClosed = async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const asked = get(`${service.url}/docs/openapi.json`, { agent, method: 'HEAD' });
      const [response] = (await once(asked, 'response')) as [IncomingMessage];
      response.resume();
      agent.destroy();
      return response.headers.connection === 'close';
    };
    await until(
      async () => (await Promise.all(Array.from({ length: 40 }, isClosed))).every(Boolean),
      'close all connections',
    );
  });
});
