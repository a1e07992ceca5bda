// Actions: requests that modules add to resources. Each runs in one transaction.
import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { ModuleCode } from '../../engine/records/index.ts';
import { type HookCall, hookedModules, hookedSources } from '../support/hooked.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey, limitedPerson } from '../support/limited.ts';
import { logged } from '../support/logged.ts';
import { dump, logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { errorOf } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';
import { whileUncommitted } from '../support/uncommitted.ts';

const calls: HookCall[] = [];
/** The instance's own URL. */
let url = '';
const sources = await sourcesWith(...hookedSources);
const modules = [
  ...hookedModules(calls),
  {
    name: 'wrong',
    actions: {
      tasks: {
        scrap: {
          description: 'Deletes a task.',
          permission: 'delete',
          run: async ({ id, records }) => {
            await records.asSystem('scrap').delete('tasks', id ?? 0n);
            return undefined;
          },
        },
      },
      projects: {
        enumerate: {
          description: 'Returns a list.',
          ofCollection: true,
          run: async ({ records }) => {
            await records.create('projects', { name: 'enumerated' });
            return [1n] as never;
          },
        },
        call: {
          description: 'Calls the instance.',
          ofCollection: true,
          run: async () => ({ status: (await fetch(`${url}/api/v1/projects`)).status }),
        },
        begin: {
          description: 'Creates a project.',
          ofCollection: true,
          run: ({ records }) => records.create('projects', { name: 'begun' }),
        },
      },
    },
  } satisfies ModuleCode,
];

onBothDrivers(
  'Actions',
  (instance, driver) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
      ({ url } = instance());
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
    const count = async (path: string) => ((await succeed(`GET ${path}`)).data as readonly unknown[]).length;

    test('an action of a record receives it, writes in one transaction and returns a result', async () => {
      const id = await create({ title: 'a', points: 5 });
      calls.length = 0;
      const answer = await send(`POST tasks/${id}/actions/close`, { hours: 1.5 });
      assert.equal(answer.status, 200, answer.text);
      assert.equal(answer.text, '{"title":"closed","points":5,"big":1152921504606846976}');
      const [call] = calls.filter(({ hook }) => hook === 'action');
      assert.deepEqual([call?.values.id, call?.values.input], [BigInt(id), { hours: 1.5 }]);
      assert.equal((call?.values.record as { readonly title: string } | undefined)?.title, 'a');
      // The hooks of the records that it writes run, too.
      assert.ok(calls.some(({ hook }) => hook === 'before'));
      const task = await succeed(`GET tasks/${id}`);
      assert.deepEqual([task.title, task.hours], ['closed', 1.5]);
    });

    test('the body of an action can be compressed', async () => {
      const id = await create({ title: 'a' });
      const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
      const body = gzipSync('{"hours":2}');
      const { status, text } = await send(`POST tasks/${id}/actions/close`, body, acme.key, headers);
      assert.equal(status, 200, text);
      assert.equal((await get(id)).hours, 2);
    });

    // The embedded database runs one transaction at a time.
    const whereSeveralConnect = driver === 'embedded' ? () => {} : test;
    whereSeveralConnect('an action that waits for another write receives the new values', async () => {
      const id = await create({ title: 'a' });
      for (const action of ['close', 'archive', 'count-margins']) {
        const title = `before ${action}`;
        await whileUncommitted(
          instance(),
          [`update tasks set title = '${title}' where id = ${id}`],
          async () => {
            const answer = await send(`POST tasks/${id}/actions/${action}`, { hours: 1 });
            assert.equal(answer.status, 200, answer.text);
          },
        );
        if (action !== 'close') continue;
        const [call] = calls.filter(({ hook }) => hook === 'action');
        assert.equal((call?.values.record as { readonly title: string } | undefined)?.title, title);
      }
    });

    test('the change log names the action and its author', async () => {
      const id = await create({ title: 'a' });
      await succeed(`POST tasks/${id}/actions/close`, { hours: 1 });
      const rows = await instance().database.run({
        name: '',
        text: 'select action, object, actor_kind, version::text from crm_ledger where object_id = $1::bigint and object = $2 order by id',
        values: [String(id), 'tasks'],
      });
      assert.deepEqual(
        rows.map((row) => row.map((cell) => (cell === null ? null : String(cell)))),
        [
          ['create', 'tasks', 'key', '1'],
          ['update', 'tasks', 'key', '2'],
          ['close', 'tasks', 'key', null],
        ],
      );
      // It is not a change to the record, for hooks, the history and the change feed.
      assert.deepEqual(
        calls.filter(({ hook }) => hook === 'after').map(({ action }) => action),
        ['create', 'update'],
      );
      const actionsIn = async (path: string) => {
        const { json } = await instance().call(`GET ${path}`, { key: acme.key });
        const changes = json.data as readonly { readonly id: number; readonly action: string }[];
        return changes.filter((change) => change.id === id).map(({ action }) => action);
      };
      assert.deepEqual(await actionsIn(`/api/v1/tasks/${id}/history`), ['update', 'create']);
      // A later change shows that the feed contains everything before it.
      await succeed(`PATCH tasks/${id}`, { title: 'b' });
      let feed: readonly string[] = [];
      await until(async () => {
        feed = await actionsIn('/events?resources=tasks');
        return feed.filter((action) => action === 'update').length === 2;
      }, 'the feed to contain the last change');
      assert.deepEqual(feed, ['create', 'update', 'update']);
    });

    test('an action can call its own instance, unless its transaction holds the only connection', async () => {
      const { status } = await succeed('POST projects/actions/call');
      assert.equal(status, driver === 'embedded' ? 500 : 401);
    });

    test('an action that fails writes nothing', async () => {
      const before = await count('projects?page=1');
      const answer = await send('POST projects/actions/plan');
      assert.equal(answer.status, 400);
      assert.deepEqual(errorOf(answer).fields, [{ field: 'title', message: 'forbidden is not a title' }]);
      assert.equal(await count('projects?page=1'), before);
    });

    test('an action whose result is not an object fails, and writes nothing', async () => {
      const before = await count('projects?page=1');
      const lines = await logged(async () => {
        const answer = await send('POST projects/actions/enumerate');
        assert.deepEqual([answer.status, errorOf(answer).code], [500, 'module_failed']);
      });
      assert.match(JSON.stringify(lines), /it must return an object or nothing/);
      assert.equal(await count('projects?page=1'), before);
    });

    test('the body must match the schema', async () => {
      const id = await create({ title: 'a' });
      const invalid = async (body: unknown) => {
        const answer = await send(`POST tasks/${id}/actions/close`, body);
        assert.equal(answer.status, 400, answer.text);
        return errorOf(answer).fields ?? errorOf(answer).code;
      };
      assert.deepEqual(await invalid({}), [{ field: 'body', message: 'the body must contain "hours"' }]);
      assert.deepEqual(await invalid({ hours: 'x' }), [
        { field: 'hours', message: 'hours must be a number' },
      ]);
      assert.deepEqual(await invalid({ hours: -1 }), [{ field: 'hours', message: 'hours must be >= 0' }]);
      assert.deepEqual(await invalid({ hours: 1, x: 2 }), [
        { field: 'body', message: 'the body must not contain "x"' },
      ]);
      assert.equal(await invalid(undefined), 'invalid_json');
      assert.equal(await invalid('[1]'), 'invalid_json');
      const strict = { prefer: 'handling=strict' };
      const unknown = await send(`POST tasks/${id}/actions/close?hours=1`, { hours: 1 }, acme.key, strict);
      assert.deepEqual(
        [unknown.status, unknown.json.error],
        [400, 'hours is not a parameter of this operation'],
      );
      assert.equal((await get(id)).title, 'a');
    });

    test('a rejection has a hint of its own', async () => {
      const id = await create({ title: 'open forever' });
      const answer = await send(`POST tasks/${id}/actions/close`, { hours: 1 });
      assert.deepEqual(
        [answer.status, answer.json.error, answer.json.code, answer.json.hint],
        [400, 'Never close it. Wait.', 'rejected_by_module', 'Wait.'],
      );
    });

    test('an idempotency key performs an action once', async () => {
      const id = await create({ title: 'a' });
      const headers = { 'idempotency-key': `close-${id}` };
      const first = await send(`POST tasks/${id}/actions/close`, { hours: 1 }, acme.key, headers);
      await succeed(`PATCH tasks/${id}`, { title: 'reopened' });
      calls.length = 0;
      const second = await send(`POST tasks/${id}/actions/close`, { hours: 1 }, acme.key, headers);
      assert.deepEqual([second.text, second.headers.get('idempotency-replayed')], [first.text, 'true']);
      assert.deepEqual(calls, []);
      assert.equal((await succeed(`GET tasks/${id}`)).title, 'reopened');
      const other = await send(`POST tasks/${id}/actions/close`, { hours: 2 }, acme.key, headers);
      assert.deepEqual([other.status, errorOf(other).code], [422, 'idempotency_key_reused']);
    });

    test('a request without a body can have an idempotency key', async () => {
      const id = await create({ title: 'a' });
      const archive = () =>
        send(`POST tasks/${id}/actions/archive`, undefined, acme.key, { 'idempotency-key': 'no-body' });
      const first = await archive();
      assert.equal(first.status, 200, first.text);
      await succeed(`PATCH tasks/${id}`, { code: null });
      const again = await archive();
      assert.deepEqual([again.text, again.headers.get('idempotency-replayed')], [first.text, 'true']);
      assert.equal((await get(id)).code, null);
    });

    test('an idempotency key is scoped to the record, the action and the caller', async () => {
      const [id, other] = [await create({ title: 'a' }), await create({ title: 'b' })];
      const headers = { 'idempotency-key': 'scoped' };
      const { key } = await acme.makeKey();
      for (const [path, body, caller] of [
        [`tasks/${id}/actions/close`, { hours: 1 }, acme.key],
        [`tasks/${other}/actions/close`, { hours: 2 }, acme.key],
        [`tasks/${id}/actions/archive`, undefined, acme.key],
        [`tasks/${id}/actions/close`, { hours: 3 }, key],
      ] as const) {
        const answer = await send(`POST ${path}`, body, caller, headers);
        assert.deepEqual([answer.status, answer.headers.get('idempotency-replayed')], [200, null], path);
      }
      assert.deepEqual([(await get(id)).hours, (await get(other)).hours], [3, 2]);
      assert.equal((await get(id)).code, `archived-${id}`);
    });

    test('a user can use the same key in each of their organizations', async () => {
      const second = await instance().organization('second');
      const person = await makePerson(instance(), [{ organization: acme }, { organization: second }]);
      const { token } = await logIn(instance(), person);
      const begin = (slug: string) =>
        send(`POST projects/actions/begin?org=${slug}`, undefined, token, { 'idempotency-key': 'each' });
      const answers = [];
      for (const slug of ['acme', 'second', 'acme', 'second']) answers.push(await begin(slug));
      assert.deepEqual(
        answers.map(({ json, headers }) => [json.organization_id, headers.get('idempotency-replayed')]),
        [
          [Number(acme.id), null],
          [Number(second.id), null],
          [Number(acme.id), 'true'],
          [Number(second.id), 'true'],
        ],
      );
    });

    test('requests at the same time with the same key perform it once', async () => {
      const id = await create({ title: 'a' });
      const headers = { 'idempotency-key': `race-${id}` };
      const answers = await Promise.all(
        Array.from({ length: 5 }, () =>
          send(`POST tasks/${id}/actions/close`, { hours: 1 }, acme.key, headers),
        ),
      );
      const statuses = answers.map(({ status }) => status);
      assert.ok(statuses.includes(200), String(statuses));
      assert.ok(
        statuses.every((status) => status === 200 || status === 409),
        String(statuses),
      );
      assert.equal(calls.filter(({ hook }) => hook === 'action').length, 1);
    });

    test('an action can have a grant of its own', async () => {
      const id = await create({ title: 'a' });
      const archive = async (...actions: string[]) => {
        const key = await acme.keyWith([{ object: 'tasks', actions }]);
        return send(`POST tasks/${id}/actions/archive`, undefined, key);
      };
      for (const actions of [
        ['read', 'update', 'delete'],
        ['read', 'archive:own'],
        ['read', '*:own'],
      ]) {
        const refused = await archive(...actions);
        assert.deepEqual([refused.status, refused.json.grant], [403, 'tasks:archive'], String(actions));
      }
      assert.equal((await archive('archive')).status, 404, 'the caller cannot read the record');
      assert.equal((await archive('read:own', 'archive')).status, 404);
      assert.equal((await get(id)).code, null);
      for (const actions of [['read', 'archive'], ['*']]) {
        assert.equal((await archive(...actions)).status, 200);
        assert.equal((await get(id)).code, `archived-${id}`);
        await succeed(`PATCH tasks/${id}`, { code: null });
      }
      // A key on behalf of a member needs the member's grant, too.
      const everything = await limitedKey(instance(), acme, ['tasks:*']);
      for (const [grants, status] of [
        [['tasks:read', 'tasks:update'], 403],
        [['tasks:read', 'tasks:archive'], 200],
      ] as const) {
        const { id: onBehalfOf } = await limitedPerson(instance(), acme, grants);
        const { key } = await acme.makeKey({ profile: everything.profile, onBehalfOf });
        const answer = await send(`POST tasks/${id}/actions/archive`, undefined, key);
        assert.equal(answer.status, status, answer.text);
      }
      const key = await acme.keyWith([{ object: 'tasks', actions: ['read', 'archive'] }]);
      const { resources } = (await instance().call('GET /auth/permissions', { key })).json as {
        resources: Readonly<Record<string, { readonly own?: unknown }>>;
      };
      assert.deepEqual(resources.tasks?.own, { archive: { allowed: true } });
      const several = await acme.keyWith([
        { object: 'tasks', actions: ['archive', 'update:own', 'restore', 'read'] },
        { object: 'projects', actions: ['list'] },
      ]);
      const { grants } = (await instance().call('GET /auth/me', { key: several })).json;
      assert.equal(
        JSON.stringify(grants),
        '{"projects":["list"],"tasks":["read","restore","update:own","archive"]}',
      );
    });

    test('the caller needs the grant, and access to the record', async () => {
      const id = await create({ title: 'a', margin: 3 });
      const reader = await acme.keyWith([{ object: 'tasks', actions: ['read'] }]);
      assert.equal((await send(`POST tasks/${id}/actions/close`, { hours: 1 }, reader)).status, 403);
      const counted = await succeed(`POST tasks/${id}/actions/count-margins`, undefined, reader);
      assert.deepEqual(counted, { hasMargin: false });
      assert.deepEqual(await succeed(`POST tasks/${id}/actions/count-margins`), { hasMargin: true });
      const owner = await acme.keyWith([{ object: 'tasks', actions: ['read:own', 'update:own'] }]);
      assert.equal((await send(`POST tasks/${id}/actions/close`, { hours: 1 }, owner)).status, 404);
      // A caller who can read the record, but not update it, cannot perform an action with the update grant either.
      const own = await acme.keyWith([{ object: 'tasks', actions: ['read', 'update:own'] }]);
      assert.equal((await send(`GET tasks/${id}`, undefined, own)).status, 200);
      for (const [request, body] of [
        [`PATCH tasks/${id}`, { title: 'b' }],
        [`POST tasks/${id}/actions/close`, { hours: 1 }],
      ] as const)
        assert.equal((await send(request, body, own)).status, 404, request);
      assert.ok(!calls.some(({ hook }) => hook === 'action'), 'the action was not performed');
      const other = await instance().organization('other');
      assert.equal((await send(`POST tasks/${id}/actions/close`, { hours: 1 }, other.key)).status, 404);
      // The hook's own access is limited to the caller's grants: it cannot create projects.
      const writer = await acme.keyWith([{ object: 'tasks', actions: ['read', 'update'] }]);
      const answer = await send(`POST tasks/${id}/actions/close`, { hours: 1 }, writer);
      assert.deepEqual([answer.status, answer.json.grant], [403, 'projects:create']);
      assert.equal((await succeed(`GET tasks/${id}`)).title, 'a');
      assert.equal((await send('POST tasks/999999/actions/close', { hours: 1 })).status, 404);
      assert.equal((await send('POST tasks/x/actions/close', { hours: 1 })).status, 404);
    });

    test('an action of the collection requires create, and an action can require delete, of its record', async () => {
      const planner = await acme.keyWith([{ object: 'projects', actions: ['read', 'update', 'delete'] }]);
      const planned = await send('POST projects/actions/plan', undefined, planner);
      assert.deepEqual([planned.status, planned.json.grant], [403, 'projects:create']);
      const id = await create({ title: 'a' });
      for (const [actions, status] of [
        [['read', 'update'], 403],
        [['read', 'delete:own'], 404],
        [['read', 'delete'], 200],
      ] as const) {
        const key = await acme.keyWith([{ object: 'tasks', actions: actions as never }]);
        const answer = await send(`POST tasks/${id}/actions/scrap`, undefined, key);
        assert.equal(answer.status, status, answer.text);
      }
      assert.equal((await send(`GET tasks/${id}`)).status, 404);
    });

    test('a read-only key with all grants changes nothing', async () => {
      const id = await create({ title: 'a' });
      const trashed = await create({ title: 'b' });
      await succeed(`DELETE tasks/${trashed}`);
      const { key } = await acme.makeKey({ access: 'read-only' });
      const state = await dump(instance());
      for (const [request, body] of [
        ['POST tasks', { title: 'c' }],
        [`PUT tasks/${id}`, { title: 'c' }],
        [`PATCH tasks/${id}`, { title: 'c' }],
        [`DELETE tasks/${id}`],
        [`POST tasks/${trashed}/restore`],
        ['POST tasks/batch', [{ title: 'c' }]],
        ['PATCH tasks/batch', [{ id, title: 'c' }]],
        [`DELETE tasks/batch?id=${id}`],
        ['POST tasks/import', [{ title: 'c' }]],
        [`POST tasks/${id}/actions/close`, { hours: 1 }],
        [`POST tasks/${id}/actions/archive`],
      ] as const)
        assert.equal((await send(request, body, key)).status, 403, request);
      assert.equal((await send(`GET tasks/${id}`, undefined, key)).status, 200);
      assert.equal(await dump(instance()), state);
    });

    test('actions are described', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const paths = json.paths as Readonly<
        Record<string, { readonly post: Readonly<Record<string, unknown>> }>
      >;
      const close = paths['/api/v1/tasks/{id}/actions/close']?.post;
      assert.deepEqual([close?.operationId, close?.summary], ['closeTask', 'Close']);
      assert.equal(close?.description, 'Closes a task. Requires the `update` grant on `tasks`.');
      assert.equal(paths['/api/v1/projects/actions/plan']?.post.operationId, 'planProjects');
      assert.equal(paths['/api/v1/projects/actions/plan']?.post.requestBody, undefined);
      const other = await send('GET tasks/1/actions/close');
      assert.deepEqual([other.status, other.headers.get('allow')], [405, 'POST, OPTIONS']);
    });
  },
  { sources, modules },
);
