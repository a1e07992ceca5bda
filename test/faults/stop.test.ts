// A service as seen by operators and load balancers, and how it stops: no request is lost, and it always
// exits.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, writeFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import fastify from 'fastify';
import { readConfig } from '../../app/config.ts';
import { stopService } from '../../app/serve/stop.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { openProbe } from '../../engine/database/probe.ts';
import { readinessOf } from '../../plugins/operations/monitoring/readiness.ts';
import { type Balancer, startBalancer } from '../support/balancer.ts';
import { type Answer, send, temporaryFolder } from '../support/instance.ts';
import { connected, makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { type Environment, project, type Service, serve, until } from '../support/process.ts';
import { patienceMs, patient, promised, within } from '../support/promised.ts';
import { opened } from '../support/wire.ts';

/** Time for which a node still serves requests after SIGTERM, in milliseconds. */
const stopDelayMs = 1500;

test('a stop reports whether requests were interrupted, and closes everything else in either case', async () => {
  const outcomes: unknown[] = [];
  for (const isHanging of [false, true]) {
    const app = fastify();
    const reached = Promise.withResolvers<void>();
    app.get('/', () => {
      reached.resolve();
      return new Promise(() => {});
    });
    const url = await app.listen({ host: '127.0.0.1', port: 0 });
    const asked = isHanging ? fetch(url).catch(() => {}) : undefined;
    if (isHanging) await reached.promise;
    let isClosed = false;
    const close = async () => {
      isClosed = true;
    };
    outcomes.push([await stopService(app, close, 100), isClosed]);
    app.server.closeAllConnections();
    await asked;
  }
  assert.deepEqual(outcomes, [
    [true, true],
    [false, true],
  ]);
});

test('the delay before a stop depends on the admin port, unless it is set', () => {
  const delayOf = (environment: Environment) => readConfig(environment).stopDelayMs;
  assert.deepEqual(
    [{}, { ADMIN_PORT: '0' }, { ADMIN_PORT: '0', STOP_DELAY_MS: '0' }, { STOP_DELAY_MS: '5' }].map(delayOf),
    [0, 2000, 0, 5],
  );
});

describe('health checks and shutdown', { concurrency: 1 }, () => {
  const temporary = temporaryFolder();
  const settingsFile = join(temporary.path, 'config.yaml');
  let server: Server;
  let url: string;
  let environment: Environment;
  let service: Service;
  let key: string;
  let balancer: Balancer;
  before(async () => {
    cpSync(readConfig({}).settingsFile, settingsFile);
    [server, balancer] = await Promise.all([startPostgres(), startBalancer()]);
    ({ url } = await makeDatabase(server.url));
    environment = {
      ...patient,
      DATABASE_URL: url,
      DATABASE_POOL: '3',
      MIGRATE_ON_START: 'true',
      CRM_CONFIG: settingsFile,
      LOG_LEVEL: 'fatal',
      AUTH_SECRETS: 'a secret that is the same on every node',
      ADMIN_PORT: '0',
      STOP_DELAY_MS: String(stopDelayMs),
    };
    service = await serve(environment);
    key = String(service.printed.key);
  });
  after(async () => {
    await service?.kill();
    await balancer?.close();
    await server?.stop();
    temporary.remove();
  });

  const adminOf = (node: Service) => String(node.printed.admin);
  const readyz = () => send(adminOf(service), 'GET /readyz');
  const fine = { database: 'ok', migrations: 'ok', configuration: 'ok', draining: 'ok' };
  const isReady = async () => (await readyz()).status === 200;
  /** Waits until the service is ready, because a database probe can time out on a busy machine. */
  const ready = async (): Promise<Answer> => {
    let answer = await readyz();
    await until(async () => {
      if (answer.status === 200) return true;
      answer = await readyz();
      return false;
    }, 'be ready');
    return answer;
  };
  /** Waits until a check fails. @returns its message */
  const failing = async (check: keyof typeof fine): Promise<string> => {
    let reason = 'ok';
    await until(async () => {
      const { status, json } = await readyz();
      if (status === 200) return false;
      reason = (json.checks as typeof fine)[check];
      return (
        reason !== 'ok' && String(json.error).startsWith('not ready: ') && String(json.error).includes(check)
      );
    }, `${check} to fail`);
    return reason;
  };

  test('serves /livez and /readyz on the admin port', async () => {
    const live = await send(adminOf(service), 'GET /livez');
    assert.deepEqual([live.status, live.json], [200, { status: 'ok' }]);
    assert.deepEqual((await ready()).json, { status: 'ready', checks: fine });
    const missing = await send(adminOf(service), 'GET /');
    assert.deepEqual([missing.status, missing.json], [404, { error: 'Not found' }]);
    assert.equal((await service.call('GET /readyz', { key })).status, 404, 'not on the port for clients');
  });

  test('not ready while the configuration is rejected', async () => {
    writeFileSync(settingsFile, 'no_such_key: 1\n');
    assert.equal(await failing('configuration'), 'the last change was rejected; see the log');
    cpSync(readConfig({}).settingsFile, settingsFile);
    await until(isReady, 'ready again');
  });

  test('not ready while a migration is missing', async () => {
    const rename = (from: string, to: string) =>
      connected(url, (client) =>
        client.query(`update crm_migrations set name = replace(name, '${from}', '${to}')`),
      );
    await rename('Migration', 'Another');
    assert.match(await failing('migrations'), /^missing: Migration\d+/);
    await rename('Another', 'Migration');
    await until(isReady, 'ready again');
  });

  /**
   * Calls /readyz until the database has been probed again.
   * @returns the reasons why the service was not ready
   */
  const readyUntilProbed = (): Promise<readonly string[]> =>
    connected(url, async (client) => {
      const reasons = new Set<string>();
      const { rows } = await client.query('select clock_timestamp() as now');
      await until(async () => {
        const { status, json } = await readyz();
        if (status !== 200) reasons.add((json.checks as typeof fine).database);
        const { rowCount } = await client.query(
          `select from pg_stat_activity where datname = current_database() and state = 'idle'
           and query = 'select name from crm_migrations' and query_start > $1`,
          [rows[0].now],
        );
        return rowCount !== 0;
      }, 'probe the database');
      // A busy machine can take longer than the probe waits.
      return [...reasons].filter((reason) => !reason.startsWith('no response'));
    });

  test('ready while requests wait for locks and after connections were closed', async () => {
    await connected(url, async (client) => {
      await client.query('begin');
      await client.query('lock table leads in access exclusive mode');
      const waiting = Array.from({ length: 6 }, () => service.call('GET /api/v1/leads', { key }));
      assert.deepEqual(await readyUntilProbed(), [], 'the probe uses no connection of requests');
      await client.query('rollback');
      await Promise.all(waiting);
      await client.query(
        'select pg_terminate_backend(pid, 60000) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()',
      );
      assert.deepEqual(await readyUntilProbed(), []);
    });
    assert.deepEqual((await ready()).json, { status: 'ready', checks: fine });
  });

  test('not ready while the database is silent, with one probe for all callers', async () => {
    const config = readConfig(environment);
    const database = await openDatabase(config, []);
    const probe = await openProbe(database);
    let probes = 0;
    const readiness = readinessOf({
      probe: {
        ...probe,
        migrations: (timeoutMs) => {
          probes++;
          return probe.migrations(timeoutMs);
        },
      },
      migrations: [],
      settingsProblem: () => undefined,
      isDraining: () => false,
    });
    server.freeze();
    try {
      assert.match(await within(5_000, failing('database')), /./);
      assert.equal((await send(adminOf(service), 'GET /livez')).status, 200);
      const reports = await within(2_500, Promise.all(Array.from({ length: 50 }, readiness)));
      assert.equal(probes, 1);
      for (const { checks } of reports) assert.match(String(checks.database), /^no response/);
    } finally {
      server.thaw();
      probe.close();
      await database.close();
    }
    await until(isReady, 'ready again', promised(5_000));
  });

  test('loses no request in a rolling restart behind a load balancer', async (t) => {
    const behind = (node: Service) => ({ url: node.url, admin: adminOf(node) });
    const added = async (node: Service) => {
      const backend = behind(node);
      balancer.add(backend);
      await until(() => balancer.uses(backend), 'ready');
      return { node, backend };
    };
    const nodes = await Promise.all([added(service), added(await serve(environment))]);
    let outcomes: Record<string, number> = {};
    let lost = 0;
    let isOver = false;
    const client = async (agent: Agent) => {
      while (!isOver) {
        const outcome = await request(`${balancer.url}/api/v1/leads?page=1`, agent);
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
        await pause(5);
      }
      agent.destroy();
    };
    const request = (target: string, agent: Agent): Promise<string> =>
      new Promise((resolve) => {
        get(target, { agent, headers: { authorization: `Bearer ${key}` } }, (response) => {
          response.resume().on('end', () => resolve(String(response.statusCode)));
          response.on('error', ({ message }) => resolve(message));
        }).on('error', ({ message }) => resolve(message));
      });
    const clients = [true, true, false, false].map((keepAlive) => client(new Agent({ keepAlive })));
    for (const index of [0, 1] as const) {
      let isNoticed = false;
      let delayMs = stopDelayMs;
      while (!isNoticed) {
        assert.ok(delayMs <= patienceMs, 'the node exits before the balancer notices that it is draining');
        const { node, backend } = nodes[index];
        const stall = monitorEventLoopDelay();
        stall.enable();
        const start = performance.now();
        node.signal('SIGTERM');
        isNoticed = await Promise.race([
          until(() => !balancer.uses(backend), 'be noticed').then(
            () => performance.now() - start < delayMs / 2,
          ),
          node.ended.then(() => false),
        ]);
        const { code, stderr } = await node.ended;
        assert.deepEqual([code, stderr], [0, '']);
        stall.disable();
        // The clients also have to notice it in time, and they stall if this process does.
        isNoticed &&= stall.max / 1e6 < delayMs / 3;
        balancer.remove(backend);
        const isLast = index === 1 && isNoticed;
        if (!isNoticed) delayMs *= 2;
        const next = await serve({ ...environment, STOP_DELAY_MS: isLast ? '600000' : String(delayMs) });
        nodes[index] = await added(next);
        // The machine was too busy for the balancer to notice the stop, so lost requests do not count.
        if (!isNoticed) [outcomes, lost] = [{}, balancer.lost()];
      }
    }
    isOver = true;
    await Promise.all(clients);
    assert.deepEqual([Object.keys(outcomes), balancer.lost() - lost], [['200'], 0], JSON.stringify(outcomes));
    t.diagnostic(`${outcomes['200']} requests`);
    service = nodes[0].node;
    const other = nodes[1].node;

    // Check the responses that the node's clients receive while it stops.
    other.signal('SIGTERM');
    // On a busy machine, a check of the database can fail, too.
    const draining = { error: 'not ready: draining', checks: { ...fine, draining: 'stopping' } };
    await until(
      async () => isDeepStrictEqual((await send(adminOf(other), 'GET /readyz')).json, draining),
      'not ready',
    );
    const served = await other.call('GET /api/v1/leads', { key });
    assert.deepEqual([served.status, served.headers.get('connection')], [200, 'close']);
    await other.kill();
  });

  test('answers requests in flight and exits on SIGTERM while the database is silent', async (t) => {
    // The request has to fail before the time limit for requests in flight.
    const stopping = await serve({
      ...environment,
      DATABASE_CONNECT_TIMEOUT_MS: '1000',
      DATABASE_STATEMENT_TIMEOUT_MS: '1000',
      DATABASE_LIST_TIMEOUT_MS: '1000',
    });
    t.after(stopping.kill);
    const socket = await opened(stopping.url);
    server.freeze();
    try {
      const get = 'GET /api/v1/leads?page=2 HTTP/1.1\r\nHost: crm\r\n';
      // The first request does not need the database. Once it has been answered, the second has been read,
      // too.
      socket.send(`${get}\r\n${get}Authorization: Bearer ${key}\r\n\r\n`);
      await until(() => socket.text().startsWith('HTTP/1.1 401 '), 'be in flight');
      stopping.signal('SIGTERM');
      const { code } = await within(10_000, stopping.ended);
      await socket.ended;
      assert.match(socket.text(), /\}HTTP\/1\.1 50[03] /);
      assert.equal(code, 0);
    } finally {
      server.thaw();
    }
  });

  test('npm start forwards SIGTERM and waits for the exit', {
    skip: process.platform === 'win32',
  }, async () => {
    const { DATABASE_URL = '', AUTH_SECRETS = '' } = environment;
    const { PATH = '', HOME = '' } = process.env;
    const npm: ChildProcess = spawn('npm', ['--silent', 'start', '--', '--json'], {
      cwd: project,
      env: { PATH, HOME, DATABASE_URL, AUTH_SECRETS, PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [printed] = (await once(npm.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
    const { url: address } = JSON.parse(printed.toString()) as { url: string };
    assert.equal((await send(address, 'GET /docs/openapi.json')).status, 200);
    npm.kill('SIGTERM');
    const [code] = await once(npm, 'exit');
    assert.equal(code, 0);
    await assert.rejects(send(address, 'GET /docs/openapi.json'), 'the server has exited too');
  });
});
