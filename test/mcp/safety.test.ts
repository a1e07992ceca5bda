// Safety of agents: which calls read and wrote what, limits per key and day, and runs.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { everyGrant } from '../../engine/records/access.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { admitCalls } from '../../plugins/api/mcp/calls.ts';
import { agentCallsRetention } from '../../plugins/api/mcp/index.ts';
import { readArguments } from '../../plugins/api/mcp/tool.ts';
import { tools } from '../../plugins/api/mcp/tools.ts';
import { callTool, configured, failTool, useTool } from '../support/agents.ts';
import { hookedModules, hookedSources } from '../support/hooked.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const limits = { read: 40, write: 12 };
const settings = `mcp: { limits: { read: ${limits.read}, write: ${limits.write} } }\n`;
const environment = configured('safety', settings);

onBothDrivers(
  'Safety of agents',
  (instance) => {
    let acme: Organization;
    let other: Organization;
    before(async () => {
      acme = await instance().organization('acme');
      other = await instance().organization('other');
    });
    const tables = () => tablesOf(instance().database);
    const recordIn = ({ record }: Readonly<Record<string, unknown>>) => record as { readonly id: unknown };
    /** Creates a key, whose calls and limits other tests do not affect. */
    const agent = async (organization = acme) => {
      const { id, key } = await organization.makeKey();
      return {
        id,
        use: (name: string, input?: object) => useTool(instance(), key, name, input),
        fail: (name: string, input?: object) => failTool(instance(), key, name, input),
        call: (name: string, input?: object) => callTool(instance(), key, name, input),
        calls: async () => {
          const rows = await tables()
            .selectFrom('crm_agent_calls')
            .selectAll()
            .where('key_id', '=', id)
            .orderBy('id')
            .execute();
          return rows.map((row) => [row.tool, row.resource, row.records_read, row.records_written, row.run]);
        },
      };
    };
    const task = (title: string) => ({ resource: 'tasks', values: { title } });

    test('each call that reads or writes records is stored with their number', async () => {
      const { use, fail, calls } = await agent();
      const id = String(recordIn(await use('create', task('stored'))).id);
      const one = { resource: 'tasks', id };
      await use('find', {
        resource: 'tasks',
        where: { field: 'title', op: 'eq', value: 'stored' },
        limit: 5,
      });
      await use('find', { resource: 'tasks', where: { field: 'title', op: 'eq', value: 'absent' } });
      await use('get', one);
      await use('aggregate', { resource: 'leads' });
      await use('update', { ...one, values: { points: 3 } });
      await use('history', one);
      await use('delete', one);
      await use('restore', one);
      await use('act', { ...one, action: 'close', input: { hours: 1 } });
      assert.deepEqual(await calls(), [
        ['create', 'tasks', 0, 1, null],
        ['find', 'tasks', 1, 0, null],
        ['find', 'tasks', 0, 0, null],
        ['get', 'tasks', 1, 0, null],
        ['aggregate', 'leads', 1, 0, null],
        ['update', 'tasks', 0, 1, null],
        ['history', 'tasks', 2, 0, null],
        ['delete', 'tasks', 0, 1, null],
        ['restore', 'tasks', 0, 1, null],
        ['act', 'tasks', 0, 1, null],
      ]);
      const before = await calls();
      await use('describe');
      await use('describe', { resource: 'tasks' });
      await fail('get', { resource: 'tasks', id: 999_999 });
      await fail('create', { resource: 'tasks', values: { titel: 'x' } });
      assert.deepEqual(await calls(), before, 'descriptions and rejected calls are not stored');
    });

    test('a write that fails for an unknown reason is stored, because it could have been committed', async () => {
      const { fail, calls } = await agent();
      assert.equal((await fail('create', task('broken'))).code, 'module_failed');
      assert.deepEqual(await calls(), [['create', 'tasks', 0, 0, null]]);
    });

    test('a stored call has the request ID of its changes', async () => {
      const { id, use } = await agent();
      const created = recordIn(await use('create', task('joined')));
      const { rows } = await sql<{ object_id: string }>`
        select l.object_id::text as object_id from crm_agent_calls c
        join crm_ledger l on l.organization_id = c.organization_id and l.request_id = c.request_id
        where c.key_id = ${id}::bigint`.execute(tables());
      assert.deepEqual(rows, [{ object_id: String(created.id) }]);
    });

    test('dry runs and repeated writes count as reads', async () => {
      const { use, calls } = await agent();
      await use('create', { ...task('dry'), dry_run: true });
      const input = { ...task('repeated'), idempotency_key: 'safety' };
      await use('create', input);
      await use('create', input);
      assert.deepEqual(
        (await calls()).map(([, , ...counts]) => counts),
        [
          [1, 0, null],
          [0, 1, null],
          [1, 0, null],
        ],
      );
    });

    test('describe issues a run, and writes store it', async () => {
      const { use, calls } = await agent();
      const [{ run }, { run: second }] = [await use('describe'), await use('describe')];
      assert.notEqual(run, second);
      const id = String(recordIn(await use('create', { ...task('run'), run })).id);
      await use('update', { resource: 'tasks', id, values: { points: 1 }, run: second });
      const runIdOf = (text: unknown) => String(text).split('.')[0];
      assert.deepEqual(
        (await calls()).map(([, , , , stored]) => stored),
        [runIdOf(run), runIdOf(second)],
      );
    });

    test('a run that was not issued to the key is rejected with a hint', async () => {
      const { use, fail, calls } = await agent();
      const { run } = (await use('describe')) as { readonly run: string };
      const [id, signature] = run.split('.');
      const foreign = await (await agent(other)).use('describe');
      const sibling = await (await agent()).use('describe');
      for (const wrong of [
        'x',
        '',
        `invented.${signature}`,
        `${id}.${signature}.`,
        `${id}.`,
        foreign.run,
        sibling.run,
      ]) {
        const error = await fail('create', { ...task('forged'), run: wrong });
        assert.deepEqual(
          [error.code, error.hint],
          ['invalid_input', 'Call describe without "resource", and pass the "run" in its result.'],
        );
      }
      await fail('delete', { resource: 'tasks', id: 1, run: 'x', dry_run: true });
      assert.deepEqual(await calls(), []);
      const forged = { field: 'title', op: 'eq', value: 'forged' };
      assert.deepEqual((await use('find', { resource: 'tasks', where: forged })).records, []);
    });

    test('a key that has reached the limit of writes can read, and write as much the next day', async () => {
      const { id, use, fail } = await agent();
      for (let count = 0; count < limits.write; count++) await use('create', task(`limited ${count}`));
      const error = await fail('create', task('beyond'));
      assert.equal(error.code, 'rate_limited');
      assert.match(
        String(error.error),
        /^This key has written 12 records with tools today \(UTC\), which is its limit\. Stop, and continue after [\d-]{10}T00:00:00\.000Z\. The instance's operator can raise mcp\.limits\.write in config\.yaml\.$/,
      );
      const beyond = { resource: 'tasks', where: { field: 'title', op: 'eq', value: 'beyond' } };
      assert.deepEqual((await use('find', beyond)).records, []);
      await use('create', { ...task('dry'), dry_run: true });
      await (await agent()).use('create', task('of another key'));
      await sql`update crm_agent_calls set at = at - interval '1 day' where key_id = ${id}::bigint`.execute(
        tables(),
      );
      for (let count = 0; count < limits.write; count++) await use('create', task('the next day'));
    });

    test('a key that has reached the limit of reads can write and call describe', async () => {
      const { use, fail } = await agent();
      for (let count = 0; count < 10; count++) await use('create', task('read'));
      const where = { field: 'title', op: 'eq', value: 'read' };
      for (let read = 0; read < limits.read; read += 10) await use('find', { resource: 'tasks', where });
      for (const [name, input] of [
        ['find', {}],
        ['get', { id: 1 }],
        ['history', { id: 1 }],
        ['delete', { id: 1, dry_run: true }],
      ] as const) {
        const { code, error } = await fail(name, { resource: 'tasks', ...input });
        assert.equal(code, 'rate_limited');
        assert.match(String(error), /has read 40 records.*mcp\.limits\.read/);
      }
      await use('describe');
      await use('create', task('read'));
    });

    test('concurrent calls do not exceed the limit of writes', async () => {
      const { use, call } = await agent();
      for (let count = 0; count < limits.write - 3; count++) await use('create', task('before'));
      const answers = await Promise.all(Array.from({ length: 8 }, () => call('create', task('concurrent'))));
      const where = { field: 'title', op: 'eq', value: 'concurrent' };
      const { records } = await use('find', { resource: 'tasks', where });
      const written = answers.filter(({ isError }) => !isError).length;
      assert.equal((records as readonly unknown[]).length, written);
      assert.ok(written >= 1 && written <= 3, String(written));
    });

    test('a call in progress counts only for its own key and its kind of access, until it ends', async () => {
      const { app, database } = instance();
      const mcp = { limits: { read: 1, write: 1 } };
      const admit = admitCalls(app, { database, settings: { current: { mcp } } });
      const [own, another] = [await acme.makeKey(), await acme.makeKey()];
      const call = ({ id }: { readonly id: string }, name: 'get' | 'delete') => {
        const tool = tools.find((each) => each.name === name) ?? assert.fail();
        const principal = {
          ...{ kind: 'key' as const, actor: id, name: null, organization: acme.id },
          ...{ user: null, grants: everyGrant },
        };
        const args = readArguments(tool, { resource: 'tasks', id: 1 });
        return admit({ principal, requestId: 'in-progress' }, tool, args, undefined);
      };
      const running = await call(own, 'delete');
      await assert.rejects(call(own, 'delete'), { code: 'rate_limited' });
      for (const [key, name] of [
        [another, 'delete'],
        [own, 'get'],
      ] as const)
        (await call(key, name)).release();
      running.release();
      (await call(own, 'delete')).release();
    });

    test('a write succeeds even if its call cannot be stored', async () => {
      const { use, calls } = await agent();
      await sql`create function reject_call() returns trigger language plpgsql as $$ begin raise 'rejected'; end $$`.execute(
        tables(),
      );
      await sql`create trigger reject_calls before insert on crm_agent_calls for each row execute function reject_call()`.execute(
        tables(),
      );
      try {
        const { id } = recordIn(await use('create', task('not stored')));
        await sql`drop trigger reject_calls on crm_agent_calls`.execute(tables());
        assert.equal(recordIn(await use('get', { resource: 'tasks', id: String(id) })).id, id);
      } finally {
        await sql`drop function reject_call cascade`.execute(tables());
      }
      assert.deepEqual(
        (await calls()).map(([tool]) => tool),
        ['get'],
      );
    });

    test('a call that cannot be stored at first is stored later', async () => {
      const { use, calls } = await agent();
      await sql`create sequence attempts`.execute(tables());
      await sql`create function reject_calls() returns trigger language plpgsql as $$ begin
        if nextval('attempts') < 4 then raise 'rejected'; end if; return new; end $$`.execute(tables());
      await sql`create trigger reject_calls before insert on crm_agent_calls for each row execute function reject_calls()`.execute(
        tables(),
      );
      try {
        await use('create', task('stored at last'));
      } finally {
        await sql`drop function reject_calls cascade`.execute(tables());
        await sql`drop sequence attempts`.execute(tables());
      }
      assert.deepEqual(await calls(), [['create', 'tasks', 0, 1, null]]);
    });

    test('a limit of 0 does not limit a key', async () => {
      const { use, call } = await agent();
      for (let count = 0; count < limits.write; count++) await use('create', task('unlimited'));
      writeFileSync(environment.CRM_CONFIG, 'mcp: { limits: { write: 0 } }\n');
      try {
        await until(async () => !(await call('create', task('beyond'))).isError, 'apply the setting');
      } finally {
        // The instance on the other driver starts with the same file.
        writeFileSync(environment.CRM_CONFIG, settings);
      }
    });

    test('calls are deleted after 30 days, and with their key', async () => {
      const { id, use, calls } = await agent();
      await use('create', task('old'));
      await use('create', task('new'));
      const { rows } = await sql<{ id: string }>`update crm_agent_calls set at = now() - interval '31 days'
        where id = (select min(id) from crm_agent_calls where key_id = ${id}::bigint) returning id`.execute(
        tables(),
      );
      assert.equal(rows.length, 1);
      assert.equal(await agentCallsRetention(tables()), 1);
      assert.equal((await calls()).length, 1);
      await tables().deleteFrom('crm_api_keys').where('id', '=', id).execute();
      assert.deepEqual(await calls(), []);
    });
  },
  {
    sources: await sourcesWith(...hookedSources),
    modules: hookedModules([]),
    environment,
  },
);
