// Bulk changes: every record that matches filters is changed or deleted, after the caller has confirmed their number.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { confirmation } from '../../engine/records/bulk.ts';
import { commandCaller, compileGrants, runOperation } from '../../engine/records/index.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { logIn, makePerson } from '../support/people.ts';
import { rowHashes } from '../support/reading.ts';
import { assertErrorShape } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';
import { recordStatements } from '../support/statements.ts';
import { whileUncommitted } from '../support/uncommitted.ts';

const sources = [
  {
    file: 'chores.yaml',
    text: `
singular: chore
common: all
trash: 30 days
fields:
  owner_id: { type: int64, nullable: true, read_only: true, set: creator, assignable: true }
  name: { type: string }
  area: { type: string }
  code: { type: string, unique: true }
  score: { type: integer, nullable: true }
  margin: { type: number, nullable: true, group: finance }
  state: { type: string, enum: [new, open, done], closed: true, default: new, initial: [new, open, done], transitions: { new: [open], open: [done] } }
custom_fields: true
scopes:
  small: score < 10
  home: area == "home"
filters: [name, area, margin, { field: score, operators: [gte, lt] }]
search: [name]
locked: { when: state == "done", message: Done chores cannot be changed. }
`,
  },
  {
    file: 'nodes.yaml',
    text: `
singular: node
common: all
fields:
  name: { type: string }
  parent_id: { type: reference, to: nodes, nullable: true, on_delete: restrict }
filters: [name]
`,
  },
];

const bulk = { prefer: 'bulk' };
const path = '/api/v1/chores';

onBothDrivers(
  'Bulk changes',
  (instance, driver) => {
    let acme: Organization;
    let other: Organization;
    let count = 0;
    before(async () => {
      acme = await instance().organization('acme');
      other = await instance().organization('other');
      const field = { name: 'color', type: 'string' };
      assert.equal(
        (await instance().call('POST /fields/chores', { key: acme.key, body: field })).status,
        201,
      );
    });
    const send = (request: string, body?: unknown, key = acme.key, headers: object = bulk) =>
      instance().call(request, { key, headers: { ...headers }, ...(body !== undefined && { body }) });
    /** Creates chores in an area of their own. @returns the area and the IDs */
    const chores = async (...records: object[]) => {
      const area = `area${++count}`;
      const answer = await instance().call(`POST ${path}/batch`, {
        key: acme.key,
        body: { records: records.map((record, index) => ({ area, code: `${area}-${index}`, ...record })) },
      });
      assert.equal(answer.status, 200, answer.text);
      const ids = (answer.json.results as { id: number }[]).map(({ id }) => id);
      return { area, ids };
    };
    const read = async (id: number | undefined) =>
      (await instance().call(`GET ${path}/${id}`, { key: acme.key })).json;
    const confirmOf = (answer: Answer, expected?: number): string => {
      assert.equal(answer.status, 200, answer.text);
      if (expected !== undefined) assert.equal(answer.json.count, expected);
      return String(answer.json.confirm);
    };
    /** Counts and then confirms. @returns the second response */
    const run = async (request: string, body: unknown, expected: number, key = acme.key) => {
      const confirm = confirmOf(await send(request, body, key), expected);
      return send(`${request}&confirm=${confirm}`, body, key);
    };
    /** Asserts that a request is rejected and writes nothing. */
    const assertRejected = async (work: () => Promise<Answer>, status: number, code: string) => {
      const before = await rowHashes(instance(), acme.id);
      const answer = await work();
      assert.equal(answer.status, status, answer.text);
      assertErrorShape(answer);
      assert.equal(answer.json.code, code, answer.text);
      assert.deepEqual(await rowHashes(instance(), acme.id), before);
      return answer;
    };

    test('the first request counts, and the second changes every record that matches', async () => {
      const { area, ids } = await chores({ name: 'a' }, { name: 'b', score: 3 }, { name: 'c' });
      const elsewhere = await chores({ name: 'a' });
      const first = await send(`PATCH ${path}?area=${area}`, { score: 7, custom: { color: 'red' } });
      const confirm = confirmOf(first, 3);
      assert.equal(first.headers.get('preference-applied'), 'bulk');
      const strict = await send(`PATCH ${path}?area=${area}`, { score: 7 }, acme.key, {
        prefer: 'handling=strict, bulk',
      });
      assert.equal(strict.headers.get('preference-applied'), 'handling=strict, bulk');
      assert.equal((await read(ids[0])).score, null);
      const second = await send(`PATCH ${path}?area=${area}&confirm=${confirm}`, {
        score: 7,
        custom: { color: 'red' },
      });
      assert.deepEqual([second.status, second.json], [200, { count: 3 }]);
      for (const [index, id] of ids.entries()) {
        const chore = await read(id);
        assert.deepEqual(
          [chore.score, chore.name, (chore.custom as { color: string }).color],
          [7, 'abc'[index], 'red'],
        );
        const history = await instance().call(`GET ${path}/${id}/history`, { key: acme.key });
        const [change] = history.json.data as { action: string; request_id: string }[];
        assert.deepEqual(
          [change?.action, change?.request_id],
          ['update', second.headers.get('x-request-id')],
        );
      }
      assert.equal((await read(elsewhere.ids[0])).score, null);
    });

    test('a delete moves the records to the trash, from which they can be restored', async () => {
      const { area, ids } = await chores({ name: 'x' }, { name: 'y' });
      assert.deepEqual((await run(`DELETE ${path}?area=${area}`, undefined, 2)).json, { count: 2 });
      for (const id of ids) {
        assert.equal((await instance().call(`GET ${path}/${id}`, { key: acme.key })).status, 404);
        assert.equal((await instance().call(`POST ${path}/${id}/restore`, { key: acme.key })).status, 200);
      }
      // Records in the trash do not match.
      await instance().call(`DELETE ${path}/${ids[0]}`, { key: acme.key });
      assert.equal((await send(`DELETE ${path}?area=${area}`)).json.count, 1);
    });

    test('filters by search, operators and custom fields', async () => {
      const { area, ids } = await chores({ name: 'needle', score: 5 }, { name: 'hay', score: 9 });
      await instance().call(`PATCH ${path}/${ids[1]}`, { key: acme.key, body: { custom: { color: area } } });
      for (const query of [
        'q=needle',
        `q=needle&area=${area}`,
        `area=${area}&score[lt]=6`,
        `custom.color=${area}`,
      ])
        assert.equal((await send(`PATCH ${path}?${query}`, {})).json.count, 1, query);
      assert.equal((await send(`DELETE ${path}?area=${area}&score[gte]=99`)).json.count, 0);
      assert.deepEqual((await run(`DELETE ${path}?area=${area}&score[gte]=99`, undefined, 0)).json, {
        count: 0,
      });
    });

    test('without the preference, the path does not support the methods', async () => {
      const { area } = await chores({});
      for (const method of ['PATCH', 'DELETE']) {
        const answer = await assertRejected(
          () => send(`${method} ${path}?area=${area}`, undefined, acme.key, {}),
          405,
          'method_not_allowed',
        );
        assert.equal(answer.headers.get('allow'), 'GET, HEAD, QUERY, POST, OPTIONS');
        assert.equal((await send(`${method} ${path}?area=${area}`, undefined, 'wrong')).status, 401);
        assert.equal((await instance().call(`${method} ${path}?area=${area}`)).status, 405);
      }
      const options = await instance().call(`OPTIONS ${path}`, { key: acme.key });
      assert.equal(options.headers.get('allow'), 'GET, HEAD, QUERY, POST, OPTIONS');
    });

    test('unknown, empty and missing filters are rejected', async () => {
      const { area } = await chores({});
      for (const query of [
        '',
        '?',
        '?org=acme',
        '?area=',
        '?area=&name=x',
        `?area=${area}&name=`,
        `?area=${area}&area=`,
        `?area=${area}&q=`,
        `?area=${area}&q=+`,
        `?arae=${area}`,
        `?area=${area}&arae=x`,
        `?area=${area}&area[like]=x`,
        `?area=${area}&custom.colour=x`,
        `?area=${area}&sort=name`,
        `?area=${area}&page=2`,
        `?area=${area}&fields=id`,
        `?area=${area}&trashed=true`,
        `?area=${area}&score[lt]=x`,
        `?area=${area}&confirm=`,
        `?area=${area}&confirm=x`,
        `?area=${area}&confirm=x&confirm=y`,
      ])
        for (const method of ['PATCH', 'DELETE'])
          await assertRejected(
            () => send(`${method} ${path}${query}`, method === 'PATCH' ? { score: 1 } : undefined),
            400,
            'invalid_input',
          );
    });

    test('unknown, read-only and invalid fields are rejected by the first request', async () => {
      const { area } = await chores({});
      for (const body of [
        { scor: 1 },
        { id: 7 },
        { score: 'x' },
        { state: 'old' },
        { custom: { colour: 'x' } },
      ])
        await assertRejected(() => send(`PATCH ${path}?area=${area}`, body), 400, 'invalid_input');
      await assertRejected(() => send(`PATCH ${path}?area=${area}`, []), 400, 'invalid_json');
      const large = { name: 'x'.repeat(8 * 1024) };
      await assertRejected(() => send(`PATCH ${path}?area=${area}`, large), 413, 'body_too_large');
      const conditional = { ...bulk, 'if-match': '*' };
      await assertRejected(
        () => send(`DELETE ${path}?area=${area}`, undefined, acme.key, conditional),
        400,
        'invalid_header',
      );
    });

    test('a confirmation is valid only for the same caller, method, resource, filters and body', async () => {
      const { area } = await chores({ score: 1 });
      const body = { score: 2 };
      const confirm = confirmOf(await send(`PATCH ${path}?area=${area}`, body), 1);
      const deletion = confirmOf(await send(`DELETE ${path}?area=${area}`), 1);
      const second = (await acme.makeKey()).key;
      const request = `PATCH ${path}?area=${area}&confirm=${confirm}`;
      const [text, signature] = confirm.split('.');
      const forged = Buffer.from(JSON.stringify([1, Date.now() + 1e9])).toString('base64url');
      const limited = await limitedKey(instance(), acme, [
        'chores:list:small',
        'chores:update',
        'chores:read',
      ]);
      const person = await makePerson(instance(), [{ organization: acme }, { organization: other }]);
      const { token } = await logIn(instance(), person);
      const ofPerson = confirmOf(await send(`PATCH ${path}?org=acme&area=${area}`, body, token), 1);
      for (const [attack, sent, key] of [
        [`PATCH ${path}?org=other&area=${area}&confirm=${ofPerson}`, body, token],
        [request, body, second],
        [request, body, other.key],
        [request, body, limited.key],
        [request, { score: 3 }, acme.key],
        [request, {}, acme.key],
        [`PATCH ${path}?area=${area}&score[gte]=0&confirm=${confirm}`, body, acme.key],
        [`PATCH ${path}?area=x&confirm=${confirm}`, body, acme.key],
        [`PATCH ${path}?name=${area}&confirm=${confirm}`, body, acme.key],
        [`PATCH /api/v1/nodes?name=${area}&confirm=${confirm}`, { name: 'x' }, acme.key],
        [`DELETE ${path}?area=${area}&confirm=${confirm}`, undefined, acme.key],
        [`PATCH ${path}?area=${area}&confirm=${deletion}`, body, acme.key],
        [`PATCH ${path}?area=${area}&confirm=${forged}.${signature}`, body, acme.key],
        [`PATCH ${path}?area=${area}&confirm=${text}.${text}`, body, acme.key],
        [`PATCH ${path}?area=${area}&confirm=${text}`, body, acme.key],
      ] as const)
        await assertRejected(() => send(attack, sent, key), 400, 'invalid_input');
      // A cursor is signed with the same secrets.
      await instance().call(`POST ${path}/batch`, {
        key: acme.key,
        body: {
          records: Array.from({ length: 20 }, (_, index) => ({ area: 'paged', code: `paged-${index}` })),
        },
      });
      const page = await instance().call(`GET ${path}?area=paged`, { key: acme.key });
      const cursor = /cursor=([^>]+)>/.exec(page.headers.get('link') ?? '')?.[1];
      assert.ok(cursor);
      await assertRejected(() => send(`DELETE ${path}?area=paged&confirm=${cursor}`), 400, 'invalid_input');
      // It reveals the count and the time, which the caller knows.
      assert.equal((JSON.parse(Buffer.from(text ?? '', 'base64url').toString()) as unknown[]).length, 2);
      assert.equal((await send(request, body)).status, 200);
    });

    test('a confirmation names everything that could make the request another one', async () => {
      const requestOf = async (
        operation: 'bulkPatch' | 'bulkRemove',
        { resource = 'chores', organization = acme.id, kind = 'key', query = {}, body = {}, grants = '*:*' },
      ) => {
        const { viewFor } = instance().resources.find(({ name }) => name === resource) ?? assert.fail();
        const [object = '', action = ''] = grants.split(/:(.*)/);
        const compiled = compileGrants([{ object, action }]);
        const principal = {
          ...{
            kind: kind as 'key' | 'user',
            actor: '7',
            name: null,
            organization,
            user: null,
            grants: compiled,
          },
        };
        const input = { caller: { principal, requestId: 'r' }, query: { name: 'x', ...query }, body };
        return (await viewFor(compiled).operations[operation].plan(input)).request;
      };
      const requests = await Promise.all([
        requestOf('bulkRemove', {}),
        requestOf('bulkPatch', {}),
        requestOf('bulkPatch', { body: { name: 'y' } }),
        requestOf('bulkPatch', { query: { name: 'z' } }),
        requestOf('bulkPatch', { kind: 'user' }),
        requestOf('bulkPatch', { organization: other.id }),
        requestOf('bulkPatch', { resource: 'nodes' }),
        requestOf('bulkPatch', { grants: 'chores:*:small' }),
        requestOf('bulkPatch', { grants: 'chores:*:home' }),
      ]);
      assert.equal(new Set(requests).size, requests.length, requests.join('\n'));
      assert.equal(await requestOf('bulkPatch', { grants: 'chores:*:small' }), requests[7]);
    });

    test('a confirmation expires after five minutes', async () => {
      const { area } = await chores({});
      const resource = instance().resources.find(({ name }) => name === 'chores') ?? assert.fail();
      const operation = resource.operations.bulkRemove;
      const signing = { sign: (text: string) => `signed${text.length}`, verify: () => true };
      const caller = commandCaller(acme.id);
      const input = { caller, signing, query: { area }, body: {} };
      const { request } = await operation.plan(input);
      const confirmedAt = (minutes: number) =>
        runOperation(instance().database, operation, {
          ...input,
          query: { area, confirm: confirmation({ request, signing }, 1, Date.now() - minutes * 60_000) },
        });
      await assert.rejects(confirmedAt(5), /confirm has expired/);
      assert.equal((await confirmedAt(4.9)).count, 1);
    });

    test('a confirmation is not valid if the number of records has changed', async () => {
      const { area } = await chores({}, {});
      const confirm = confirmOf(await send(`DELETE ${path}?area=${area}`), 2);
      const request = `DELETE ${path}?area=${area}&confirm=${confirm}`;
      const added = { area, code: `${area}-added` };
      const { json } = await instance().call(`POST ${path}`, { key: acme.key, body: added });
      await assertRejected(() => send(request), 409, 'count_changed');
      await instance().call(`DELETE ${path}/${json.id}`, { key: acme.key });
      assert.equal((await send(request)).status, 200);
      await assertRejected(() => send(request), 409, 'count_changed');
    });

    // The embedded database runs one transaction at a time.
    const whereSeveralConnect = driver === 'embedded' ? () => {} : test;
    whereSeveralConnect(
      'a record that another transaction changes after the preview is not written',
      async () => {
        for (const [method, body] of [['PATCH', { score: 5 }], ['DELETE']] as const) {
          const { area, ids } = await chores({ name: 'a' }, { name: 'b' });
          const request = `${method} ${path}?area=${area}`;
          const confirm = confirmOf(await send(request, body), 2);
          const moved = [`update chores set area = 'moved' where id = ${ids[1]}`];
          const answer = await whileUncommitted(instance(), moved, () =>
            send(`${request}&confirm=${confirm}`, body),
          );
          assert.deepEqual([answer.status, answer.json.code], [409, 'count_changed'], answer.text);
          for (const id of ids) assert.equal((await read(id)).score, null);
        }
      },
    );

    test('locked records, transitions, unique values and references apply, and one failure rejects everything', async () => {
      const { area, ids } = await chores({ name: 'a', state: 'new' }, { name: 'b', state: 'done' });
      const rejected = async (request: string, body: unknown, ...locations: string[]) => {
        const answer = await assertRejected(() => run(request, body, 2), 400, 'items_refused');
        const fields = answer.json.fields as { field: string }[];
        assert.deepEqual(
          fields.map(({ field }) => field),
          locations,
        );
      };
      await rejected(`PATCH ${path}?area=${area}`, { score: 1 }, `record ${ids[1]}`);
      await rejected(`DELETE ${path}?area=${area}`, undefined, `record ${ids[1]}`);
      const fresh = await chores({ state: 'new' }, { state: 'open' });
      await rejected(`PATCH ${path}?area=${fresh.area}`, { state: 'done' }, `record ${fresh.ids[0]}.state`);
      await rejected(
        `PATCH ${path}?area=${fresh.area}`,
        { code: `${area}-0` },
        `record ${fresh.ids[0]}.code`,
        `record ${fresh.ids[1]}.code`,
      );
    });

    test('records that refer to each other are deleted together, in one transaction and few statements', async () => {
      const name = 'chain';
      const create = async (records: object[]) => {
        const answer = await instance().call('POST /api/v1/nodes/batch', {
          key: acme.key,
          body: { records },
        });
        assert.equal(answer.status, 200, answer.text);
        return (answer.json.results as { id: number }[]).map(({ id }) => id);
      };
      const parents = await create(Array.from({ length: 1000 }, () => ({ name })));
      await create(parents.map((parent_id) => ({ name, parent_id })));
      const request = 'PATCH /api/v1/nodes?name=chain';
      const confirm = confirmOf(await send(request, { name: 'chained' }), 2000);
      const statements = await recordStatements(instance().database, () =>
        send(`${request}&confirm=${confirm}`, { name: 'chained' }),
      );
      assert.ok(statements.length < 20, String(statements.length));
      const outside = await create([{ name: 'outside', parent_id: parents[0] }]);
      await assertRejected(
        () => run('DELETE /api/v1/nodes?name=chained', undefined, 2000),
        400,
        'items_refused',
      );
      await instance().call(`DELETE /api/v1/nodes/${outside[0]}`, { key: acme.key });
      assert.deepEqual((await run('DELETE /api/v1/nodes?name=chained', undefined, 2000)).json, {
        count: 2000,
      });
    });

    test('a rejected record is named by its ID, however many records precede it', async () => {
      const ids: number[] = [];
      for (const count of [1000, 2]) {
        const records = Array.from({ length: count }, () => ({ name: 'named' }));
        const answer = await instance().call('POST /api/v1/nodes/batch', {
          key: acme.key,
          body: { records },
        });
        ids.push(...(answer.json.results as { id: number }[]).map(({ id }) => id));
      }
      const run = (text: string) => instance().database.run({ name: '', text, values: [] });
      await run(`alter table nodes add constraint last_node check (name <> 'x' or id <> ${ids.at(-1)})`);
      const path = 'PATCH /api/v1/nodes?name=named';
      const confirm = confirmOf(await send(path, { name: 'x' }), 1002);
      const { json } = await send(`${path}&confirm=${confirm}`, { name: 'x' });
      assert.deepEqual(
        (json.fields as { field: string }[]).map(({ field }) => field),
        [`record ${ids.at(-1)}`],
      );
      await run('alter table nodes drop constraint last_node');
    });

    test('10,000 records are written, and more are rejected', async () => {
      const records = Array.from({ length: 1000 }, () => ({ name: 'many' }));
      for (let batch = 0; batch < 10; batch++)
        await instance().call('POST /api/v1/nodes/batch', { key: acme.key, body: { records } });
      const written = { count: 10_000 };
      const patched = await run('PATCH /api/v1/nodes?name=many', { name: 'patched' }, 10_000);
      assert.deepEqual(patched.json, written);
      assert.deepEqual((await run('DELETE /api/v1/nodes?name=patched', undefined, 10_000)).json, written);
      for (let batch = 0; batch < 10; batch++)
        await instance().call('POST /api/v1/nodes/batch', { key: acme.key, body: { records } });
      const confirm = confirmOf(await send('DELETE /api/v1/nodes?name=many'), 10_000);
      await instance().call('POST /api/v1/nodes', { key: acme.key, body: { name: 'many' } });
      for (const method of ['PATCH', 'DELETE'])
        await assertRejected(
          () => send(`${method} /api/v1/nodes?name=many`, method === 'PATCH' ? { name: 'x' } : undefined),
          409,
          'bulk_too_large',
        );
      await assertRejected(
        () => send(`DELETE /api/v1/nodes?name=many&confirm=${confirm}`),
        409,
        'count_changed',
      );
    });

    test('requires the grants, and never changes or reveals hidden records and fields', async () => {
      const key = async (...grants: string[]) => (await limitedKey(instance(), acme, grants)).key;
      const { area, ids } = await chores({ score: 1, margin: 4 }, { score: 50, margin: 4 }, { score: 2 });
      const filter = `${path}?area=${area}`;
      for (const grants of [['chores:list'], ['chores:update', 'chores:delete', 'chores:read']])
        for (const method of ['PATCH', 'DELETE']) {
          const limited = await key(...grants);
          await assertRejected(() => send(`${method} ${filter}`, {}, limited), 403, 'forbidden');
        }
      const patcher = await key('chores:list', 'chores:update');
      await assertRejected(() => send(`DELETE ${filter}`, undefined, patcher), 403, 'forbidden');
      // Records that the caller cannot list, or cannot write, do not match.
      for (const grants of [
        ['chores:list:small', 'chores:read', 'chores:update', 'chores:delete'],
        ['chores:list', 'chores:read:small', 'chores:update', 'chores:delete'],
        ['chores:list', 'chores:read', 'chores:update:small', 'chores:delete:small'],
      ]) {
        const limited = await key(...grants);
        assert.equal((await send(`DELETE ${filter}`, undefined, limited)).json.count, 2, String(grants));
        assert.equal((await run(`PATCH ${filter}`, { name: 'limited' }, 2, limited)).status, 200);
        assert.equal((await read(ids[1])).name, '');
      }
      // A record must not leave the caller's scopes.
      const scoped = await key('chores:list', 'chores:read', 'chores:update:small');
      const answer = await assertRejected(
        () => run(`PATCH ${filter}`, { score: 99 }, 2, scoped),
        400,
        'items_refused',
      );
      assert.match(answer.text, /outside the scope/);
      // Fields of hidden groups are neither filters nor fields.
      const plain = await key('chores:list', 'chores:read', 'chores:update');
      const hidden = await assertRejected(
        () => send(`PATCH ${filter}&margin=4`, {}, plain),
        400,
        'invalid_input',
      );
      const unknown = await send(`PATCH ${filter}&nargin=4`, {}, plain);
      assert.equal(
        hidden.text.replace(/margin/g, 'nargin').replace(/"request_id".*/, ''),
        unknown.text.replace(/"request_id".*/, ''),
      );
      await assertRejected(() => send(`PATCH ${filter}`, { margin: 5 }, plain), 400, 'invalid_input');
      const reader = await key('chores:list', 'chores:read', 'chores:update', 'chores.finance:read');
      assert.equal((await send(`PATCH ${filter}&margin=4`, {}, reader)).json.count, 2);
      await assertRejected(() => send(`PATCH ${filter}`, { margin: 5 }, reader), 400, 'invalid_input');
      // Records of another organization do not match.
      assert.equal((await send(`DELETE ${filter}`, undefined, other.key)).json.count, 0);
    });
  },
  { sources: await sourcesWith(...sources) },
);
