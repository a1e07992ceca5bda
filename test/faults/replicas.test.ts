// Reads from replicas in any state, with a primary, a real standby, and two nodes that use both.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { readConfig } from '../../app/config.ts';
import { transaction } from '../../engine/tables/index.ts';
import { addTeamMember, createTeam, removeTeamMember } from '../../plugins/access/teams/teams.ts';
import { createAdminServer } from '../../plugins/operations/monitoring/admin-server.ts';
import { readinessOf } from '../../plugins/operations/monitoring/readiness.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { command, type Node, secondNode, soonerThan } from '../support/people.ts';
import { makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { connected, migrated, until } from '../support/process.ts';
import { isMeasured, patient, promised } from '../support/promised.ts';
import { partsOf } from '../support/scheduled.ts';
import { sourcesWith } from '../support/sources.ts';

const maxLagMs = 1000;
/** On a busy machine, statements take long. Connections to a replica that stops responding must still be given up. */
const limits: Record<string, string> = isMeasured ? {} : { ...patient, DATABASE_CONNECT_TIMEOUT_MS: '10000' };
const overlay = {
  file: 'resources/team-leads.yaml',
  text: 'extends: leads\nscopes:\n  team: owner_id in my_team\n',
};
const suite = drivers.includes('postgresql') ? describe : describe.skip;

suite('a primary and its replicas', { concurrency: 1 }, () => {
  let primary: Server;
  let standby: Server;
  let instance: Instance;
  let other: Node;
  let acme: Organization;
  /** A read-only key. */
  let reader: string;
  /** Keys that can write only the records of a scope, and only perform an action of a module. */
  let writers: readonly string[];
  /** Number of statements that the replica received. */
  let onReplica = 0;

  before(async () => {
    primary = await startPostgres();
    standby = await primary.standby();
    const { url } = await makeDatabase(primary.url, migrated);
    const replica = new URL(standby.url);
    replica.pathname = new URL(url).pathname;
    const ofPrimary = new URL(url);
    ofPrimary.searchParams.set('application_name', 'of_primary');
    ofPrimary.searchParams.set('options', '-cwork_mem=7MB');
    const environment = {
      DATABASE_URL: ofPrimary.href,
      // The first replica does not exist, and the second has a database of another name.
      DATABASE_REPLICA_URLS: `postgres://nobody@127.0.0.1:1/none, ${standby.url}, ${replica.href}`,
      DATABASE_REPLICA_LAG_MS: String(maxLagMs),
      ...limits,
    };
    instance = await startInstance('postgresql', { environment, sources: await sourcesWith(overlay) });
    other = await secondNode(instance);
    acme = await instance.organization('acme');
    reader = await acme.keyWith([{ object: '*', actions: ['list', 'read'] }]);
    writers = await Promise.all(
      ['update:own', 'convert'].map((action) =>
        acme.keyWith([{ object: 'leads', actions: ['read', action] }]),
      ),
    );
    const { replicas } = partsOf(instance.database);
    assert.ok(replicas);
    const { find } = replicas;
    Object.assign(replicas, {
      find: async (...given: Parameters<typeof find>) => {
        const server = await find(...given);
        if (server !== undefined) onReplica++;
        return server;
      },
    });
    await used();
  });
  after(async () => {
    await other?.close();
    await instance?.close();
    await standby?.stop();
    await primary?.stop();
  });

  const named = (path: string) => new URL(standby.url).host + path;
  const name = () => named(new URL(String(instance.config.environment.DATABASE_URL)).pathname);
  const problem = () => instance.database.status().replicas?.[name()];
  const used = () => until(() => problem() === undefined, 'the replica to be used');
  const onStandby = (text: string) => connected(standby.url, (client) => client.query(text));
  const create = async (call = instance.call, key = acme.key): Promise<string> => {
    const answer = await call('POST /api/v1/leads', { key, body: { last_name: 'x' } });
    assert.equal(answer.status, 201, answer.text);
    return String(answer.json.id);
  };
  const status = async (id: string, key = acme.key, call = instance.call) =>
    (await call(`GET /api/v1/leads/${id}`, { key })).status;
  /** Runs work while replay is paused on the standby. */
  const paused = async (work: () => Promise<void>) => {
    await onStandby('select pg_wal_replay_pause()');
    await until(
      async () =>
        (await onStandby('select pg_get_wal_replay_pause_state() as state')).rows[0].state === 'paused',
      'the pause',
    );
    try {
      await work();
    } finally {
      await onStandby('select pg_wal_replay_resume()');
      await used();
    }
  };

  test('routes reads of read-only and writing callers and lists of every lane to the replica', async () => {
    const id = await create();
    for (const key of [acme.key, reader]) {
      for (const request of [`/${id}`, '', '?page=6', '?sort=description', '?q=x']) {
        await until(async () => {
          const before = onReplica;
          assert.ok(
            [200, 400].includes((await instance.call(`GET /api/v1/leads${request}`, { key })).status),
          );
          return onReplica > before;
        }, `${request} on the replica`);
      }
    }
  });

  test('routes writes and queries that explain a rejected write to the primary', async () => {
    const before = onReplica;
    const id = await create();
    const key = acme.key;
    for (const [request, expected] of [
      [`PATCH /api/v1/leads/${id}`, 200],
      [`DELETE /api/v1/leads/${id}`, 200],
    ] as const)
      assert.equal((await instance.call(request, { key, body: { last_name: 'y' } })).status, expected);
    const missing = { last_name: 'x', account_id: 999 };
    assert.equal((await instance.call('POST /api/v1/contacts', { key, body: missing })).status, 400);
    assert.equal(onReplica, before);
  });

  test('shows every write immediately to writing callers on both nodes, and to others within the lag, while replay is paused', () =>
    paused(async () => {
      const id = await create();
      assert.equal(await status(id), 200);
      assert.equal(await status(id, acme.key, other.call), 200, 'on the other node');
      for (const key of writers) assert.equal(await status(id, key), 200);
      // Until then, the replica can return the previous state.
      await soonerThan(maxLagMs, async () => (await status(id, reader)) === 200);
      await until(() => /^is \d+ ms behind$/.test(problem() ?? ''), 'say how far behind it is');
      const before = onReplica;
      assert.equal(await status(id, reader), 200);
      assert.equal(onReplica, before);
    }));

  test('applies changes to teams immediately to read-only members on both nodes, while replay is paused', async () => {
    const member = await limitedPerson(instance, acme, ['leads:list:team', 'leads:read:team']);
    const inTransaction = <T>(work: Parameters<typeof transaction<T>>[1]) =>
      transaction(instance.database, work);
    const by = command(instance);
    const team = await inTransaction((tables) => createTeam(tables, by, acme.id, 'North'));
    await inTransaction((tables) => addTeamMember(tables, by, acme.id, team, acme.user));
    const id = await create();
    const found = async ({ call }: Pick<Instance, 'call'>) => {
      const { json, text } = await call('GET /api/v1/leads', { key: member.key });
      assert.ok(Array.isArray(json.data), text);
      const listed = (json.data as readonly { id: number }[]).map((record) => String(record.id));
      return [await status(id, member.key, call), listed.includes(id)];
    };
    assert.deepEqual(await found(instance), [404, false]);
    await paused(async () => {
      await inTransaction((tables) => addTeamMember(tables, by, acme.id, team, member.id));
      for (const node of [instance, other]) assert.deepEqual(await found(node), [200, true]);
    });
    await paused(async () => {
      await inTransaction((tables) => removeTeamMember(tables, by, acme.id, team, member.id));
      for (const node of [instance, other]) assert.deepEqual(await found(node), [404, false]);
    });
  });

  test('rejects a revoked key within a second, whatever the state of the replica', () =>
    paused(async () => {
      const { id, key } = await acme.makeKey();
      const lead = await create(instance.call, key);
      assert.equal(await status(lead, key), 200);
      const { orm } = instance.database;
      await orm.em.fork().execute('update crm_api_keys set revoked_at = now() where id = ?', [id]);
      await soonerThan(1000, async () => (await status(lead, key)) === 401);
    }));

  test('shows every caller its own writes on every node while the replica lags intermittently', async () => {
    const keys = await Promise.all(Array.from({ length: 3 }, () => acme.makeKey()));
    const calls = [instance.call, other.call];
    const pick = <T>(all: readonly T[], index: number): T => all[index % all.length] as T;
    const step = fc.record({ by: fc.nat(2), node: fc.nat(1), write: fc.boolean(), record: fc.nat(3) });
    let isOver = false;
    const lagging = (async () => {
      while (!isOver) {
        await onStandby('select pg_wal_replay_pause(), pg_sleep(0.03)');
        await onStandby('select pg_wal_replay_resume(), pg_sleep(0.05)');
      }
    })();
    let reads = 0;
    const before = onReplica;
    const holds = () =>
      fc.assert(
        fc.asyncProperty(
          fc.array(fc.array(step, { maxLength: 10 }), { minLength: 2, maxLength: 4 }),
          async (clients) => {
            // Each client uses its own records, so it can predict their state.
            await Promise.all(
              clients.map(async (steps) => {
                const records: { id: string; name: string }[] = [];
                for (const { by, node, write, record } of steps) {
                  const { key } = pick(keys, by);
                  const call = pick(calls, node);
                  if (write || records.length === 0) {
                    const known = records[record];
                    const name = `name ${Math.random()}`;
                    const body = { last_name: name };
                    const path = known === undefined ? 'POST /api/v1/leads' : `PUT /api/v1/leads/${known.id}`;
                    const answer = await call(path, { key, body });
                    assert.ok(answer.status < 300, answer.text);
                    if (known === undefined) records.push({ id: String(answer.json.id), name });
                    else known.name = name;
                    continue;
                  }
                  const known = pick(records, record);
                  const read = await call(`GET /api/v1/leads/${known.id}`, { key });
                  reads++;
                  assert.equal(read.json.last_name, known.name);
                }
              }),
            );
          },
        ),
        { numRuns: 15 },
      );
    try {
      await until(async () => {
        await holds();
        return reads > 50 && onReplica > before;
      }, 'read enough, some of it on the replica');
    } finally {
      isOver = true;
      await lagging;
    }
  });

  test('shows every caller its own writes if commits do not wait until they are flushed', async (t) => {
    const onPrimary = (text: string) => connected(primary.url, (client) => client.query(text));
    const isUnflushed = async () =>
      (await onPrimary('select pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn() as unflushed'))
        .rows[0]?.unflushed === true;
    t.after(async () => {
      await onPrimary('alter system reset all');
      await onPrimary('select pg_reload_conf()');
      await used();
    });
    await onPrimary('alter system set synchronous_commit = off');
    await onPrimary(`alter system set wal_writer_delay = '10s'`);
    await onPrimary('select pg_reload_conf()');
    let unflushed = 0;
    // The server flushes by itself now and then, so some writes reach the replica immediately.
    await until(async () => {
      await used();
      const id = await create();
      assert.equal(await status(id), 200);
      assert.equal(await status(id, acme.key, other.call), 200, 'on the other node');
      if (await isUnflushed()) unflushed++;
      return unflushed === 5;
    }, 'read writes that the replica cannot have');
  });

  /**
   * Reads from six clients until the work is done.
   * @param work receives a function that waits until each client has completed another request
   * @returns the unsuccessful responses
   */
  const reading = async (work: (served: () => Promise<void>) => Promise<void>) => {
    const id = await create();
    await used();
    let isOver = false;
    const failures: string[] = [];
    const responses = Array.from({ length: 6 }, () => 0);
    const served = async () => {
      const enough = responses.map((count) => count + 2);
      await until(
        () => responses.every((count, index) => count >= Number(enough[index])),
        'be served',
        promised(4000),
      );
    };
    const clients = responses.map(async (_, index) => {
      while (!isOver) {
        const path = index % 3 === 0 ? 'GET /api/v1/leads?sort=description' : `GET /api/v1/leads/${id}`;
        const { status, text } = await instance.call(path.replace('?sort', '?page=1&sort'), {
          key: index % 2 === 0 ? acme.key : reader,
        });
        if (status !== 200) failures.push(`${status} ${text}`);
        responses[index] = Number(responses[index]) + 1;
      }
    });
    try {
      await work(served);
    } finally {
      isOver = true;
      await Promise.all(clients);
    }
    return failures;
  };

  test('fails no request when a replica dies, and uses it again when it returns', async () => {
    const failures = await reading(async (served) => {
      await standby.pause();
      await until(() => problem() === 'does not respond', 'the replica to be left out', promised(3000));
      await served();
      await standby.resume();
      await used();
    });
    assert.deepEqual(failures, []);
  });

  test('fails no request when a replica stops responding, and delays none when it returns', async () => {
    const failures = await reading(async (served) => {
      standby.freeze();
      try {
        await served();
        await until(() => problem() === 'does not respond', 'the replica to be left out', promised(1500));
      } finally {
        standby.thaw();
      }
      await used();
    });
    assert.deepEqual(failures, []);
  });

  test('runs a statement of a replica that stopped responding elsewhere, instead of reporting its cancellation', async () => {
    await used();
    const server =
      (await partsOf(instance.database).replicas?.find('1', 'delayed read')) ?? assert.fail('no replica');
    const running = server.run({ name: '', text: 'select pg_sleep(600)::text', values: [], lane: 'list' });
    const outcome = running.then(
      () => 'finished',
      (cause: Error) => cause.message,
    );
    const sleeping = `select from pg_stat_activity where state = 'active' and query like 'select pg_sleep(600)%'`;
    await until(async () => (await onStandby(sleeping)).rowCount === 1, 'the statement to run');
    standby.freeze();
    try {
      await until(() => problem() === 'does not respond', 'the replica to be left out');
    } finally {
      standby.thaw();
    }
    assert.match(await outcome, /^Connection terminated/);
    await used();
    await until(async () => (await onStandby(sleeping)).rowCount === 0, 'the replica to cancel it');
  });

  test('repeats a statement that a replica rejects on the primary, unless it was too slow', async () => {
    const { DATABASE_URL } = instance.config.environment;
    await connected(String(DATABASE_URL), (client) =>
      client.query(`create function fails(state text) returns text language plpgsql as $$ begin
        if pg_is_in_recovery() then raise 'on purpose' using errcode = state; end if;
        return 'on the primary';
      end $$`),
    );
    const copy = new URL(standby.url);
    copy.pathname = new URL(String(DATABASE_URL)).pathname;
    const exists = `select from pg_proc where proname = 'fails'`;
    await until(
      async () => (await connected(copy.href, (client) => client.query(exists))).rowCount === 1,
      'the function on the replica',
    );
    /** Runs a statement that fails on the replica with this state. @returns its rows or state */
    const failing = async (state: string) => {
      let outcome: unknown;
      await until(async () => {
        await used();
        const before = onReplica;
        outcome = await instance.database
          .run(
            { lane: 'list', name: '', text: `select fails('${state}')`, values: [] },
            { organization: '1', access: 'delayed read' },
          )
          .catch(({ code }: { code?: string }) => code);
        return onReplica > before;
      }, 'run on the replica');
      return outcome;
    };
    assert.deepEqual(await failing('22012'), [['on the primary']]);
    assert.equal(await failing('57014'), '57014');
  });

  test("a replica's connections have neither the options nor the application name of the primary's URL", async () => {
    await used();
    const { primary: server, replicas } = partsOf(instance.database);
    const replica = (await replicas?.find('1', 'delayed read')) ?? assert.fail('no replica');
    const text = `select current_setting('application_name'), current_setting('work_mem')`;
    const settings = { lane: 'list', name: '', text, values: [] } as const;
    assert.deepEqual(await server.run(settings), [['of_primary', '7MB']]);
    assert.deepEqual(await replica.run(settings), [['', '4MB']]);
  });

  test('/readyz reports a failing replica and stays ready', async () => {
    const readiness = readinessOf({
      probe: { migrations: async () => [], close: () => {} },
      migrations: [],
      settingsProblem: () => undefined,
      isDraining: () => false,
      replicas: () => instance.database.status().replicas,
    });
    const admin = await createAdminServer({ liveness: () => undefined, readiness, metrics: async () => [] });
    const expected = {
      '127.0.0.1:1/none': 'does not respond',
      [named('/postgres')]: 'contains another database',
      [name()]: 'ok',
    };
    const isExpected = async () => {
      const { statusCode, body } = await admin.inject('/readyz');
      assert.equal(statusCode, 200);
      return isDeepStrictEqual(JSON.parse(body).replicas, expected);
    };
    // Each replica is checked again at its own time.
    await until(isExpected, 'the state of each replica');
    const isUsed = async (replica: string, used: number) =>
      (await admin.inject('/metrics')).body.includes(`\ncrm_replica_used{replica="${replica}"} ${used}\n`);
    assert.ok(await isUsed('127.0.0.1:1/none', 0));
    await until(() => isUsed(name(), 1), 'the metric of the used replica');
    await admin.close();
  });

  test('stops using a replica that was promoted', async () => {
    await onStandby('select pg_promote()');
    await until(() => problem() === 'is not a replica', 'the replica to be left out');
    assert.equal(await status(await create()), 200);
  });
});

test('rejects replicas without PostgreSQL', () => {
  assert.throws(() => readConfig({ DATABASE_REPLICA_URLS: 'postgres://a@b/c' }), {
    name: 'UserError',
    message: 'DATABASE_REPLICA_URLS needs DATABASE_URL: the embedded database has no replicas',
  });
  assert.throws(
    () => readConfig({ DATABASE_URL: 'postgres://a@b/c', DATABASE_REPLICA_URLS: 'mysql://a@b/c' }),
    {
      name: 'UserError',
    },
  );
  const { replicaAddresses } = readConfig({
    DATABASE_URL: 'postgres://a@b/c',
    DATABASE_REPLICA_URLS: 'postgres://a@b,d:5433/c , postgresql://a@e/c',
  });
  assert.deepEqual(
    replicaAddresses.map(({ hosts }) => hosts.map((each) => `${each.host}:${each.port}`)),
    [['b:5432', 'd:5433'], ['e:5432']],
  );
});
