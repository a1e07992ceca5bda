// The service's database role: fewer connections than the pools are configured for, and a password from a
// file that is rotated.
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { readConfig } from '../../app/config.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { type Answer, send, temporaryFolder } from '../support/instance.ts';
import { samplesOf } from '../support/metrics.ts';
import { connected, makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { type Service, serve, until } from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { assertErrorShape } from '../support/scenario.ts';

describe('a role with 6 connections and a password from a file', { concurrency: 1 }, () => {
  const temporary = temporaryFolder();
  const passwordFile = join(temporary.path, 'password');
  let server: Server;
  let url: string;
  let service: Service;
  let key: string;
  before(async () => {
    server = await startPostgres();
    const made = await makeDatabase(server.url);
    const limited = new URL(made.url);
    await connected(server.url, async (client) => {
      await client.query(`create role limited login password 'first' connection limit 6`);
      await client.query(`alter database "${limited.pathname.slice(1)}" owner to limited`);
    });
    limited.username = 'limited';
    limited.password = '';
    await connected(made.url, (client) => client.query('grant all on schema public to limited'));
    url = limited.href;
    writeFileSync(passwordFile, 'first\n');
    service = await serve({
      ...patient,
      DATABASE_URL: url,
      DATABASE_PASSWORD_FILE: passwordFile,
      MIGRATE_ON_START: 'true',
      DATABASE_POOL: '20',
      ADMIN_PORT: '0',
      LOG_LEVEL: 'error',
      LOG_FORMAT: 'json',
    });
    key = String(service.printed.key);
  });
  after(async () => {
    await service?.kill();
    await server?.stop();
    temporary.remove();
  });

  /** Returns the current limits of the pools. */
  const poolLimits = async () => {
    const { text } = await send(String(service.printed.admin), 'GET /metrics');
    const limits = samplesOf(text, 'crm_database_connections_limit');
    const limit = (name: string) => limits.find(({ labels }) => labels.pool === name)?.value ?? assert.fail();
    return { records: limit('records'), lists: limit('lists') };
  };

  test('concurrent lists and writes: none fails', async () => {
    const failures: string[] = [];
    const each = async (name: string, body?: object) => {
      let { status, text } = await service.call(name, { key, ...(body && { body }) });
      // On a slow machine, some requests wait too long for a slot. Retry after a 503, as clients do.
      for (let retry = 0; status === 503 && retry < 600; retry++) {
        await pause(100);
        ({ status, text } = await service.call(name, { key, ...(body && { body }) }));
      }
      if (status >= 300) failures.push(`${name}: ${status} ${text}`);
    };
    const sendRound = () =>
      Promise.all([
        ...Array.from({ length: 20 }, () => each('POST /api/v1/leads', { last_name: 'x' })),
        ...Array.from({ length: 20 }, () => each('GET /api/v1/leads?page=6')),
        ...Array.from({ length: 10 }, () => each('GET /api/v1/leads')),
      ]);
    for (let round = 0; round < 10; round++) await sendRound();
    assert.deepEqual(failures, []);
    await until(async () => {
      await sendRound();
      const { records, lists } = await poolLimits();
      return records < 12 && lists < 8;
    }, 'reduce both pools');
    // The last test checks that the pools grow again, which takes a while.
    await connected(server.url, (client) => client.query('alter role limited connection limit 100'));
  });

  const changeRole = (password: string) =>
    connected(server.url, (client) => client.query(`alter role limited password '${password}'`));
  /** Terminates all of the service's connections. */
  const disconnect = () =>
    connected(server.url, (client) =>
      client.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'limited'`),
    );
  /** Sends one request for each kind of connection. */
  const requests = (): Promise<Answer[]> =>
    Promise.all([
      service.call('GET /api/v1/leads', { key }),
      service.call('GET /api/v1/leads?page=6', { key }),
      service.call('POST /api/v1/leads', { key, body: { last_name: 'x' } }),
      service.call('POST /api/v1/leads/batch', { key, body: { records: [{ last_name: 'x' }] } }),
      service.call('GET /auth/me', { key }),
    ]);
  const areServed = async () => (await requests()).every(({ status }) => status < 300);
  /** Returns the reasons logged since a position in the log. */
  const reasons = (start: number) =>
    service
      .stderr()
      .slice(start)
      .split('\n')
      .slice(0, -1)
      .map((line) => (JSON.parse(line) as { reason?: string }).reason);

  test('a rotated password is read for new connections', async () => {
    assert.ok(await areServed());
    // Only the line break at the end of the file does not belong to the password.
    await changeRole(' second ');
    const wrong = { ...patient, DATABASE_URL: url, DATABASE_PASSWORD_FILE: passwordFile };
    await assert.rejects(openDatabase(readConfig(wrong), []), {
      name: 'UserError',
      message: `the database at ${new URL(url).host}${new URL(url).pathname} rejects the login: correct DATABASE_URL or the password in ${passwordFile} (password authentication failed for user "limited")`,
    });
    writeFileSync(passwordFile, ' second \r\n');
    assert.ok(await areServed(), 'connections stay open');
    const start = service.stderr().length;
    await disconnect();
    await until(areServed, 'connect with the new password');
    assert.ok(!reasons(start).includes('28P01'), 'the old password was not tried');
  });

  for (const [what, fail, repair, reason] of [
    [
      'only the role is changed',
      () => changeRole('third'),
      () => writeFileSync(passwordFile, 'third'),
      '28P01',
    ],
    [
      'the file is missing',
      async () => rmSync(passwordFile),
      () => writeFileSync(passwordFile, 'third\n'),
      'password_file_unreadable',
    ],
  ] as const) {
    test(`${what}: requests fail with 500, and the log says why; service resumes without a restart`, async () => {
      const start = service.stderr().length;
      await fail();
      await disconnect();
      await until(async () => (await requests()).every(({ status }) => status === 500), 'fail');
      for (const answer of await requests()) {
        assertErrorShape(answer);
        assert.equal(answer.json.error, 'The database did not respond as expected');
        assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
      }
      // The log can arrive after the responses.
      await until(() => reasons(start).includes(reason), reason);
      repair();
      await until(areServed, 'connect again');
    });
  }

  test('the pools return to their configured sizes after the server accepts enough connections', async () => {
    await until(
      async () => isDeepStrictEqual(await poolLimits(), { records: 12, lists: 8 }),
      'grow both pools',
    );
  });
});
