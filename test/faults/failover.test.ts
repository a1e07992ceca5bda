// Several hosts: a primary and its hot standby. Writes go to the host that accepts them, and no write is lost
// because it was sent to the other host.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Pool } from 'pg';
import { readConfig } from '../../app/config.ts';
import { modelOf } from '../../app/instance.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { migrate } from '../../engine/schema/apply.ts';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { connected, makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { isMeasured, patient, promised } from '../support/promised.ts';
import { partsOf } from '../support/scheduled.ts';

describe('a primary and its standby', { concurrency: 1 }, () => {
  let primary: Server;
  let standby: Server;
  let database: string;
  let instance: Instance;
  let acme: Organization;
  const acknowledged: string[] = [];

  before(async () => {
    primary = await startPostgres();
    database = (await makeDatabase(primary.url)).url;
    await migrate(readConfig({ DATABASE_URL: database }), modelOf([]));
    standby = await primary.standby();
    // List the standby first, because connecting to any host that responds must not be sufficient.
    instance = await startInstance('postgresql', {
      environment: { DATABASE_URL: both('read-write'), ...limits },
    });
    acme = await instance.organization('acme');
  });
  after(async () => {
    await instance?.close();
    await standby?.stop();
    await primary?.stop();
  });

  // No request waits for these limits, because a stopped server refuses connections. A busy one is late.
  const limits = isMeasured ? { DATABASE_CONNECT_TIMEOUT_MS: '1500' } : patient;
  const on = (server: Server) => {
    const url = new URL(server.url);
    url.pathname = new URL(database).pathname;
    return url;
  };
  const both = (target: string) => {
    const { host } = on(primary);
    return `${on(standby).href.replace(/(@[^/]+)/, `$1,${host}`)}?target_session_attrs=${target}`;
  };
  const write = async () => {
    const body = { last_name: `lead ${acknowledged.length}` };
    const { status, json } = await instance.call('POST /api/v1/leads', { key: acme.key, body });
    if (status === 201) acknowledged.push(String(json.id));
    return status;
  };
  const stored = (server: Server) =>
    connected(on(server).href, async (client) => {
      const { rows } = await client.query<{ id: string }>('select id::text from leads order by leads.id');
      return rows.map(({ id }) => id);
    });
  const set = (server: Server, readOnly: 'on' | 'off') =>
    connected(server.url, async (client) => {
      await client.query('begin; set transaction read write; commit');
      await client.query(`alter system set default_transaction_read_only = ${readOnly}`);
      await client.query('select pg_reload_conf()');
    });

  for (const target of ['read-write', 'primary']) {
    test(`${target}: skips the standby listed first`, async () => {
      const opened = await openDatabase(readConfig({ ...limits, DATABASE_URL: both(target) }), []);
      try {
        assert.deepEqual(
          await opened.run({ name: '', text: 'select pg_is_in_recovery()::text', values: [] }),
          [['false']],
        );
      } finally {
        await opened.close();
      }
    });

    test(`${target}: rejects a configuration with only a standby and states the reason`, async () => {
      const url = `${on(standby).href}?target_session_attrs=${target}`;
      const reason = { 'read-write': 'it is read-only', primary: 'it is a standby' }[target];
      await assert.rejects(openDatabase(readConfig({ ...limits, DATABASE_URL: url }), []), {
        name: 'UserError',
        message: `the database at ${on(standby).host}${on(standby).pathname} does not respond: Connection terminated: ${reason}`,
      });
    });
  }

  test('any: uses the standby, which acknowledges no write', async () => {
    const opened = await openDatabase(readConfig({ ...limits, DATABASE_URL: both('any') }), []);
    try {
      const run = (text: string) => opened.run({ name: '', text, values: [] });
      assert.deepEqual(await run('select pg_is_in_recovery()::text'), [['true']]);
      await assert.rejects(run('delete from leads'), { code: '25006' });
    } finally {
      await opened.close();
    }
  });

  test('finds the new primary after a failover, with every acknowledged write', async () => {
    for (let count = 0; count < 20; count++) assert.equal(await write(), 201);
    await until(async () => (await stored(standby)).length === acknowledged.length, 'replication');
    await primary.pause();
    assert.equal(await write(), 500, 'no server accepts writes');
    await connected(standby.url, (client) => client.query('select pg_promote()'));
    await until(async () => (await write()) === 201, 'writes on the new primary', promised(5_000));
    for (let count = 0; count < 20; count++) assert.equal(await write(), 201);
    assert.deepEqual(await stored(standby), acknowledged);
  });

  test('acknowledges no write while a connected server is read-only, and recovers when it is writable', async () => {
    const pool = (await instance.database.orm.em.getConnection().getNativeClient()) as Pool;
    let removed = 0;
    pool.on('remove', () => removed++);
    const { primary: server, writeBatcher } = partsOf(instance.database);
    const pid = { name: 'pid', text: 'select pg_backend_pid()::text', values: [] };
    const many = { ...pid, name: 'pid_many', differ: 0, lists: false };
    const pids: string[] = [];
    for (const [shared, lane] of [
      [server.pipelines, 'read'],
      [writeBatcher, 'write'],
    ] as const)
      await until(async () => {
        const rows = await shared?.run({ ...pid, lane, many }, '1');
        if (rows !== undefined) pids.push(String(rows[0]?.[0]));
        return rows !== undefined;
      }, `a connection for short statements (${lane})`);
    await set(standby, 'on');
    const refused = () =>
      acme.makeKey().then(
        () => false,
        ({ code }: { code?: string }) => code === '25006',
      );
    await until(refused, 'a transaction to be refused');
    await until(() => removed > 0, 'its connection to be given up');
    const open = `select from pg_stat_activity where pid in (${pids.join()})`;
    await until(
      () => connected(standby.url, async (client) => (await client.query(open)).rowCount === 0),
      'the shared connections to be given up, too',
    );
    for (const target of ['read-write', 'primary']) {
      const url = `${on(standby).href}?target_session_attrs=${target}`;
      const opening = openDatabase(readConfig({ ...limits, DATABASE_URL: url }), []);
      if (target === 'primary') await (await opening).close();
      else await assert.rejects(opening, /it is read-only$/);
    }
    await until(async () => (await write()) === 500, 'writes to be refused');
    const before = acknowledged.length;
    for (let count = 0; count < 10; count++) assert.equal(await write(), 500);
    assert.equal((await stored(standby)).length, before);
    await set(standby, 'off');
    await until(async () => (await write()) === 201, 'writes again', promised(5_000));
    assert.deepEqual(await stored(standby), acknowledged);
  });
});
