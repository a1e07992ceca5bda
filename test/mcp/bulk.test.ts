// Writes of several records by agents: all or none, and with a confirmation if there are many.
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { before, test } from 'node:test';
import { tablesOf } from '../../engine/tables/index.ts';
import { signedConfirmations } from '../../plugins/api/mcp/confirmations.ts';
import { readArguments } from '../../plugins/api/mcp/tool.ts';
import { tools } from '../../plugins/api/mcp/tools.ts';
import { configured, failTool, useTool } from '../support/agents.ts';
import { administratorOf, problemOf, signIn } from '../support/forms.ts';
import { hookedModules, hookedSources } from '../support/hooked.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';
import { whileUncommitted } from '../support/uncommitted.ts';

onBothDrivers(
  'Agents write several records',
  (instance, driver) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const api = (request: string, body?: object) => {
      const [method, path] = request.split(' ');
      return instance().call(`${method} /api/v1/${path}`, { key: acme.key, ...(body && { body }) });
    };
    /** Creates tasks. @returns their IDs */
    const make = async (count: number, title: string): Promise<number[]> => {
      const records = Array.from({ length: count }, () => ({ title }));
      const { json, text } = await api('POST tasks/batch', { records });
      assert.ok(Array.isArray(json.results), text);
      return (json.results as { id: number }[]).map(({ id }) => id);
    };
    const points = async (ids: readonly number[]) => {
      const records = await Promise.all(ids.map((id) => api(`GET tasks/${id}`)));
      return records.map(({ status, json }) => (status === 200 ? json.points : status));
    };
    const agent = async (access: 'write' | 'propose' = 'write') => {
      const { id, key } = await acme.makeKey({ access });
      return {
        id,
        use: (tool: string, input: object) => useTool(instance(), key, tool, { resource: 'tasks', ...input }),
        fail: (tool: string, input: object) =>
          failTool(instance(), key, tool, { resource: 'tasks', ...input }),
        counts: async () => {
          const rows = await tablesOf(instance().database)
            .selectFrom('crm_agent_calls')
            .select(['records_read', 'records_written'])
            .where('key_id', '=', id)
            .orderBy('id')
            .execute();
          return rows.map((row) => [row.records_read, row.records_written]);
        },
      };
    };
    const all = (ids: readonly number[], value: unknown) => ids.map(() => value);

    test('up to ten records are written without a confirmation, all or none', async () => {
      const { use, fail, counts } = await agent();
      const ids = await make(10, 'few');
      const { written } = await use('update', { ids, values: { points: 1 } });
      assert.deepEqual((written as readonly unknown[]).map(Number), ids);
      const { fields } = await fail('update', { ids: [...ids.slice(0, 3), 999_999], values: { points: 2 } });
      assert.deepEqual(fields, [{ field: '999999', message: '999999: Task not found in your organization' }]);
      assert.deepEqual(await points(ids), all(ids, 1));
      await use('delete', { ids: ids.slice(5) });
      assert.deepEqual(await points(ids), [...all(ids.slice(5), 1), ...all(ids.slice(5), 404)]);
      assert.deepEqual(await counts(), [
        [0, 10],
        [0, 5],
      ]);
    });

    test('more than ten records require the confirmation of a dry run', async () => {
      const { use, fail, counts } = await agent();
      const ids = await make(11, 'many');
      const call = { ids, values: { points: 3 } };
      assert.match(String((await fail('update', call)).hint), /dry_run, show the changes to your user/);
      const dry = await use('update', { ...call, dry_run: true });
      const [first] = dry.records as { id: unknown; changes: object }[];
      assert.equal(Number(first?.id), ids[0]);
      assert.deepEqual(Object.keys(first?.changes ?? {}).toSorted(), ['points', 'score']);
      assert.deepEqual(await points(ids), all(ids, null));
      const { confirm } = dry;
      await use('update', { ...call, confirm });
      assert.deepEqual(await points(ids), all(ids, 3));
      assert.match(String((await fail('update', { ...call, confirm })).error), /a record has changed since/);
      const removal = await use('delete', { ids, dry_run: true });
      assert.deepEqual(
        (removal.records as { name: string }[]).map(({ name }) => name),
        all(ids, 'many'),
      );
      await use('delete', { ids, confirm: removal.confirm });
      assert.deepEqual(await points(ids), all(ids, 404));
      assert.deepEqual(await counts(), [
        [11, 0],
        [0, 11],
        [11, 0],
        [0, 11],
      ]);
    });

    test('a confirmation is valid only for the same call of the same key and unchanged records', async () => {
      const { use, fail } = await agent();
      const other = await agent();
      const ids = await make(12, 'bound');
      const call = { ids, values: { points: 4 } };
      const { confirm } = await use('update', { ...call, dry_run: true });
      for (const [key, tool, input] of [
        [other, 'update', call],
        [{ fail }, 'update', { ...call, values: { points: 5 } }],
        [{ fail }, 'update', { ...call, ids: ids.slice(1) }],
        [{ fail }, 'delete', { ids }],
      ] as const) {
        const error = await key.fail(tool, { ...input, confirm });
        assert.match(String(error.error), /confirm was issued for another call/);
      }
      assert.equal((await fail('update', { ...call, confirm: 'x.y' })).code, 'invalid_input');
      await api(`PATCH tasks/${ids[5]}`, { hours: 1 });
      assert.match(String((await fail('update', { ...call, confirm })).error), /a record has changed since/);
      assert.deepEqual(await points(ids), all(ids, null));
    });

    // The embedded database runs one transaction at a time.
    if (driver === 'postgresql')
      test('a record that another transaction is changing is not written with an earlier confirmation', async () => {
        const { use, fail } = await agent();
        const ids = await make(11, 'changing');
        const [update, removal] = [{ ids, values: { points: 6 } }, { ids }];
        for (const [tool, call] of [
          ['update', update],
          ['delete', removal],
        ] as const) {
          const { confirm } = await use(tool, { ...call, dry_run: true });
          const change = [`update tasks set hours = coalesce(hours, 0) + 1 where id = ${ids[7]}`];
          const failed = await whileUncommitted(instance(), change, () => fail(tool, { ...call, confirm }));
          assert.match(String(failed.error), /a record has changed since/, tool);
        }
        assert.deepEqual(await points(ids), all(ids, null));
      });

    test('a confirmation expires', () => {
      const sign = (text: string) => hash('sha256', text);
      const { issue, verify } = signedConfirmations({
        sign,
        verify: (text, signature) => sign(text) === signature,
      });
      const call = {
        ...{ organization: '1', actor: '2', tool: 'update', resource: 'tasks' },
        ...{ ids: ['1'], body: {}, tags: ['a'] },
      };
      assert.doesNotThrow(() => verify(call, issue(call)));
      const [earliest, issued] = [Date.now() + 600_000, Number(issue(call).split('.')[0])];
      assert.ok(issued >= earliest && issued <= Date.now() + 600_000, 'after ten minutes');
      const end = String(Date.now() - 1);
      const { organization, actor, tool, resource, ids, tags } = call;
      const text = JSON.stringify([organization, actor, tool, resource, ids, '{}', tags, end]);
      assert.throws(() => verify(call, `${end}.${sign(text)}`), /confirm has expired/);
      assert.throws(() => verify(call, undefined), /confirm is required/);
    });

    test('invalid lists of records are rejected', async () => {
      const { fail } = await agent();
      const values = { points: 1 };
      const many = Array.from({ length: 101 }, (_, index) => index + 1);
      for (const input of [
        { ids: [] },
        { ids: many },
        { ids: [1, 1] },
        { ids: ['x'] },
        { ids: [1.5] },
        { ids: 1 },
        { ids: [1], id: 1 },
        {},
      ])
        assert.equal(
          (await fail('update', { ...input, values })).code,
          'invalid_input',
          JSON.stringify(input),
        );
      const update = tools.find(({ name }) => name === 'update') ?? assert.fail();
      const most = readArguments(update, { resource: 'tasks', values, ids: many.slice(1) });
      assert.deepEqual(most.ids(), many.slice(1).map(String));
    });

    test('an administrator undoes all changes of the call', async () => {
      const { id, use } = await agent();
      const ids = await make(3, 'undone');
      await use('update', { ids, values: { points: 9 } });
      const admin = await signIn(instance(), administratorOf(acme));
      const path = '/setup/o/acme/agents';
      const { text } = await admin.get(`${path}?key=${id}`);
      const call = /\/agents\/undo\?id(?:=|&#x3D;)(\d+)/.exec(text)?.[1] ?? '';
      const answer = await admin.submit(`${path}/undo?id=${call}`, `${path}/undo`, { id: call });
      assert.equal(answer.status, 303, problemOf(answer));
      assert.deepEqual(await points(ids), all(ids, null));
    });

    test('without settings, a key reads up to 50,000 records and writes up to 2,000 a day', async () => {
      const [id] = await make(1, 'limited');
      for (const [column, limit, tool, input] of [
        ['records_read', 50_000, 'get', { id }],
        ['records_written', 2000, 'update', { id, values: { points: 1 } }],
      ] as const) {
        const { id: key, use, fail } = await agent();
        const call = {
          tool,
          resource: 'tasks',
          run: null,
          request_id: 'earlier',
          records_read: 0,
          records_written: 0,
        };
        await tablesOf(instance().database)
          .insertInto('crm_agent_calls')
          .values({ organization_id: acme.id, key_id: key, ...call, [column]: limit - 1 })
          .execute();
        await use(tool, input);
        assert.equal((await fail(tool, input)).code, 'rate_limited', tool);
      }
    });

    test('a key that proposes gets a proposal for each record, or none', async () => {
      const { use, fail } = await agent('propose');
      const ids = await make(12, 'proposed');
      await fail('update', { ids: [...ids, 999_999], values: { points: 1 } });
      assert.deepEqual((await use('describe', { proposals: true })).proposals, []);
      const { proposals } = await use('update', { ids, values: { points: 1 } });
      assert.equal((proposals as readonly unknown[]).length, 12);
      assert.deepEqual(await points(ids), all(ids, null));
    });
  },
  {
    sources: await sourcesWith(...hookedSources),
    modules: hookedModules([]),
    environment: configured('bulk', 'mcp: true\n'),
  },
);
