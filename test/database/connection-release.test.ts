// Pooled connections after a client has disconnected or a connection attempt has failed: none is lost, and no late
// cancel request reaches another client's statement.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { readConfig } from '../../app/config.ts';
import type { Database } from '../../engine/database/database.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { sharePools } from '../../engine/database/pool-sharing.ts';
import { RequestScope, runInRequest } from '../../engine/database/requests.ts';
import { drivers, postgresServer } from '../support/instance.ts';
import { connected, makeDatabase } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { patient } from '../support/promised.ts';

const suite = drivers.includes('postgresql') ? describe : describe.skip;

/** Maximum time that a pool tries to connect, in milliseconds. */
const connectMs = 60_000;

/** Request code of a cancel request, after its length, and the size of both. */
const [cancelCode, headSize] = [80_877_102, 8];

/** A network in front of PostgreSQL that delivers cancel requests late. */
interface LateNetwork {
  readonly url: string;
  /** Returns the number of cancel requests that have not been delivered. */
  readonly pending: () => number;
  /** Delivers the pending cancel requests. Resolves when the server has processed them. */
  readonly deliver: () => Promise<void>;
  readonly close: () => Promise<void>;
}

async function lateNetwork(target: string): Promise<LateNetwork> {
  const { hostname, port } = new URL(target);
  const cancelRequests: Buffer[] = [];
  const sockets = new Set<Socket>();
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
    return socket;
  };
  const server = createServer((client) => {
    track(client).once('data', (first: Buffer) => {
      if (first.length >= headSize && first.readInt32BE(4) === cancelCode) {
        cancelRequests.push(first);
        return;
      }
      const upstream = track(connect(Number(port), hostname));
      upstream.write(first);
      client.pipe(upstream).pipe(client);
      client.once('close', () => upstream.destroy());
      upstream.once('close', () => client.destroy());
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    pending: () => cancelRequests.length,
    deliver: async () => {
      for (const cancelRequest of cancelRequests.splice(0)) {
        const upstream = track(connect(Number(port), hostname));
        upstream.resume().write(cancelRequest);
        await once(upstream, 'close');
      }
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

suite('a pooled connection', { concurrency: 1 }, () => {
  let made: Awaited<ReturnType<typeof makeDatabase>>;
  let network: LateNetwork;
  let database: Database;
  before(async () => {
    made = await makeDatabase(await postgresServer());
    await connected(made.url, (client) => client.query('create table held ()'));
    network = await lateNetwork(made.url);
    database = await openDatabase(
      readConfig({ ...patient, DATABASE_URL: network.url, DATABASE_POOL: '3' }),
      [],
    );
  });
  after(async () => {
    await database?.close();
    await network?.close();
    await made?.drop();
  });

  /** Sends a list that waits for the lock on the table, for a client that can disconnect. */
  const list = (scope: RequestScope, column = 'count', lane: 'list' | 'export' = 'list') =>
    runInRequest(scope, () =>
      database.run(
        { lane, name: '', text: `select count(*)::text as "${column}" from held`, values: [] },
        { organization: '1', access: 'read' },
      ),
    );
  const client = () => new RequestScope(() => '1');
  const listConnections = () => database.status().connections.find(({ pool }) => pool === 'lists');

  /** Locks the table while the work runs. */
  const holding = (work: (holder: pg.Client) => Promise<void>) =>
    connected(made.url, async (holder) => {
      await holder.query('begin');
      await holder.query('lock table held');
      await work(holder);
      await holder.query('rollback');
    });

  /** Waits until a list waits for the lock. @returns the process ID of its connection */
  async function waitingPid(): Promise<number> {
    let pid: number | undefined;
    await until(
      () =>
        connected(made.url, async (reader) => {
          const { rows } = await reader.query<{ pid: number }>(
            `select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
          );
          pid = rows[0]?.pid;
          return pid !== undefined;
        }),
      'a list to wait',
    );
    return pid ?? assert.fail();
  }

  /** Starts a read that waits for the lock, disconnects its client, and checks that the read is cancelled. */
  const assertCancelled = (reader: RequestScope, read: () => Promise<unknown>) =>
    holding(async () => {
      const cancelled = assert.rejects(read(), { code: '57014' });
      await waitingPid();
      reader.disconnect();
      await until(() => network.pending() === 1, 'the cancel request');
      await network.deliver();
      await cancelled;
    });

  test('does not run the list of a client that disconnected while the list waited for it', async () => {
    const waiting = client();
    let list2: Promise<unknown> = Promise.resolve();
    await holding(async () => {
      // Work that does not belong to a request needs no slot, only the connection.
      const list1 = database.run({
        lane: 'list',
        name: '',
        text: 'select count(*)::text from held',
        values: [],
      });
      await waitingPid();
      list2 = assert.rejects(list(waiting), { status: 400, code: 'invalid_request' });
      await until(() => listConnections()?.waiting === 1, 'the list to wait for the connection');
      waiting.disconnect();
      void list1;
    });
    await list2;
    const { idle } = listConnections() ?? assert.fail();
    assert.equal(idle, 1, 'the connection was kept');
  });

  test('has its read cancelled when the client disconnects, also if a column is named like a statement that writes', async () => {
    const reader = client();
    await assertCancelled(reader, () => list(reader, 'update'));
  });

  test('completes a read in a transaction that can write, although the client disconnects', async () => {
    const select = { name: '', text: 'select count(*)::text from held', values: [] };
    for (const read of [
      () =>
        database.atomically((run) => run({ ...select, lane: 'read' }), {
          organization: '1',
          access: 'write',
          lane: 'batch',
        }),
      () =>
        database.orm.em.fork().transactional(async (em) => {
          const context = em.getTransactionContext();
          const rows = await em.getConnection().execute<{ count: string }[]>(select.text, [], 'all', context);
          return rows.map(({ count }) => [count]);
        }),
    ]) {
      const writer = client();
      let running: Promise<unknown> = Promise.resolve();
      await holding(async () => {
        running = runInRequest(writer, read);
        const pid = await waitingPid();
        writer.disconnect();
        // A cancel request would arrive while the server answers this.
        assert.equal(await waitingPid(), pid);
      });
      assert.deepEqual(await running, [['0']]);
      assert.equal(network.pending(), 0, 'no cancel request');
    }
  });

  test('has its read cancelled after a transaction that was rolled back', async () => {
    const reader = client();
    const failing = database.atomically(() => Promise.reject(new Error('on purpose')), {
      organization: '1',
      access: 'write',
      lane: 'batch',
    });
    await assert.rejects(failing, /on purpose/);
    // The pool reuses the connection of the transaction, which was returned last.
    await assertCancelled(reader, () => list(reader, 'count', 'export'));
  });

  test('is given up if it is lost during a transaction, which fails with its own error', async () => {
    const pool = () => database.status().connections.find((each) => each.pool === 'records');
    const terminate = { name: '', text: 'select pg_terminate_backend(pg_backend_pid())', values: [] };
    const lost = database.atomically((run) => run(terminate), {
      organization: '1',
      access: 'write',
      lane: 'batch',
    });
    await assert.rejects(lost, { code: '57P01' });
    await until(() => pool()?.inUse === 0, 'the connection to be given up');
    const select = { name: '', text: 'select 1::text', values: [] };
    assert.deepEqual(await database.run(select), [['1']]);
  });

  test('is dropped if its cancel request is delivered so late that it would cancel the next statement', async () => {
    const reader = client();
    let usedPid = 0;
    let disconnected: Promise<unknown> = Promise.resolve();
    await holding(async () => {
      disconnected = list(reader).catch(() => {});
      usedPid = await waitingPid();
      reader.disconnect();
      await until(() => network.pending() === 1, 'the cancel request');
    });
    await disconnected;
    let next: Promise<unknown> = Promise.resolve();
    await holding(async () => {
      next = list(client());
      const pid = await waitingPid();
      await network.deliver();
      assert.notEqual(pid, usedPid);
    });
    assert.deepEqual(await next, [['0']]);
  });
});

suite('a connection attempt', () => {
  test('leaves no connection to a server that accepts it and then fails to describe itself', async () => {
    const role = 'cannot_describe';
    const { url, drop } = await makeDatabase(await postgresServer());
    const administrate = (text: string) => connected(url, (client) => client.query(text));
    await administrate(`create role ${role} login password 'secret'`);
    const address = new URL(url);
    address.username = role;
    address.password = 'secret';
    address.searchParams.set('target_session_attrs', 'primary');
    const database = await openDatabase(readConfig({ ...patient, DATABASE_URL: address.href }), []);
    try {
      await administrate('revoke execute on function pg_is_in_recovery() from public');
      const statement = { lane: 'list', name: '', text: 'select 1', values: [] } as const;
      await assert.rejects(database.run(statement), { code: '42501' });
      const connections = `select from pg_stat_activity where usename = '${role}' and query like '%pg_is_in_recovery%'`;
      await until(async () => (await administrate(connections)).rowCount === 0, 'the connection to close');
    } finally {
      await database.close();
      await drop();
      await connected(await postgresServer(), (client) => client.query(`drop role ${role}`));
    }
  });

  test('that the server rejects closes an idle connection of the other pool, which may have too many', async () => {
    const role = 'sharing_role';
    const server = await postgresServer();
    await connected(server, (client) =>
      client.query(`create role ${role} login password 'secret' connection limit 2`),
    );
    const address = new URL(server);
    Object.assign(address, { username: role, password: 'secret' });
    // Idle connections close only if a pool gives them up.
    const makePool = () => new pg.Pool({ connectionString: address.href, max: 2, idleTimeoutMillis: 0 });
    const [records, lists] = [makePool(), makePool()];
    let yielded = 0;
    const others = { yieldFor: () => yielded++ };
    sharePools({ records, lists, otherConnections: [undefined, others], timeoutMs: connectMs });
    try {
      for (const client of await Promise.all([lists.connect(), lists.connect()])) client.release();
      assert.deepEqual([lists.totalCount, yielded], [2, 0]);
      (await records.connect()).release();
      assert.ok(yielded > 0, 'connections without a pool are given up, too');
      assert.deepEqual([records.totalCount, lists.totalCount], [1, 1]);
    } finally {
      await Promise.all([records.end(), lists.end()]);
      await connected(server, (client) => client.query(`drop role ${role}`));
    }
  });
});
