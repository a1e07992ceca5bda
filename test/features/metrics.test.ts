// /metrics on the admin port: the values, bounded labels, and the accuracy of the documentation and the alerts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import fastify from 'fastify';
import { sql } from 'kysely';
import { parse } from 'yaml';
import { type AdminListener, startAdminListener } from '../../app/serve/listen.ts';
import type { Database } from '../../engine/database/database.ts';
import { cacheCounts } from '../../engine/database/index.ts';
import { connections } from '../../engine/database/limits.ts';
import { openProbe, type Probe } from '../../engine/database/probe.ts';
import { HttpError } from '../../engine/errors.ts';
import { migrationNames } from '../../engine/schema/index.ts';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { callMeter } from '../../plugins/hooks/metrics.ts';
import { exposition } from '../../plugins/operations/monitoring/exposition.ts';
import { aggregateFamilies, familyReader } from '../../plugins/operations/monitoring/families.ts';
import { countsOf, readinessOf } from '../../plugins/operations/monitoring/index.ts';
import { loadMetrics } from '../../plugins/operations/monitoring/load.ts';
import { measureRequests } from '../../plugins/operations/monitoring/requests.ts';
import { drivers, type Instance, type Organization, send, startInstance } from '../support/instance.ts';
import { familiesOf, samplesOf, sumOf } from '../support/metrics.ts';
import { integrate } from '../support/partners.ts';
import { project, until } from '../support/process.ts';
import { partsOf } from '../support/scheduled.ts';

for (const driver of drivers) {
  describe(`metrics (${driver})`, () => {
    let instance: Instance;
    let acme: Organization;
    let admin: AdminListener | undefined;
    let probe: Probe | undefined;
    before(async () => {
      // Some statements wait until they time out.
      const environment = { ADMIN_PORT: '0', DATABASE_CONNECT_TIMEOUT_MS: '2000' };
      instance = await startInstance(driver, { environment });
      acme = await instance.organization('acme');
      const { app, config, database } = instance;
      probe = await openProbe(database);
      const { settingsProblem, isDraining } = app;
      admin = await startAdminListener(config, {
        liveness: () => undefined,
        readiness: readinessOf({ probe, migrations: [], settingsProblem, isDraining }),
        metrics: async () => [(await app.collectMetrics?.(true)) ?? []],
      });
    });
    after(async () => {
      await admin?.close();
      probe?.close();
      await instance.close();
    });

    const scrapeOnce = async (): Promise<string> => {
      const { status, text, headers } = await send(String(admin?.url), 'GET /metrics');
      assert.equal(status, 200);
      assert.match(String(headers.get('content-type')), /^text\/plain; version=0\.0\.4/);
      assert.equal(headers.get('cache-control'), 'no-store');
      return text;
    };
    /** Scrapes until no values are missing because the database took longer than a second, as it can on a busy machine. */
    const scrape = async (): Promise<string> => {
      let text = '';
      const queues = () => samplesOf(text, 'crm_queue_oldest_seconds').length;
      const others = () =>
        [
          ...['crm_backup_interval_seconds', 'crm_feed_behind_transactions'],
          ...['crm_jobs', 'crm_disk_size_bytes'],
        ].every((name) => samplesOf(text, name).length > 0);
      await until(async () => {
        text = await scrapeOnce();
        return queues() === 2 && others();
      }, 'read all values');
      return text;
    };
    const requests = 'crm_http_request_duration_seconds_count';

    test('counts each request once, by method, route, status class and lane', async () => {
      const { key } = acme;
      await instance.call('GET /api/v1/leads', { key });
      await instance.call('GET /api/v1/leads?page=2', { key });
      await instance.call('HEAD /api/v1/leads', { key });
      await instance.call('GET /api/v1/leads/7', { key });
      await instance.call('POST /api/v1/leads', { key, body: { last_name: 'Ada' } });
      await instance.call('GET /api/v1/leads');
      await instance.call('LOCK /api/v1/leads');
      await instance.call('GET /no/such/path');
      const text = await scrape();
      const counts = samplesOf(text, requests);
      const of = (method: string, route: string) =>
        counts
          .filter(({ labels }) => labels.method === method && labels.route === route)
          .map(({ labels, value }) => [labels.status, labels.lane, value])
          .sort();
      assert.deepEqual(of('GET', '/api/v1/leads'), [
        ['2xx', 'list', 2],
        ['4xx', undefined, 1],
      ]);
      assert.deepEqual(of('HEAD', '/api/v1/leads'), [['2xx', 'list', 1]]);
      assert.deepEqual(of('GET', '/api/v1/leads/:id'), [['4xx', 'read', 1]]);
      assert.deepEqual(of('POST', '/api/v1/leads'), [['2xx', 'write', 1]]);
      assert.deepEqual(of('other', '/api/v1/leads'), [['4xx', undefined, 1]]);
      assert.deepEqual(of('GET', 'unknown'), [['4xx', undefined, 1]]);
      const infinite = samplesOf(text, 'crm_http_request_duration_seconds_bucket').filter(
        ({ labels }) => labels.le === '+Inf',
      );
      assert.equal(sumOf(infinite), sumOf(counts));
      const seconds = sumOf(samplesOf(text, 'crm_http_request_duration_seconds_sum'));
      assert.ok(seconds > 0 && seconds < 60, String(seconds));
    });

    test('the number of series does not grow with organizations, paths, methods or input', async () => {
      const series = async () => (await scrape()).split('\n').filter((line) => /^crm_/.test(line)).length;
      const { app, database } = instance;
      const { admission } = partsOf(database);
      const ask = async (from: number, count: number) => {
        const headers = { authorization: `Bearer ${acme.key}` };
        const visit = async (_: unknown, index: number) => {
          const number = from + index;
          await admission.run('read', `9${number}`, async () => {});
          // Requests take most of the time, so only every tenth iteration sends requests.
          if (index % 10 > 0) return;
          await app.inject({
            url: `/api/v1/leads/${number}?org=organization-${number}&x${number}=1`,
            headers,
          });
          await app.inject({ url: `/path-${number}/and/${number}`, headers });
        };
        await Promise.all(Array.from({ length: count }, visit));
      };
      await ask(1, 10);
      const few = await series();
      await ask(100, 1000);
      const many = await series();
      assert.equal(many, few);
      assert.ok(few < 1000, String(few));
    });

    test('lanes: counts running, waiting and rejected statements, and organizations at their limit', async () => {
      const { admission } = partsOf(instance.database);
      const { promise, resolve } = Promise.withResolvers<void>();
      const bound = 2; // Maximum number of streams per organization.
      const running = Array.from({ length: bound + 3 }, () => admission.run('stream', '77', () => promise));
      const other = admission.run('stream', '78', () => promise);
      const ofStreams = (text: string, name: string) =>
        samplesOf(text, name)
          .filter(({ labels }) => labels.turn === 'stream')
          .map(({ labels, value }) => [labels.reason, value]);
      // A single scrape, because the statements wait only for a while.
      const during = await scrapeOnce();
      assert.deepEqual(ofStreams(during, 'crm_statements_running'), [[undefined, bound + 1]]);
      assert.deepEqual(ofStreams(during, 'crm_statements_limit'), [[undefined, 8]]);
      assert.deepEqual(ofStreams(during, 'crm_statements_waiting'), [[undefined, 3]]);
      assert.deepEqual(ofStreams(during, 'crm_organizations_waiting'), [[undefined, 1]]);
      assert.deepEqual(ofStreams(during, 'crm_organizations_at_bound'), [[undefined, 1]]);
      assert.deepEqual(ofStreams(during, 'crm_organization_waiting_max'), [[undefined, 3]]);
      const outcomes = await Promise.allSettled(running.slice(bound));
      assert.ok(outcomes.every((each) => each.status === 'rejected' && each.reason instanceof HttpError));
      assert.deepEqual(ofStreams(await scrape(), 'crm_statements_refused_total'), [
        ['full', 0],
        ['late', 3],
      ]);
      resolve();
      await Promise.all([...running.slice(0, bound), other]);
      assert.deepEqual(ofStreams(await scrape(), 'crm_statements_running'), [[undefined, 0]]);
    });

    test('responses: bytes that clients have not read yet', async () => {
      const { hold } = instance.database;
      const bytes = async () => samplesOf(await scrape(), 'crm_response_buffer_bytes')[0]?.value;
      const before = Number(await bytes());
      const [first, second] = [hold(acme.id, 1_000_000), hold(acme.id, 2_000_000)];
      assert.equal(await bytes(), before + 3_000_000);
      first();
      second();
      assert.equal(await bytes(), before);
    });

    test('queues: waiting items, the oldest one and dead letters, without the age of items in disabled integrations', async () => {
      const { id } = await integrate(instance, acme, 'telegram');
      const off = await integrate(instance, acme, 'telegram');
      const tables = tablesOf(instance.database);
      await sql`update crm_integrations set enabled = false where id = ${off.id}::bigint`.execute(tables);
      const add = (integration: string, event: string, status: string, age: string) =>
        sql`insert into crm_inbox (organization_id, integration_id, event_id, payload, status, received_at, next_at)
          values (${acme.id}::bigint, ${integration}::bigint, ${event}, '{}', ${status}, now() - ${age}::interval, now() + interval '1 hour')`.execute(
          tables,
        );
      await add(id, 'a', 'waiting', '100 seconds');
      await add(off.id, 'b', 'waiting', '500 seconds');
      await add(id, 'c', 'dead', '900 seconds');
      await add(id, 'd', 'done', '900 seconds');
      const text = await scrape();
      const inbox = (name: string) => samplesOf(text, name).filter(({ labels }) => labels.queue === 'inbox');
      assert.deepEqual(
        inbox('crm_queue_items').map(({ labels, value }) => [labels.state, value]),
        [
          ['waiting', 2],
          ['dead', 1],
        ],
      );
      const [{ value: oldest } = { value: 0 }] = inbox('crm_queue_oldest_seconds');
      assert.ok(oldest >= 100 && oldest < 200, String(oldest));
    });

    test('backups: start and size of the last successful one, whatever followed', async () => {
      const values = async () => {
        const text = await scrape();
        return ['last_success_timestamp_seconds', 'size_bytes', 'interval_seconds'].map((name) =>
          samplesOf(text, `crm_backup_${name}`).map(({ value }) => value),
        );
      };
      assert.deepEqual(await values(), [[0], [0], [0]]);
      const tables = tablesOf(instance.database);
      await sql`insert into crm_backups (scheduled, file, started_at, ended_at, bytes, error) values
        (false, 'a', to_timestamp(1000), to_timestamp(1001), 1, null),
        (true, 'b', to_timestamp(2000.5), to_timestamp(2060), 123456, null),
        (true, 'c', to_timestamp(3000), to_timestamp(3001), null, 'the disk is full'),
        (true, 'd', to_timestamp(4000), null, null, null)`.execute(tables);
      assert.deepEqual(await values(), [[2000.5], [123456], [0]]);
    });

    test('readiness names missing migrations, and the code of a failure, but no message of the driver', async () => {
      let checked = 0;
      const own = probe ?? assert.fail();
      const counting: Probe = {
        ...own,
        migrations: (timeoutMs) => {
          checked++;
          return own.migrations(timeoutMs);
        },
      };
      const ready = readinessOf({
        ...{ probe: counting, migrations: [], settingsProblem: () => undefined, isDraining: () => false },
      });
      const both = await Promise.all([ready(), ready()]);
      assert.deepEqual([both[0], checked], [both[1], 1], 'concurrent checks are one');
      const checksOf = async (migrations: readonly string[]) => {
        const settingsProblem = () => 'a secret in config.yaml';
        const subjects = { probe: own, migrations, settingsProblem };
        const read = async () => (await readinessOf({ ...subjects, isDraining: () => true })()).checks;
        let checks = await read();
        // On a busy machine, the database can take longer than a second.
        await until(async () => {
          if (checks.database?.startsWith('no response')) checks = await read();
          return !checks.database?.startsWith('no response');
        }, 'the database to respond');
        assert.deepEqual(
          [checks.configuration, checks.draining],
          ['the last change was rejected; see the log', 'stopping'],
        );
        return [checks.database, checks.migrations];
      };
      // Instances of tests have no table of migrations.
      assert.deepEqual(await checksOf(['a']), ['42P01', 'unknown']);
      const tables = tablesOf(instance.database);
      await sql`create table crm_migrations as values ('a'), ('b'), ('c')`.execute(tables);
      await sql`alter table crm_migrations rename column column1 to name`.execute(tables);
      try {
        assert.deepEqual(await checksOf(['c', 'a']), [undefined, undefined]);
        assert.deepEqual(await checksOf(['d', 'a', 'e']), [undefined, 'missing: d, e']);
      } finally {
        await sql`drop table crm_migrations`.execute(tables);
      }
    });

    test('caches, connections, the event loop, the disk, processes and build information', async () => {
      const text = await scrape();
      const gaugeOf = (name: string) => samplesOf(text, name)[0]?.value ?? assert.fail(name);
      const { blocks, bsize } = await statfs(dirname(instance.config.dataFolder));
      assert.equal(gaugeOf('crm_disk_size_bytes'), blocks * bsize);
      assert.ok(gaugeOf('crm_disk_free_bytes') < blocks * bsize);
      assert.deepEqual([gaugeOf('crm_workers'), gaugeOf('crm_workers_serving')], [1, 1]);
      const keys = samplesOf(text, 'crm_cache_lookups_total').filter(({ labels }) => labels.cache === 'keys');
      assert.ok(keys.every(({ value }) => value > 0) && keys.length === 2, JSON.stringify(keys));
      const pools = new Set(samplesOf(text, 'crm_database_connections').map(({ labels }) => labels.pool));
      const expected = driver === 'postgresql' ? ['lists', 'records', 'shared', 'writes'] : [];
      assert.deepEqual([...pools].sort(), expected);
      assert.equal(sumOf(samplesOf(text, 'crm_database_connections')) > 0, driver === 'postgresql');
      const { lists, records } = connections(instance.config.pool);
      const limits = samplesOf(text, 'crm_database_connections_limit');
      for (const [pool, limit] of Object.entries({ lists, records }))
        assert.equal(
          limits.find(({ labels }) => labels.pool === pool)?.value,
          driver === 'postgresql' ? limit : undefined,
          pool,
        );
      assert.equal(gaugeOf('crm_response_buffer_limit_bytes'), instance.config.responseBytes);
      assert.ok(sumOf(samplesOf(text, 'process_resident_memory_bytes')) > 1e7);
      assert.equal(samplesOf(text, 'nodejs_eventloop_lag_max_seconds').length, 1);
      const [info] = samplesOf(text, 'crm_build_info');
      assert.deepEqual([info?.value, info?.labels.database, info?.labels.node], [1, driver, process.version]);
      assert.equal(info?.labels.migration, migrationNames(instance.config).at(-1));
    });

    test('docs/metrics.md lists exactly the metrics of the service, with their help texts', async () => {
      const page = readFileSync(join(project, 'docs/metrics.md'), 'utf8');
      const rows = [...page.matchAll(/^\| `(crm_\w+)` +\| (\w+) +\|.*\| (.*?) +\|$/gm)];
      const described = rows.map(([, name, type, help]) => ({ name, type, help }));
      const families = familiesOf(await scrape()).filter(({ name }) => name.startsWith('crm_'));
      assert.deepEqual(described.toSorted(byName), families.toSorted(byName));
      const metricNames = new Set(familiesOf(await scrape()).map(({ name }) => name));
      const used = [...page.matchAll(/`[^`]*`/g)].flatMap(([code]) => namesIn(code));
      assert.deepEqual(
        used.filter((name) => !metricNames.has(name)),
        [],
      );
    });

    test('docs/metrics.md lists exactly the alerts, which use existing metrics with their labels and describe an action', async () => {
      const metricNames = new Set(familiesOf(await scrape()).map(({ name }) => name));
      const page = readFileSync(join(project, 'docs/metrics.md'), 'utf8');
      /** The labels of each metric of the service. */
      const labels = new Map(
        [...page.matchAll(/^\| `(crm_\w+)` +\| \w+ +\| (.*?) *\|/gm)].map(([, name = '', names = '']) => [
          name,
          names.match(/\w+/g) ?? [],
        ]),
      );
      const { groups } = parse(readFileSync(join(project, 'docs/alerts.yaml'), 'utf8')) as {
        groups: { rules: { alert: string; expr: string; annotations: Record<string, string> }[] }[];
      };
      const rules = groups.flatMap(({ rules }) => rules);
      const described = [...page.matchAll(/^\| `(Crm\w+)` \| .+ \|$/gm)].map(([, alert]) => alert);
      assert.deepEqual(
        rules.map(({ alert }) => alert),
        described,
      );
      for (const { alert, expr, annotations } of rules) {
        const names = namesIn(expr);
        assert.ok(names.length > 0, alert);
        assert.deepEqual(
          names.filter((name) => !metricNames.has(name)),
          [],
          alert,
        );
        assert.ok(annotations.summary && annotations.action, alert);
        // "instance" is Prometheus's own label, and "le" belongs to every histogram.
        const known = ['instance', 'le', ...names.flatMap((name) => labels.get(name) ?? [])];
        assert.deepEqual(
          labelsIn(expr, annotations).filter((label) => !known.includes(label)),
          [],
          alert,
        );
      }
    });

    // The embedded database runs one statement at a time, so none waits for a lock.
    if (driver === 'postgresql') {
      test('an unresponsive database does not block a scrape, which returns the other metrics', async () => {
        await transaction(instance.database, async (tables) => {
          await sql`lock table crm_inbox in access exclusive mode`.execute(tables);
          // The lock is held until the scrape has ended. On a busy machine, more values can be missing.
          let text = '';
          const queues = () => samplesOf(text, 'crm_queue_oldest_seconds').map(({ labels }) => labels.queue);
          await until(async () => {
            text = await scrapeOnce();
            // Keeps the transaction from timing out.
            await sql`select 1`.execute(tables);
            return queues().length > 0;
          }, 'read the other queue');
          assert.deepEqual(queues(), ['deliveries']);
          assert.ok(sumOf(samplesOf(text, requests)) > 0);
        });
        await scrape();
      });

      test('a long transaction delays the change feed, and its metrics show the delay', async () => {
        await transaction(instance.database, async (tables) => {
          await sql`select pg_current_xact_id(), pg_sleep(0.2)`.execute(tables);
          await instance.call('POST /api/v1/leads', { key: acme.key, body: { last_name: 'Ada' } });
          const text = await scrape();
          assert.ok(sumOf(samplesOf(text, 'crm_feed_lag_seconds')) >= 0.2);
          assert.ok(sumOf(samplesOf(text, 'crm_feed_behind_transactions')) >= 1);
        });
      });
    }
  });
}

const byName = (a: { name?: string | undefined }, b: { name?: string | undefined }) =>
  String(a.name).localeCompare(String(b.name));

/** Returns the metric names in a document, without the suffixes of histograms. */
const namesIn = (text: string): string[] =>
  [...text.matchAll(/\b(?:crm|nodejs|process)_[a-z0-9_]+\b/g)].map(([name]) =>
    name.replace(
      /^(crm_http_request_duration_seconds|nodejs_gc_duration_seconds)_(?:bucket|count|sum)$/,
      '$1',
    ),
  );

test('nothing is measured without ADMIN_PORT', async () => {
  const instance = await startInstance(drivers[0] ?? 'embedded');
  assert.equal(instance.app.collectMetrics, undefined);
  await instance.close();
});

test('each number of the load is the value of its own metric', async () => {
  const values: (readonly [name: string, value: number, labels: string])[] = [];
  const lane = { lane: 'read', running: 1, limit: 2, waiting: 3, queueFull: 4, timedOut: 5 } as const;
  const load = { ...lane, organizations: 6, limited: 7, longestQueue: 8 };
  const connections = [{ pool: 'lists', inUse: 1, idle: 2, waiting: 3, limit: 4 }] as const;
  const status = () => ({ lanes: [load], bytes: 1, byteLimit: 2, connections, replicas: undefined });
  await loadMetrics({ status } as unknown as Pick<Database, 'status'>).read((name, value, labels = {}) =>
    values.push([name.replace('crm_', ''), value, Object.values(labels).join()]),
  );
  const [caches, others] = [true, false].map((isCache) =>
    values.filter(([name]) => (name === 'cache_lookups_total') === isCache),
  );
  assert.deepEqual(others, [
    ['statements_running', 1, 'read'],
    ['statements_limit', 2, 'read'],
    ['statements_waiting', 3, 'read'],
    ['statements_refused_total', 4, 'read,full'],
    ['statements_refused_total', 5, 'read,late'],
    ['organizations_waiting', 6, 'read'],
    ['organizations_at_bound', 7, 'read'],
    ['organization_waiting_max', 8, 'read'],
    ['response_buffer_bytes', 1, ''],
    ['response_buffer_limit_bytes', 2, ''],
    ['database_connections', 1, 'lists,in_use'],
    ['database_connections', 2, 'lists,idle'],
    ['database_connections_limit', 4, 'lists'],
    ['database_connections_waiting', 3, 'lists'],
  ]);
  assert.deepEqual(
    caches,
    [...cacheCounts()].flatMap(([cache, { hits, misses }]) => [
      ['cache_lookups_total', hits, `${cache},hit`],
      ['cache_lookups_total', misses, `${cache},miss`],
    ]),
  );
});

test('a request is counted in the buckets of its duration and above, in seconds', async () => {
  const app = fastify();
  const read = measureRequests(app);
  app.get('/', () => new Promise((resolve) => setTimeout(resolve, 60, 'slow')));
  try {
    await app.ready();
    const begun = performance.now();
    assert.equal((await app.inject('/')).statusCode, 200);
    const seconds = (performance.now() - begun) / 1000;
    const samples = (name: string) =>
      read()
        .values.filter(({ metricName }) => metricName === `crm_http_request_duration_seconds_${name}`)
        .map(({ labels, value }) => [labels.le, value] as const);
    const buckets = samples('bucket');
    assert.deepEqual(
      buckets.map(([bound]) => bound),
      [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, '+Inf'],
    );
    const counts = buckets.map(([, count]) => count);
    assert.deepEqual(counts.slice(0, 5), [0, 0, 0, 0, 0]);
    assert.deepEqual(counts.toSorted(), counts);
    const [[, sum] = assert.fail()] = samples('sum');
    assert.ok(sum > 0.05 && sum <= seconds, `${sum} s of ${seconds} s`);
    const first = buckets.find(([, count]) => count === 1)?.[0];
    assert.ok(first === '+Inf' || sum <= Number(first), `${sum} s in the bucket up to ${first}`);
    assert.deepEqual(samples('count'), [[undefined, 1]]);
  } finally {
    await app.close();
  }
});

test('the checks, the replicas and the processes are metrics', async () => {
  const ok = { database: undefined, migrations: undefined, configuration: undefined, draining: undefined };
  const { text } = await exposition(
    {
      checks: { ...ok, migrations: 'missing: a' },
      replicas: { one: null, two: 'does not respond' },
      workers: { serving: 1, of: 3 },
    },
    [],
  );
  const valuesOf = (name: string) =>
    samplesOf(text, name).map(({ labels, value }) => [...Object.values(labels), value]);
  assert.deepEqual(valuesOf('crm_ready'), [
    ['database', 1],
    ['migrations', 0],
    ['configuration', 1],
    ['draining', 1],
  ]);
  assert.deepEqual(valuesOf('crm_replica_used'), [
    ['one', 1],
    ['two', 0],
  ]);
  assert.deepEqual([valuesOf('crm_workers'), valuesOf('crm_workers_serving')], [[[3]], [[1]]]);
});

test('metrics that cannot be read are omitted, and concurrent requests share one read', async () => {
  let reads = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  const family = (name: string) => ({ [name]: { type: 'gauge', help: name } }) as const;
  const collect = familyReader([
    {
      ofInstance: false,
      families: family('broken'),
      read: async (report) => {
        report('broken', 1);
        throw new Error('the database does not respond');
      },
    },
    {
      ofInstance: false,
      families: family('working'),
      read: async (report) => {
        reads++;
        await promise;
        report('working', 7);
      },
    },
    {
      ofInstance: true,
      families: family('shared'),
      read: (report) => {
        report('shared', 1);
      },
    },
  ]);
  const both = [collect(false), collect(false)];
  resolve();
  for (const families of await Promise.all(both))
    assert.deepEqual(
      families.map(({ name, values }) => [name, values.map(({ value }) => value)]),
      [
        ['broken', []],
        ['working', [7]],
        ['shared', []],
      ],
    );
  assert.equal(reads, 1);
  const again = await collect(true);
  assert.deepEqual([reads, again.find(({ name }) => name === 'shared')?.values.length], [2, 1]);
});

test('counters of several processes are added up, without gauges', async () => {
  const familiesWith = (value: number) =>
    ['counter', 'histogram', 'gauge'].map((type) => ({
      ...{ name: `a_${type}`, help: 'A.', type, aggregator: 'sum' },
      values: [{ value, labels: {}, ...(type === 'histogram' && { metricName: 'a_histogram_sum' }) }],
    }));
  assert.deepEqual(
    (await countsOf([familiesWith(2), familiesWith(3)])).map(({ name, values }) => [
      name,
      values.map(({ value }) => value),
    ]),
    [
      ['a_counter', [5]],
      ['a_histogram', [5]],
    ],
  );
});

test('the durations of hooks and actions are a histogram', async () => {
  const { count, metrics } = callMeter(undefined);
  const call = { module: 'm', place: 'beforeWrite of leads', result: 'completed' } as const;
  for (const seconds of [0.0005, 0.05, 40]) count({ ...call, seconds });
  count({ ...call, result: 'failed', seconds: 2 });
  const collect = familyReader([metrics]);
  const text = await aggregateFamilies([await collect(true), await collect(true)]).metrics();
  const name = 'crm_hook_duration_seconds';
  assert.equal(familiesOf(text).find((family) => family.name === name)?.type, 'histogram');
  const completed = (sample: string) =>
    samplesOf(text, `${name}_${sample}`).filter(({ labels }) => labels.result === 'completed');
  // The values of two processes are added up.
  assert.deepEqual(
    completed('bucket').map(({ labels, value }) => [labels.le, value]),
    [
      ['0.001', 2],
      ['0.01', 2],
      ['0.1', 4],
      ['1', 4],
      ['5', 4],
      ['30', 4],
      ['+Inf', 6],
    ],
  );
  assert.deepEqual([completed('count')[0]?.value, completed('sum')[0]?.value], [6, 80.101]);
});

/** Returns the labels that an alert groups by, selects or shows. */
const labelsIn = (expr: string, annotations: Readonly<Record<string, string>>): string[] =>
  [
    ...[...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(', ')),
    ...[...expr.matchAll(/(\w+)!?=~?"/g)].map(([, name = '']) => name),
    ...[
      ...Object.values(annotations)
        .join(' ')
        .matchAll(/\$labels\.(\w+)/g),
    ].map(([, name = '']) => name),
  ].filter((name) => name !== '');
