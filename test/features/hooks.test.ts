// Hooks: modules' code that runs with every write, in the transaction of the write.
import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import { recordAccess } from '../../app/module-records.ts';
import {
  changingRecords,
  commandCaller,
  type HookRecords,
  type ModuleCode,
  Rejection,
} from '../../engine/records/index.ts';
import { administratorOf, signIn } from '../support/forms.ts';
import { type HookCall, hookedModules, hookedSources } from '../support/hooked.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { settingsFile } from '../support/partners.ts';
import { logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { errorOf } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';
import { whileUncommitted } from '../support/uncommitted.ts';

const file = settingsFile({});
const calls: HookCall[] = [];
const sources = await sourcesWith(
  ...hookedSources,
  {
    file: 'cabinets.yaml',
    text: `
singular: cabinet
common: all
fields:
  name: { type: string }
children: { drawers: { of: drawers, by: cabinet_id, writable: true } }
`,
  },
  {
    file: 'drawers.yaml',
    text: `
singular: drawer
common: all
custom_fields: true
fields:
  name: { type: string }
  cabinet_id: { type: reference, to: cabinets, nullable: true }
filters: [name]
`,
  },
  {
    file: 'labels.yaml',
    text: `
singular: label
common: all
custom_fields: true
fields:
  name: { type: string }
filters: [name]
`,
  },
);
/** Access to records that a hook has kept beyond its call. */
let kept: HookRecords | undefined;
const modules = [
  ...hookedModules(calls),
  {
    name: 'odd',
    hooks: {
      contacts: {
        beforeWrite: async ({ input, records }) => {
          if (input?.last_name === 'kept') kept = records;
          if (input?.last_name === 'nested') await records.create('contacts', { last_name: 'nested' });
          if (input?.last_name === 'list') return [] as never;
          return input?.last_name === 'text' ? ('text' as never) : undefined;
        },
      },
      cases: {
        beforeWrites: ({ writes }) =>
          writes[0]?.input?.subject === 'too few' ? writes.slice(1).map(() => undefined) : undefined,
      },
    },
    actions: {
      contacts: {
        fill: {
          description: 'Creates three contacts.',
          ofCollection: true,
          run: async ({ records }) => {
            for (const last_name of ['a', 'b', 'c']) await records.create('contacts', { last_name });
            return undefined;
          },
        },
      },
    },
  } satisfies ModuleCode,
  {
    name: 'cases',
    hooks: {
      cases: {
        beforeWrite: async ({ input, records }) => {
          if (input?.subject === 'with a contact') await records.create('contacts', { last_name: 'a' });
          return input?.subject === 'due'
            ? { ...input, sla_due_date: '2026-03-01T09:30:00.5+02:00' }
            : undefined;
        },
      },
    },
  } satisfies ModuleCode,
  {
    name: 'earlier',
    hooks: {
      opportunities: {
        beforeWrites: ({ writes }) =>
          writes.map(({ input }) =>
            input?.name === 'rejected together'
              ? new Rejection('not this one', { field: 'name' })
              : input && { ...input, stage: `${input.stage}, together` },
          ),
        beforeWrite: ({ action, input }) => {
          calls.push({ hook: 'earlier', action, values: { name: input?.name } });
          if (input?.name === 'rejected') throw new Rejection('not this one', { field: 'name' });
          return input && { ...input, stage: `${input.stage}, one by one` };
        },
        afterWrite: ({ action }) => void calls.push({ hook: 'after earlier', action, values: {} }),
      },
    },
  } satisfies ModuleCode,
  {
    name: 'labels',
    hooks: {
      drawers: {
        beforeWrite: async ({ action, input, records }) => {
          const { id } = await records.create('labels', { name: 'before', custom: { place: 'new' } });
          await records.update('labels', id as bigint, { custom: { place: action } });
          const where = { field: 'custom.place', op: 'eq', value: action } as const;
          if ((await records.find('labels', { where })).length === 0) throw new Error('it is not found');
          if (input?.name === 'the only one')
            for (const { id } of await records.find('drawers', { where: { name: 'other' } }))
              await records.delete('drawers', id as bigint);
          return undefined;
        },
        afterWrite: async ({ action, records }) => {
          await records.create('labels', { name: 'after', custom: { place: action } });
        },
      },
    },
    actions: {
      cabinets: {
        furnish: {
          description: 'Adds a drawer and a label.',
          ofCollection: true,
          run: async ({ records }) => {
            await records.create('labels', { name: 'action', custom: { place: 'furnish' } });
            await records.create('drawers', { name: 'furnished' });
            return undefined;
          },
        },
      },
    },
  } satisfies ModuleCode,
  {
    name: 'later',
    hooks: {
      opportunities: {
        beforeWrites: ({ writes }) =>
          writes.map(({ action, input }) => {
            calls.push({ hook: 'later', action, values: { name: input?.name } });
            return input && { ...input, stage: `${input.stage}, later` };
          }),
        afterWrite: ({ action }) => void calls.push({ hook: 'after later', action, values: {} }),
      },
    },
  } satisfies ModuleCode,
];

onBothDrivers(
  'Hooks',
  (instance, driver) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    beforeEach(() => {
      calls.length = 0;
    });
    const send = (request: string, body?: unknown, key = acme.key, headers = {}): Promise<Answer> =>
      instance().call(request.replace(' ', ' /api/v1/'), {
        key,
        headers,
        ...(body !== undefined && { body }),
      });
    const succeed = async (...parameters: Parameters<typeof send>) => {
      const answer = await send(...parameters);
      assert.ok(answer.status < 300, answer.text);
      return answer.json;
    };
    const create = async (body: object) => Number((await succeed('POST tasks', body)).id);
    const get = (id: unknown) => succeed(`GET tasks/${id}`);
    const callsOf = (hook: string) => calls.filter((call) => call.hook === hook);
    /** Returns a value that a hook was called with. */
    const given = (hook: string, name: string, index = 0): Record<string, unknown> =>
      (callsOf(hook)[index]?.values[name] ?? assert.fail(`${hook} ${index} has no ${name}`)) as Record<
        string,
        unknown
      >;

    test('POST: values of a hook replace the input, also in fields that callers cannot write', async () => {
      const task = await succeed('POST tasks', { title: 'a', points: 4, score: 99 });
      assert.equal(task.score, 8);
      assert.equal(callsOf('before')[0]?.action, 'create');
      assert.deepEqual(given('before', 'input'), { title: 'a', points: 4n });
      assert.equal(callsOf('before')[0]?.values.previous, undefined);
      const { id, name, requestId, ...caller } = given('before', 'caller');
      assert.deepEqual(
        [typeof id, typeof name, typeof requestId, caller],
        [
          'bigint',
          'string',
          'string',
          { kind: 'key', user: BigInt(acme.user), organization: BigInt(acme.id) },
        ],
      );
      assert.equal(callsOf('after')[0]?.action, 'create');
      assert.equal(given('after', 'record').score, 8n);
      assert.equal((await get(task.id)).score, 8);
    });

    test('a hook sets a read-only timestamp, which is in UTC', async () => {
      const { key } = await instance().organization('timely');
      const sendOk = (request: string, body?: unknown) => succeed(request, body, key);
      const made = await sendOk('POST cases', { subject: 'due' });
      assert.equal(made.sla_due_date, '2026-03-01T07:30:00.5Z');
      const other = await sendOk('POST cases', { subject: 'other' });
      assert.equal(other.sla_due_date, null);
      for (const method of ['PATCH', 'PUT']) {
        assert.equal(
          (await sendOk(`${method} cases/${other.id}`, { subject: 'due' })).sla_due_date,
          '2026-03-01T07:30:00.5Z',
          method,
        );
        // Without a value of the hook, the field keeps its value.
        const kept = await sendOk(`${method} cases/${other.id}`, { subject: 'kept' });
        assert.equal(kept.sla_due_date, '2026-03-01T07:30:00.5Z', method);
      }
      await sendOk('POST cases/batch', { records: [{ subject: 'due' }, { subject: 'not due' }] });
      const { data } = await sendOk('GET cases');
      assert.deepEqual(
        (data as readonly Record<string, unknown>[])
          .map(({ subject, sla_due_date }) => [subject, sla_due_date])
          .slice(0, 2),
        [
          ['not due', null],
          ['due', '2026-03-01T07:30:00.5Z'],
        ],
      );
    });

    test('PATCH passes only the fields that were sent, and the stored record', async () => {
      const id = await create({ title: 'a', points: 4, hours: 0.1 });
      calls.length = 0;
      const answer = await send(`PATCH tasks/${id}`, '{"points":9007199254740993}');
      assert.equal(answer.status, 200, answer.text);
      assert.equal(callsOf('before')[0]?.action, 'update');
      assert.deepEqual(given('before', 'input'), { points: 9007199254740993n });
      const { id: previousId, points, hours, score } = given('before', 'previous');
      assert.deepEqual([previousId, points, hours, score], [BigInt(id), 4n, '0.1', 8n]);
      assert.match((await send(`GET tasks/${id}`)).text, /"score":18014398509481986/);
      assert.equal(given('after', 'previous').points, 4n);
    });

    test('PUT keeps fields that only hooks write', async () => {
      const id = await create({ title: 'a', points: 4 });
      const replaced = await succeed(`PUT tasks/${id}`, { title: 'b' });
      // Two points per point, and the record keeps its points for the hook until it is replaced.
      assert.deepEqual([replaced.title, replaced.points, replaced.score], ['b', null, 8]);
      // The hook sees the values that absent fields get.
      const { title, points, hours, owner_id } = given('before', 'input', callsOf('before').length - 1);
      // An owner that the body does not contain is kept.
      assert.deepEqual([title, points, hours, owner_id], ['b', null, null, undefined]);
      assert.equal(replaced.owner_id, Number(acme.user));
    });

    test('the entity tag of the response is current', async () => {
      const id = await create({ title: 'a' });
      const patched = await send(`PATCH tasks/${id}`, { points: 1 });
      const etag = String(patched.headers.get('etag'));
      assert.equal(
        (await send(`PATCH tasks/${id}`, { points: 2 }, acme.key, { 'if-match': etag })).status,
        200,
      );
      assert.equal(
        (await send(`PATCH tasks/${id}`, { points: 3 }, acme.key, { 'if-match': etag })).status,
        412,
      );
      assert.equal((await get(id)).points, 2);
    });

    test('a rejection with a field is a 400 for that field, and nothing is written', async () => {
      const answer = await send('POST tasks', { title: 'forbidden' });
      assert.equal(answer.status, 400);
      assert.deepEqual(errorOf(answer).fields, [{ field: 'title', message: 'forbidden is not a title' }]);
      const found = await succeed('GET tasks?title=forbidden');
      assert.deepEqual(found.data, []);
    });

    test('any error with the name of a field rejects the write, with its hint', async () => {
      const answer = await send('POST tasks', { title: 'misnamed' });
      assert.equal(answer.status, 400);
      assert.deepEqual(errorOf(answer).fields, [
        { field: 'title', message: 'misnamed is not a title. Wait.' },
      ]);
      assert.equal(answer.json.hint, 'Wait.');
      const failed = await send('POST tasks', { title: 'numbered' });
      assert.deepEqual([failed.status, errorOf(failed).code], [500, 'module_failed']);
    });

    test('a rejection without a field has its own code', async () => {
      const id = await create({ title: 'undeletable' });
      const answer = await send(`DELETE tasks/${id}`);
      assert.deepEqual(
        [answer.status, errorOf(answer)],
        [400, { error: 'Finish the task first', code: 'rejected_by_module' }],
      );
      assert.equal((await get(id)).title, 'undeletable');
    });

    test('a hook that fails is a 500 without details, and its message is in the log', async () => {
      let answer = await send('GET tasks');
      const lines = await logged(async () => {
        answer = await send('POST tasks', { title: 'broken' });
      });
      const entry = lines.find(({ status }) => status === 500);
      assert.deepEqual([entry?.cause, entry?.reason], ['TypeError', 'a secret of the hook']);
      assert.equal(answer.status, 500);
      assert.deepEqual(errorOf(answer), {
        error: 'The module scores failed in beforeWrite of tasks: it threw an error',
        code: 'module_failed',
      });
      assert.doesNotMatch(answer.text, /a secret of the hook/);
      // The failure is not the result of one record.
      const records = [{ title: 'beside a broken one' }, { title: 'broken' }];
      const batch = await send('POST tasks/batch', { records, on_error: 'continue' });
      assert.deepEqual([batch.status, errorOf(batch).code], [500, 'module_failed']);
      assert.deepEqual((await succeed('GET tasks?title=beside+a+broken+one')).data, []);
    });

    test('calls of hooks are measured, and those that reject a request are not failures', async () => {
      const { observer } = instance().resources[0]?.context.hooks ?? assert.fail();
      const { call } = observer;
      const results: string[] = [];
      observer.call = ({ place, result }) => {
        if (place === 'beforeWrite of tasks') results.push(result);
      };
      const creator = await acme.keyWith([{ object: 'tasks', actions: ['create'] }]);
      for (const title of ['measured', 'forbidden', 'broken', 'hidden project'])
        await send('POST tasks', { title }, creator);
      if (call !== undefined) observer.call = call;
      assert.deepEqual(results, ['completed', 'rejected', 'failed', 'rejected']);
    });

    test('an unknown field in the result of a hook is its fault', async () => {
      const answer = await send('POST tasks', { title: 'unknown field' });
      assert.equal(answer.status, 500);
      assert.match(answer.text, /it returned \\"nonsense\\", which is not a field/);
    });

    test('a hook must return values, and one result for each record', async () => {
      for (const last_name of ['text', 'list']) {
        const contact = await send('POST contacts', { last_name });
        assert.equal(contact.status, 500);
        assert.match(
          contact.text,
          /The module odd failed in beforeWrite of contacts: it must return an object/,
        );
      }
      const records = [{ subject: 'too few' }, { subject: 'other' }];
      const batch = await send('POST cases/batch', { records, on_error: 'continue' });
      assert.equal(batch.status, 500);
      assert.match(batch.text, /The module odd failed in beforeWrites of cases: it must return 2 results/);
      assert.deepEqual((await succeed('GET cases')).data, []);
    });

    test('a hook that takes longer than 5 seconds fails, and nothing is written', async () => {
      let answer = await send('POST tasks', { title: 'fast' });
      const lines = await logged(async () => {
        answer = await send('POST tasks', { title: 'slow' });
        await send('POST tasks', { title: 'fast' });
      });
      assert.deepEqual(
        lines.filter(({ msg }) => msg === 'slow hook or action').map((line) => [line.module, line.place]),
        [['scores', 'beforeWrite of tasks']],
      );
      assert.equal(answer.status, 500);
      assert.match(
        answer.text,
        /The module scores failed in beforeWrite of tasks: it took longer than 5 seconds/,
      );
      assert.deepEqual((await succeed('GET tasks?title=slow')).data, []);
    });

    test('an error after the write rolls it back', async () => {
      assert.equal((await send('POST tasks', { title: 'fails after' })).status, 400);
      assert.deepEqual((await succeed('GET tasks?title=fails+after')).data, []);
    });

    test('the hooks of several modules run in their order, each with the values of the previous one', async () => {
      const body = { name: 'a', stage: 'new' };
      const { id, stage } = await succeed('POST opportunities', body);
      assert.equal(stage, 'new, together, one by one, later');
      await succeed(`PATCH opportunities/${id}`, { stage: 'old' });
      assert.equal((await succeed(`GET opportunities/${id}`)).stage, 'old, together, one by one, later');
      assert.deepEqual(
        calls.map(({ hook, action }) => `${hook} ${action}`),
        ['create', 'update'].flatMap((action) =>
          ['earlier', 'later', 'after earlier', 'after later'].map((hook) => `${hook} ${action}`),
        ),
      );
      // PUT passes the default of a field that the body does not contain.
      const replaced = await succeed(`PUT opportunities/${id}`, { name: 'a' });
      assert.equal(replaced.stage, 'Prospecting, together, one by one, later');
    });
    test('a record that one hook rejects is not passed to other hooks', async () => {
      const names = ['a', 'rejected together', 'b', 'rejected', 'c'];
      const { results } = (await succeed('POST opportunities/batch', {
        records: names.map((name) => ({ name })),
        on_error: 'continue',
      })) as { results: readonly { status: number }[] };
      assert.deepEqual(
        results.map(({ status }) => status),
        [201, 400, 201, 400, 201],
      );
      const namesOf = (hook: string) => callsOf(hook).map(({ values }) => values.name);
      assert.deepEqual(namesOf('earlier'), ['a', 'b', 'rejected', 'c']);
      assert.deepEqual(namesOf('later'), ['a', 'b', 'c']);
      for (const name of ['rejected together', 'rejected'])
        assert.equal((await send('POST opportunities', { name })).status, 400);
      assert.deepEqual(namesOf('later'), ['a', 'b', 'c']);
    });
    test('statements that a hook runs at the same time are independent', async () => {
      assert.equal((await send('POST tasks', { title: 'many queries' })).status, 201);
    });

    test('batches call hooks for each record; rejected records have their own error', async () => {
      const body = {
        on_error: 'continue',
        records: [
          { title: 'a', points: 1 },
          { title: 'forbidden' },
          { title: 1 },
          { title: 'd', points: 4, score: 7 },
        ],
      };
      const { results } = (await succeed('POST tasks/batch', body)) as {
        results: readonly { status: number; id: number; fields?: readonly { field: string }[] }[];
      };
      assert.deepEqual(
        results.map(({ status }) => status),
        [201, 400, 400, 201],
      );
      assert.deepEqual(
        results[1]?.fields?.map(({ field }) => field),
        ['title'],
      );
      assert.equal((await get(results[3]?.id)).score, 8);
      assert.equal(callsOf('before').length, 3);
      assert.equal(callsOf('after').length, 2);
      const stopped = await send('POST tasks/batch', { records: [{ title: 'z' }, { title: 'forbidden' }] });
      assert.equal(stopped.status, 400);
      assert.deepEqual((await succeed('GET tasks?title=z')).data, []);
      const [first, last] = [results[0]?.id, results[3]?.id];
      const patched = (await succeed('PATCH tasks/batch', {
        records: [
          { id: first, points: 10 },
          { id: last, points: 20 },
        ],
      })) as { results: readonly { status: number }[] };
      assert.deepEqual(
        patched.results.map(({ status }) => status),
        [200, 200],
      );
      assert.deepEqual([(await get(first)).score, (await get(last)).score], [20, 40]);
      calls.length = 0;
      await succeed('DELETE tasks/batch', { ids: [first, last] });
      assert.deepEqual(
        callsOf('before').map(({ action }) => action),
        ['delete', 'delete'],
      );
      assert.deepEqual(
        callsOf('after').map(({ action }) => action),
        ['trash', 'trash'],
      );
    });

    test('upserts call hooks with the existing record', async () => {
      const id = await create({ title: 'a', code: 'U1', points: 3 });
      calls.length = 0;
      const body = {
        match: ['code'],
        records: [
          { code: 'U1', title: 'b' },
          { code: 'U2', points: 5 },
        ],
      };
      const { results } = (await succeed('POST tasks/batch', body)) as {
        results: readonly { status: number }[];
      };
      assert.deepEqual(
        results.map(({ status }) => status),
        [200, 201],
      );
      const before = callsOf('before');
      assert.deepEqual(
        before.map(({ action }) => action),
        ['update', 'create'],
      );
      assert.equal(given('before', 'previous').points, 3n);
      const task = await get(id);
      assert.deepEqual([task.title, task.score], ['b', 6]);
    });

    test('imports call hooks', async () => {
      const answer = await instance().call('POST /api/v1/tasks/import', {
        key: acme.key,
        headers: { 'content-type': 'text/csv' },
        body: 'title,code,points\nimported,I1,2\nforbidden,I2,3\nlast,I3,4\n',
      });
      assert.deepEqual([answer.json.created, answer.json.failed], [2, 1], answer.text);
      const [task] = (await succeed('GET tasks?code=I3')).data as readonly { score: number }[];
      assert.equal(task?.score, 8);
    });

    test('dry runs of imports validate values without hooks', async () => {
      const { id } = await succeed('POST tasks', { title: 'a', code: 'D1' });
      calls.length = 0;
      const answer = await instance().call('POST /api/v1/tasks/import?dry_run=true', {
        key: acme.key,
        headers: { 'content-type': 'text/csv' },
        body: 'title,code,project_id\nx,D1,\ny,D2,\nz,D3,999999\n',
      });
      const { created, failed, lines } = answer.json as {
        created: number;
        failed: number;
        lines: readonly { line: number; code: string; existing_id?: number }[];
      };
      assert.deepEqual([created, failed], [1, 2], answer.text);
      assert.deepEqual(
        lines.map(({ line, code }) => [line, code]),
        [
          [2, 'duplicate'],
          [4, 'missing_reference'],
        ],
      );
      assert.equal(lines[0]?.existing_id, id);
      assert.deepEqual(calls, []);
    });

    test('restoring calls hooks', async () => {
      const id = await create({ title: 'a' });
      await succeed(`DELETE tasks/${id}`);
      calls.length = 0;
      await succeed(`POST tasks/${id}/restore`);
      assert.deepEqual(
        calls.map(({ hook, action }) => `${hook} ${action}`),
        ['before restore', 'after restore'],
      );
      assert.equal(given('before', 'previous').title, 'a');
    });

    test('merging calls hooks', async () => {
      const [id, from] = [await create({ title: 'a' }), await create({ title: 'b', points: 1 })];
      calls.length = 0;
      await succeed(`POST tasks/${id}/merge`, { from });
      assert.deepEqual(
        callsOf('before').map(({ action }) => action),
        ['merge', 'delete'],
      );
      assert.deepEqual(
        callsOf('after')
          .map(({ action }) => action)
          .sort(),
        ['trash', 'update'],
      );
      calls.length = 0;
      await succeed(`POST tasks/${id}/unmerge`, { from });
      assert.deepEqual(
        callsOf('before').map(({ action }) => action),
        ['unmerge', 'restore'],
      );
      assert.deepEqual(
        callsOf('after')
          .map(({ action }) => action)
          .sort(),
        ['restore', 'update'],
      );
      const kept = await create({ title: 'undeletable' });
      const guarded = await send(`POST tasks/${id}/merge`, { from: kept });
      assert.equal(guarded.status, 400, guarded.text);
      assert.equal((await get(kept)).title, 'undeletable');
    });

    test('bulk changes call hooks', async () => {
      for (const points of [1, 2]) await create({ title: 'bulk', points });
      const path = 'tasks?title=bulk';
      const counted = await succeed(`PATCH ${path}`, { points: 7 }, acme.key, { prefer: 'bulk' });
      calls.length = 0;
      const confirm = encodeURIComponent(String(counted.confirm));
      await succeed(`PATCH ${path}&confirm=${confirm}`, { points: 7 }, acme.key, { prefer: 'bulk' });
      assert.equal(callsOf('before').length, 2);
      const { data } = (await succeed('GET tasks?title=bulk')) as { data: readonly { score: number }[] };
      assert.deepEqual(
        data.map(({ score }) => score),
        [14, 14],
      );
      const kept = await create({ title: 'undeletable' });
      const filter = 'tasks?title=undeletable';
      const { confirm: confirmation } = await succeed(`DELETE ${filter}`, undefined, acme.key, {
        prefer: 'bulk',
      });
      const deletion = `DELETE ${filter}&confirm=${encodeURIComponent(String(confirmation))}`;
      const rejected = await send(deletion, undefined, acme.key, { prefer: 'bulk' });
      const places = (errorOf(rejected).fields as readonly { field: string }[]).map(({ field }) => field);
      assert.equal(rejected.status, 400);
      assert.ok(places.length > 0 && places.includes(`record ${kept}`), rejected.text);
    });

    test('what the hook of a rejected item wrote is undone, and the hooks of other items are not', async () => {
      const body = {
        on_error: 'continue',
        records: [{ title: 'project, then rejection' }, { title: 'project' }],
      };
      const { results } = (await succeed('POST tasks/batch', body)) as {
        results: readonly { status: number }[];
      };
      assert.deepEqual(
        results.map(({ status }) => status),
        [400, 201],
      );
      const { data } = (await succeed('GET projects')) as { data: readonly { name: string }[] };
      const made = data.filter(({ name }) => name.startsWith('made for'));
      assert.deepEqual(
        made.map(({ name }) => name),
        ['made for project'],
      );
    });

    test('a call that a hook does not await neither ends the process nor survives the request', async () => {
      const answer = await send('POST tasks', { title: 'not awaited' });
      assert.equal(answer.status, 201, answer.text);
      const { data } = (await succeed('GET projects')) as { data: readonly { name: string }[] };
      assert.equal(data.filter(({ name }) => name === 'not awaited').length, 1);
      const { id } = await succeed('POST contacts', { last_name: 'kept' });
      const late = kept?.create('contacts', { last_name: 'late' }) ?? assert.fail();
      await assert.rejects(late, /The hook has ended/);
      await succeed(`DELETE contacts/${id}`);
      assert.deepEqual((await succeed('GET contacts')).data, []);
    });

    test('errors of calls with system access do not reach the caller', async () => {
      const key = await acme.keyWith([{ object: 'tasks', actions: ['create'] }]);
      await create({ title: 'unique', code: 'S1' });
      for (const title of ['system error', 'system error: not found', 'system error: duplicate']) {
        const answer = await send('POST tasks', { title }, key);
        assert.deepEqual(
          [answer.status, errorOf(answer)],
          [
            500,
            {
              error: 'The module scores failed in beforeWrite of tasks: it threw an error',
              code: 'module_failed',
            },
          ],
          title,
        );
      }
    });

    test('numbers in documents that JavaScript would round are kept', async () => {
      const text = '{"title":"numbers","details":{"a":0.1234567890123456789,"b":12345678901234567890}}';
      const { id } = await succeed('POST tasks', text);
      assert.match(
        (await send(`GET tasks/${id}`)).text,
        /"a":\s?0\.1234567890123456789,\s?"b":\s?12345678901234567890/,
      );
    });

    test('children call the hooks of their resource, and hooks write other records in the same transaction', async () => {
      const project = await succeed('POST projects', {
        name: 'p',
        tasks: [
          { title: 'one', points: 1, score: 50 },
          { title: 'two', points: 2 },
        ],
      });
      const { data } = (project.expanded as { tasks: { data: readonly { id: number; score: number }[] } })
        .tasks;
      assert.deepEqual(
        data.map(({ score }) => score),
        [2, 4],
      );
      assert.equal((await succeed(`GET projects/${project.id}`)).open_tasks, 2);
      const history = (await succeed(`GET projects/${project.id}/history`)).data as readonly {
        actor: { name: string };
      }[];
      assert.match(String(history[0]?.actor.name), /\(scores: count tasks\)$/);
      const [first] = data;
      await succeed(`PATCH projects/${project.id}`, { tasks: [{ id: first?.id, title: 'one', points: 5 }] });
      assert.equal((await get(first?.id)).score, 10);
      assert.equal((await succeed(`GET projects/${project.id}`)).open_tasks, 1);
      const rejected = await send(`PATCH projects/${project.id}`, {
        tasks: [{ title: 'x' }, { title: 'forbidden' }],
      });
      assert.equal(rejected.status, 400);
      assert.deepEqual(
        (errorOf(rejected).fields as readonly { field: string }[]).map(({ field }) => field),
        ['tasks[1].title'],
      );
      assert.equal((await succeed(`GET projects/${project.id}`)).open_tasks, 1);
    });

    test('hooks write custom fields in every kind of request', async () => {
      const field = { name: 'place', type: 'string' };
      assert.equal(
        (await instance().call('POST /fields/labels', { key: acme.key, body: field })).status,
        201,
      );
      /** Returns the labels that the hooks have created since the last call. */
      const labels = async () => {
        const { data } = (await succeed('GET labels?sort=id')) as {
          data: readonly { id: number; name: string; custom: { place: string } }[];
        };
        const ids = data.map(({ id }) => id);
        if (ids.length > 0) await succeed('DELETE labels/batch', { ids });
        return data.map(({ name, custom }) => `${name} ${custom.place}`);
      };
      const { id } = await succeed('POST cabinets', { drawers: [{ name: 'a' }] });
      assert.deepEqual(await labels(), ['before create', 'after create']);
      const { expanded } = await succeed(`PATCH cabinets/${id}`, { drawers: [{ name: 'b' }] });
      assert.deepEqual(await labels(), ['before delete', 'before create', 'after delete', 'after create']);
      const [drawer] = (expanded as { drawers: { data: readonly { id: number }[] } }).drawers.data;
      await succeed(`PATCH cabinets/${id}`, { drawers: [{ id: drawer?.id, name: 'c' }] });
      assert.deepEqual(await labels(), ['before update', 'after update']);
      const path = 'DELETE drawers?name=c';
      const { confirm } = await succeed(path, undefined, acme.key, { prefer: 'bulk' });
      await succeed(`${path}&confirm=${confirm}`, undefined, acme.key, { prefer: 'bulk' });
      assert.deepEqual(await labels(), ['before delete', 'after delete']);
      await succeed('POST cabinets/actions/furnish');
      assert.deepEqual(await labels(), ['action furnish', 'before create', 'after create']);
      // A PUT request without custom fields keeps them.
      const color = { name: 'color', type: 'string' };
      assert.equal(
        (await instance().call('POST /fields/drawers', { key: acme.key, body: color })).status,
        201,
      );
      const other = await succeed('POST drawers', { name: 'x', custom: { color: 'red' } });
      const replaced = await succeed(`PUT drawers/${other.id}`, { name: 'other' });
      assert.deepEqual([replaced.name, replaced.custom], ['other', { color: 'red' }]);
      await labels();
      await succeed('POST drawers', { name: 'the only one' });
      assert.deepEqual(await labels(), ['before create', 'before delete', 'after delete', 'after create']);
      const browser = await signIn(instance(), administratorOf(acme));
      const at = '/setup/o/acme/data/drawers';
      const [last] = (await succeed('GET drawers')).data as readonly { id: number }[];
      const page = `${at}/${last?.id}/delete`;
      assert.equal((await browser.submit(page, page)).status, 303);
      assert.deepEqual(await labels(), ['before delete', 'after delete']);
    });

    test('a repeated idempotency key returns the stored response without hooks', async () => {
      const headers = { 'idempotency-key': 'once' };
      const first = await succeed('POST tasks', { title: 'once', code: 'O1' }, acme.key, headers);
      calls.length = 0;
      const second = await send('POST tasks', { title: 'once', code: 'O1' }, acme.key, headers);
      assert.deepEqual(
        [second.status, second.json.id, second.headers.get('idempotency-replayed')],
        [201, first.id, 'true'],
      );
      assert.deepEqual(calls, []);
      // The same key belongs to another request on another path.
      const records = [{ title: 'a', points: 1 }];
      const batch = await succeed('POST tasks/batch', { records }, acme.key, headers);
      const [{ id } = { id: 0 }] = batch.results as readonly { id: number }[];
      assert.deepEqual([(await get(id)).score, callsOf('before').length], [2, 1]);
      assert.deepEqual(await succeed('POST tasks/batch', { records }, acme.key, headers), batch);
      assert.equal(callsOf('before').length, 1);
      // So does the same key of another caller, and of the same caller in another organization.
      const elsewhere = await instance().organization('second');
      const person = await makePerson(instance(), [{ organization: acme }, { organization: elsewhere }]);
      const { token } = await logIn(instance(), person);
      for (const [request, key] of [
        ['POST tasks', (await acme.makeKey()).key],
        ['POST tasks?org=acme', token],
        ['POST tasks?org=second', token],
      ] as const) {
        calls.length = 0;
        const { score } = await succeed(request, { title: 'once', points: 3 }, key, headers);
        assert.deepEqual([score, callsOf('before').length], [6, 1], request);
      }
    });

    // The embedded database runs one transaction at a time.
    const whereSeveralConnect = driver === 'embedded' ? () => {} : test;
    whereSeveralConnect(
      'a hook sees the values that another transaction has written while the request waited',
      async () => {
        const id = await create({ title: 'a', code: 'W1', points: 1 });
        const match = { match: ['code'], records: [{ code: 'W1', title: 'c' }] };
        for (const [index, [request, body]] of (
          [
            [`PATCH tasks/${id}`, { title: 'b' }],
            ['PATCH tasks/batch', { records: [{ id, title: 'b' }] }],
            ['POST tasks/batch', match],
            [`DELETE tasks/${id}`],
          ] as const
        ).entries()) {
          calls.length = 0;
          const points = BigInt(index + 2);
          const written = [`update tasks set points = ${points} where id = ${id}`];
          const answer = await whileUncommitted(instance(), written, () => send(request, body));
          assert.equal(answer.status, 200, answer.text);
          assert.equal(given('before', 'previous').points, points, request);
        }
      },
    );

    test('hooks do not run for records that the caller cannot write', async () => {
      const id = await create({ title: 'a' });
      const key = await acme.keyWith([
        { object: 'tasks', actions: ['read'] },
        { object: 'tasks', actions: ['update:own'] },
      ]);
      calls.length = 0;
      assert.equal((await send(`PATCH tasks/${id}`, { title: 'b' }, key)).status, 404);
      assert.deepEqual(calls, []);
    });

    test('hooks see and keep fields that the caller does not', async () => {
      const id = await create({ title: 'a', margin: 5 });
      const key = await acme.keyWith([{ object: 'tasks', actions: ['read', 'update', 'create'] }]);
      calls.length = 0;
      const patched = await succeed(`PUT tasks/${id}`, { title: 'b', margin: 7 }, key);
      assert.equal('margin' in patched, false);
      const { title, margin } = given('before', 'input');
      assert.deepEqual([title, margin], ['b', undefined]);
      assert.equal(given('before', 'previous').margin, 5n);
      assert.equal((await get(id)).margin, 5);
      await succeed(`PATCH tasks/${id}`, { title: 'with a margin' }, key);
      assert.equal((await get(id)).margin, 9);
    });

    test('records accessed by hooks are limited to the caller', async () => {
      const key = await acme.keyWith([{ object: 'tasks', actions: ['create'] }]);
      const answer = await send('POST tasks', { title: 'hidden project' }, key);
      assert.deepEqual([answer.status, errorOf(answer).code], [403, 'forbidden']);
      const id = await create({ title: 'a', margin: 5 });
      const limited = await acme.keyWith([{ object: 'tasks', actions: ['read', 'update'] }]);
      for (const [caller, isVisible] of [
        [limited, false],
        [acme.key, true],
      ] as const) {
        calls.length = 0;
        await succeed(`PATCH tasks/${id}`, { title: 'read again' }, caller);
        assert.equal('margin' in given('read again', 'record'), isVisible);
      }
    });

    test('strict requests are validated before hooks run', async () => {
      const answer = await send('POST tasks', { title: 'a', score: 3 }, acme.key, {
        prefer: 'handling=strict',
      });
      assert.equal(answer.status, 400);
      assert.match(answer.text, /score is read-only/);
      assert.deepEqual(calls, []);
      // A rejected record is not written, so another one can have its code.
      const records = [{ code: 'strict', score: 3 }, { code: 'strict' }];
      const body = { match: ['code'], on_error: 'continue', records };
      const { results } = await succeed('POST tasks/batch', body, acme.key, { prefer: 'handling=strict' });
      assert.deepEqual(
        (results as readonly { status: number }[]).map(({ status }) => status),
        [400, 201],
      );
    });

    test('quotas count records of resources with hooks', async () => {
      const { key } = await instance().organization('small');
      await file.apply(instance(), { quotas: { organizations: { small: { records: 2 } } } });
      const records = [{ title: 'a' }, { title: 'b' }, { title: 'c' }];
      const project = { name: 'a', tasks: records };
      for (const [request, body, status] of [
        ['POST tasks/batch', { records }, 403],
        ['POST projects', project, 403],
        ['POST tasks', { title: 'a' }, 201],
        ['POST tasks/batch', { records: records.slice(1) }, 403],
        ['POST tasks', { title: 'b' }, 201],
        ['POST tasks', { title: 'c' }, 403],
      ] as const) {
        const answer = await send(request, body, key);
        assert.equal(answer.status, status, `${request}: ${answer.text}`);
      }
      await file.apply(instance(), {});
    });

    test('quotas count records that hooks and actions create', async () => {
      const { key } = await instance().organization('limited');
      await file.apply(instance(), { quotas: { organizations: { limited: { records: 3 } } } });
      const count = async () => {
        const answers = await Promise.all(
          ['contacts', 'cases'].map((resource) => send(`GET ${resource}`, undefined, key)),
        );
        return answers.flatMap(({ json }) => json.data).length;
      };
      const withContact = { subject: 'with a contact' };
      const created = await send('POST cases', withContact, key);
      assert.equal(created.status, 201, created.text);
      for (const [request, body] of [
        ['POST cases', withContact],
        ['POST contacts/actions/fill', undefined],
      ] as const) {
        const answer = await send(request, body, key);
        assert.deepEqual([answer.status, errorOf(answer).code], [403, 'quota_exceeded'], request);
        assert.equal(await count(), 2, request);
      }
      // The space of writes that failed is available after the next count.
      await until(
        async () => (await send('POST contacts', { last_name: 'last' }, key)).status === 201,
        'count the records again',
      );
      const deleted = await send(`DELETE cases/${created.json.id}`, undefined, key);
      assert.equal(deleted.status, 200, deleted.text);
      // Space that deletes free is available after the next count.
      await until(
        async () => (await send('POST cases', { subject: 'one' }, key)).status === 201,
        'count the records again',
      );
      assert.equal(await count(), 3);
      await file.apply(instance(), {});
    });

    test('quotas count records that hooks, actions and modules create before anything else was counted', async () => {
      const { database, resources } = instance();
      const withContact = { subject: 'with a contact' };
      const codeOf = ({ json }: Answer) => json.code;
      const failure = (work: Promise<unknown>) =>
        work.then(
          () => 'written',
          (cause: unknown) => (cause as { code?: string }).code,
        );
      const ways: Readonly<Record<string, (own: Organization, id: string) => Promise<unknown>>> = {
        'an action': async ({ key }) => codeOf(await send('POST contacts/actions/fill', undefined, key)),
        'a hook before an update': async ({ key }, id) =>
          codeOf(await send(`PATCH cases/${id}`, withContact, key)),
        'the transaction of a module': ({ id: organization }) =>
          failure(
            recordAccess(instance(), 'odd')
              .asSystem(organization, 'a test')
              .transaction((records) => records.create('contacts', { last_name: 'a' })),
          ),
        'a hook before an update by a partner': ({ id: organization }, id) =>
          failure(
            changingRecords(database, resources, commandCaller(organization), (records) =>
              records.patch('cases', id, withContact),
            ),
          ),
      };
      const prepared = await Promise.all(
        Object.entries(ways).map(async ([way, write], index) => {
          const own = await instance().organization(`uncounted-${index}`);
          return { way, write, own, id: String((await succeed('POST cases', {}, own.key)).id) };
        }),
      );
      await file.apply(instance(), { quotas: { records: 1 } });
      for (const { way, write, own, id } of prepared) {
        assert.equal(await write(own, id), 'quota_exceeded', way);
        assert.deepEqual((await send('GET contacts', undefined, own.key)).json.data, [], way);
      }
      await file.apply(instance(), {});
    });

    test('hooks that cause themselves without end are stopped, and nothing is written', async () => {
      const answer = await send('POST accounts', { name: 'loop' });
      assert.equal(answer.status, 500);
      assert.match(
        answer.text,
        /The module loops failed in afterWrite of accounts: it writes records whose hooks write records without end/,
      );
      const { data } = (await succeed('GET accounts')) as { data: readonly { name: string }[] };
      assert.equal(
        data.some(({ name }) => name === 'loop'),
        false,
      );
      const nested = await send('POST contacts', { last_name: 'nested' });
      assert.equal(nested.status, 500);
      assert.match(
        nested.text,
        /The module odd failed in beforeWrite of contacts: it writes records whose hooks write records without end/,
      );
      assert.deepEqual((await succeed('GET contacts')).data, []);
    });
  },
  { sources, modules, environment: file.environment },
);
