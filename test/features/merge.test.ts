// Merging two records: references move, blank fields are filled, and the other record is removed, all or nothing.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { mergesRetention } from '../../plugins/tenants/merges/index.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { sourcesWith } from '../support/sources.ts';
import { whileUncommitted } from '../support/uncommitted.ts';

const sources = [
  {
    file: 'firms.yaml',
    text: `
singular: firm
common: all
fields:
  name: { type: string }
  code: { type: string, unique: true }
  region: { type: string }
  level: { type: string }
  size: { type: integer, nullable: true }
  active: { type: boolean }
  price: { type: money, currency: any, nullable: true }
  seen_at: { type: timestamp, nullable: true }
  margin: { type: number, nullable: true, group: finance }
  words: { type: list, of: string }
  parent_id: { type: reference, to: firms, nullable: true }
  boss_id: { type: reference, to: firms, nullable: true, group: finance }
  friend_ids: { type: references, to: firms }
  tag_ids: { type: references, to: tags }
  about: { type: reference, to: [firms, people], nullable: true }
  state: { type: string, enum: [open, done], closed: true, nullable: true, initial: [open], transitions: { open: [done] } }
  visited: { type: integer, rollup: { count: true, of: visits, by: firm_id, stored: true } }
unique: [[region, level]]
custom_fields: true
scopes:
  north: region == "north"
  fresh: level == ""
children: { visits: { of: visits, by: firm_id, writable: true } }
filters: [name]
`,
  },
  {
    file: 'people.yaml',
    text: `
singular: person
common: all
trash: 30 days
fields:
  name: { type: string }
  email: { type: string, unique: true }
scopes: { named: name != "" }
filters: [name]
`,
  },
  { file: 'tags.yaml', text: 'singular: tag\ncommon: all\nfields:\n  name: { type: string }\n' },
  {
    file: 'seats.yaml',
    text: `
singular: seat
common: all
fields:
  code: { type: string, group: finance }
  firm_id: { type: reference, to: firms, nullable: true, group: finance }
unique: [[code, firm_id]]
`,
  },
  {
    file: 'badges.yaml',
    text: `
singular: badge
common: all
fields:
  name: { type: string }
  tag_id: { type: reference, to: tags, required: true, on_delete: cascade }
`,
  },
  {
    file: 'visits.yaml',
    text: `
singular: visit
common: all
trash: 1 day
fields:
  name: { type: string }
  firm_id: { type: reference, to: firms, nullable: true, on_delete: cascade }
  other_firm_id: { type: reference, to: firms, nullable: true, on_delete: restrict }
  firm_ids: { type: references, to: firms }
  subject: { type: reference, to: [firms, people], nullable: true }
  person_id: { type: reference, to: people, nullable: true }
  done: { type: boolean }
unique: [[name, firm_id]]
locked: { when: done, message: Done visits cannot be changed. }
filters: [firm_id]
`,
  },
];

/** A record's JSON. */
type Json = Readonly<Record<string, unknown>> & { readonly id: number };

onBothDrivers(
  'merge',
  (instance, driver) => {
    let acme: Organization;
    let count = 0;
    before(async () => {
      acme = await instance().organization('acme');
      for (const name of ['color', 'size']) await ok('POST /fields/firms', { name, type: 'string' });
      await ok('POST /fields/firms', { name: 'rate', type: 'string', group: 'finance' });
    });
    const send = (request: string, body?: unknown, call: Call = {}) =>
      instance().call(request.replace(/ \/(?!fields)/, ' /api/v1/'), { key: acme.key, body, ...call });
    const ok = async (request: string, body?: unknown, call: Call = {}) => {
      const answer = await send(request, body, call);
      assert.ok(answer.status < 300, `${request}: ${answer.text}`);
      return answer.json as Json;
    };
    const create = async (path: string, body: object = {}) => (await ok(`POST /${path}`, body)).id;
    const firm = (body: object = {}) => create('firms', { code: `c${++count}`, ...body });
    const read = (path: string) => ok(`GET /${path}`);
    const merge = (path: string, from: unknown, call: Call = {}) =>
      send(`POST /${path}/merge`, { from }, call);
    const undo = (path: string, from: unknown, call: Call = {}) =>
      send(`POST /${path}/unmerge`, { from }, call);
    const merged = async (path: string, from: unknown, call: Call = {}) => {
      const answer = await merge(path, from, call);
      assert.equal(answer.status, 200, answer.text);
      return answer.json as Json;
    };
    const assertError = (
      { status, json, text }: Awaited<ReturnType<typeof send>>,
      expected: readonly [status: number, code: string, error?: string],
    ) =>
      assert.deepEqual(
        expected[2] === undefined ? [status, json.code] : [status, json.code, json.error],
        expected,
        text,
      );
    const keyWith = async (...grants: string[]) => (await limitedKey(instance(), acme, grants)).key;

    test('the record keeps its values, and its blank fields get the values of the other record', async () => {
      const [red, blue] = [await create('tags'), await create('tags')];
      const id = await firm({
        ...{ name: 'Acme', size: 0, active: false, tag_ids: [red], words: [] },
        custom: { color: 'red', size: '' },
      });
      const from = await firm({
        ...{ name: 'ACME Inc', region: 'south', size: 7, active: true, tag_ids: [red, blue], words: ['a'] },
        price: { amount: 5, currency: 'EUR' },
        margin: 3,
        state: 'open',
        about: { resource: 'firms', id },
        custom: { color: 'blue', size: 'L', rate: 'x' },
      });
      const before = await read(`firms/${id}`);
      const result = await merged(`firms/${id}`, from);
      assert.deepEqual(result, {
        ...before,
        ...{ region: 'south', words: ['a'], price: { amount: 5, currency: 'EUR' }, margin: 3, state: 'open' },
        tag_ids: [red, blue],
        custom: { color: 'red', size: 'L', rate: 'x' },
        updated_at: result.updated_at,
      });
      assert.notEqual(result.updated_at, before.updated_at);
      assert.deepEqual(await read(`firms/${id}`), result);
      assert.equal((await send(`GET /firms/${from}`)).status, 404);
      // Custom values are copied to the table that filters read.
      const rows = await instance().database.run({
        ...{ name: '', values: [] },
        text: `select field, text_value from crm_custom_values where resource = 'firms' and record_id = ${id} order by field`,
      });
      assert.deepEqual(
        rows.map(([field, value]) => `${field}=${value}`),
        ['color=red', 'rate=x', 'size=L'],
      );
    });

    test('a unique value of the other record is free for the record', async () => {
      const id = await create('people', { name: 'Ada' });
      const from = await create('people', { email: 'ada@example.com' });
      assert.equal((await merged(`people/${id}`, from)).email, 'ada@example.com');
      const firmId = await create('firms', { name: 'No code' });
      const other = await firm();
      const { code } = await read(`firms/${other}`);
      assert.equal((await merged(`firms/${firmId}`, other)).code, code);
    });

    test('references of every kind move, also in records in the trash, with history and events', async () => {
      const [id, from] = [await firm(), await firm()];
      const subject = { resource: 'firms', id: from };
      const visits = [
        await create('visits', { firm_id: from, other_firm_id: from, firm_ids: [from, id], subject }),
        await create('visits', { firm_ids: [from] }),
        await create('visits', { other_firm_id: from }),
      ];
      await ok(`DELETE /visits/${visits[2]}`);
      const child = await firm({ parent_id: from, friend_ids: [from, id] });
      const { updated_at: earlier } = await read(`visits/${visits[1]}`);
      const result = await merged(`firms/${id}`, from);
      assert.equal(result.visited, 1);
      const [first, second] = [await read(`visits/${visits[0]}`), await read(`visits/${visits[1]}`)];
      assert.deepEqual(
        [first.firm_id, first.other_firm_id, first.firm_ids, first.subject],
        [id, id, [id], { resource: 'firms', id }],
      );
      assert.deepEqual(second.firm_ids, [id]);
      assert.notEqual(second.updated_at, earlier);
      const { parent_id, friend_ids } = await read(`firms/${child}`);
      assert.deepEqual([parent_id, friend_ids], [id, [id]]);
      await ok(`POST /visits/${visits[2]}/restore`);
      assert.equal((await read(`visits/${visits[2]}`)).other_firm_id, id);
      const history = async (path: string) =>
        ((await read(`${path}/history`)).data as readonly { action: string; changed: string[] }[]).map(
          ({ action, changed }) => `${action} ${changed.filter((name) => name.startsWith('f')).join()}`,
        );
      assert.deepEqual((await history(`visits/${visits[0]}`))[0], 'update firm_id,firm_ids');
      assert.deepEqual(
        (await history(`firms/${from}`)).map((line) => line.split(' ')[0]),
        ['delete', 'create'],
      );
      assert.deepEqual(
        (await history(`firms/${id}`)).map((line) => line.split(' ')[0]),
        ['update', 'create'],
      );
    });

    test('a record with a trash is moved there, and can be restored', async () => {
      const [id, from] = [await create('people'), await create('people', { email: 'b@example.com' })];
      const visit = await create('visits', { person_id: from });
      await merged(`people/${id}`, from);
      assert.equal((await read(`visits/${visit}`)).person_id, id);
      assert.equal((await send(`GET /people/${from}`)).status, 404);
      assertError(await send(`POST /people/${from}/restore`), [409, 'duplicate']);
      await ok(`PATCH /people/${id}`, { email: '' });
      assert.equal((await ok(`POST /people/${from}/restore`)).email, 'b@example.com');
    });

    test('a record never refers to itself because of a merge', async () => {
      const id = await firm();
      const from = await firm({ parent_id: id, friend_ids: [id] });
      await ok(`PATCH /firms/${from}`, { friend_ids: [id, from], about: { resource: 'firms', id: from } });
      await ok(`PATCH /firms/${id}`, { parent_id: from, friend_ids: [from, id] });
      const { parent_id, friend_ids, about } = await merged(`firms/${id}`, from);
      assert.deepEqual([parent_id, friend_ids, about], [null, [id], null]);
    });

    test('a reference to the other record that the caller cannot write is cleared, and returns', async () => {
      const [id, from] = [await firm(), await firm()];
      await ok(`PATCH /firms/${id}`, { boss_id: from });
      const key = await keyWith('firms:*', 'firms.finance:read');
      assert.equal((await merged(`firms/${id}`, from, { key })).boss_id, null);
      const answer = await undo(`firms/${id}`, from, { key });
      assert.equal(answer.status, 200, answer.text);
      assert.equal((await read(`firms/${id}`)).boss_id, from);
    });

    test('records in the trash cannot be merged', async () => {
      const [id, trashed] = [await create('people'), await create('people')];
      await ok(`DELETE /people/${trashed}`);
      assertError(await merge(`people/${id}`, trashed), [
        ...([400, 'missing_reference'] as const),
        `from ${trashed} does not exist in people`,
      ]);
      assertError(await merge(`people/${trashed}`, id), [404, 'not_found']);
      await ok(`POST /people/${trashed}/restore`);
      await merged(`people/${id}`, trashed);
      await ok(`DELETE /people/${id}`);
      assertError(await undo(`people/${id}`, trashed), [404, 'not_found']);
    });

    test('invalid requests are rejected, and nothing is written', async () => {
      const [id, from] = [await firm(), await firm({ name: 'Other' })];
      const beta = await instance().organization(`beta${++count}`);
      const foreign = Number((await ok('POST /firms', { code: 'x' }, { key: beta.key })).id);
      for (const body of [{}, { from: null }, { from: 'x' }, { from: String(from) }, { from: id }])
        assertError(await send(`POST /firms/${id}/merge`, body), [400, 'invalid_input']);
      assertError(
        await send(`POST /firms/${id}/merge`, { from, to: 1 }, { headers: { prefer: 'handling=strict' } }),
        [400, 'invalid_input'],
      );
      for (const missing of [foreign, 999_999])
        assertError(await merge(`firms/${id}`, missing), [
          ...([400, 'missing_reference'] as const),
          `from ${missing} does not exist in firms`,
        ]);
      for (const path of ['firms/999999', `firms/${foreign}`])
        assertError(await merge(path, from), [404, 'not_found', 'Firm not found in your organization']);
      assertError(await merge('firms/x', from), [404, 'not_found']);
      assert.equal((await read(`firms/${from}`)).name, 'Other');
    });

    test('If-Match applies to the record that remains', async () => {
      const [id, from] = [await firm(), await firm({ name: 'Other' })];
      const { headers } = await send(`GET /firms/${id}`);
      const tag = String(headers.get('etag'));
      await ok(`PATCH /firms/${id}`, { size: 1 });
      assertError(await merge(`firms/${id}`, from, { headers: { 'if-match': tag } }), [
        412,
        'precondition_failed',
      ]);
      const current = String((await send(`GET /firms/${id}`)).headers.get('etag'));
      const answer = await merge(`firms/${id}`, from, { headers: { 'if-match': current } });
      assert.equal(answer.status, 200, answer.text);
      assert.equal(answer.headers.get('etag'), (await send(`GET /firms/${id}`)).headers.get('etag'));
    });

    test('both update and delete are required, and fields that the caller cannot write are not filled', async () => {
      const pair = async () =>
        [await firm(), await firm({ name: 'Other', margin: 5, custom: { rate: 'x' } })] as const;
      const [id, from] = await pair();
      const secret = await create('visits', { firm_id: from });
      assertError(await merge(`firms/${id}`, from, { key: await keyWith('firms:update') }), [
        403,
        'forbidden',
      ]);
      assertError(await merge(`firms/${id}`, from, { key: await keyWith('firms:delete') }), [
        403,
        'forbidden',
      ]);
      const key = await keyWith('firms:read', 'firms:update', 'firms:delete');
      const result = await merged(`firms/${id}`, from, { key });
      assert.equal(result.name, 'Other');
      assert.ok(!('margin' in result));
      const { margin, custom } = await read(`firms/${id}`);
      assert.deepEqual([margin, custom], [null, { color: null, rate: null, size: null }]);
      // References in records that the caller cannot see move, too.
      assert.equal((await read(`visits/${secret}`)).firm_id, id);
      const [other, source] = await pair();
      const reader = await keyWith('firms:*', 'firms.finance:read');
      const kept = await merged(`firms/${other}`, source, { key: reader });
      assert.deepEqual([kept.margin, kept.custom], [null, { color: null, rate: null, size: null }]);
    });

    test('records outside the scopes do not exist, and the record must stay in them', async () => {
      const [north, south] = [
        await firm({ region: 'north', level: `${++count}` }),
        await firm({ region: 'south', level: `${++count}` }),
      ];
      const key = await keyWith('firms:*:north');
      assertError(await merge(`firms/${south}`, north, { key }), [404, 'not_found']);
      assertError(await merge(`firms/${north}`, south, { key }), [
        ...([400, 'missing_reference'] as const),
        `from ${south} does not exist in firms`,
      ]);
      const blank = await firm();
      const fresh = await keyWith('firms:read', 'firms:delete', 'firms:update:fresh');
      assertError(await merge(`firms/${blank}`, north, { key: fresh }), [403, 'outside_scope']);
      assert.equal((await read(`firms/${north}`)).region, 'north');
      const readsAll = await keyWith('firms:read', 'firms:update', 'firms:delete:north');
      assertError(await merge(`firms/${north}`, blank, { key: readsAll }), [400, 'missing_reference']);
    });

    test('locked records, unique values and the number of references prevent a merge', async () => {
      const [id, from] = [await firm({ region: 'x' }), await firm({ level: 'y' })];
      const done = await create('visits', { name: 'a', firm_id: from, done: true });
      assertError(await merge(`firms/${id}`, from), [409, 'locked', 'Done visits cannot be changed.']);
      assert.equal((await read(`visits/${done}`)).firm_id, from);
      await create('firms', { code: `c${++count}`, region: 'x', level: 'y' });
      const [left, right] = [await firm(), await firm()];
      await create('visits', { name: 'same', firm_id: left });
      await create('visits', { name: 'same', firm_id: right });
      assertError(await merge(`firms/${left}`, right), [
        ...([409, 'merge_conflict'] as const),
        'Several visits would have the same name and firm_id. Delete or change one of these records first.',
      ]);
      const [front, rear] = [await firm(), await firm()];
      for (const firm_id of [front, rear]) await create('seats', { code: 'A1', firm_id });
      for (const [key, names] of [
        [acme.key, 'code and firm_id'],
        [await keyWith('firms:*', 'seats:*'), 'unique values'],
      ] as const)
        assertError(await merge(`firms/${front}`, rear, { key }), [
          ...([409, 'merge_conflict'] as const),
          `Several seats would have the same ${names}. Delete or change one of these records first.`,
        ]);
      const [x, y] = [await firm({ region: 'r' }), await firm({ level: 'l' })];
      await firm({ region: 'r', level: 'l' });
      assertError(await merge(`firms/${x}`, y), [409, 'duplicate']);
      assert.equal((await read(`firms/${y}`)).level, 'l');
      const [begun, ended] = [await firm(), await firm({ state: 'open' })];
      await ok(`PATCH /firms/${ended}`, { state: 'done' });
      assertError(await merge(`firms/${begun}`, ended), [409, 'invalid_transition']);
      const [one, two] = [await firm(), await firm()];
      const tags = await Promise.all(Array.from({ length: 101 }, () => create('tags')));
      await ok(`PATCH /firms/${one}`, { tag_ids: tags.slice(0, 100) });
      await ok(`PATCH /firms/${two}`, { tag_ids: tags.slice(1) });
      assertError(await merge(`firms/${one}`, two), [
        ...([400, 'invalid_input'] as const),
        'tag_ids would refer to more than 100 records',
      ]);
      await ok(`PATCH /firms/${two}`, { tag_ids: tags.slice(1, 100) });
      assert.equal(((await merged(`firms/${one}`, two)).tag_ids as readonly unknown[]).length, 100);
    });

    test('notes move to the record, but not those of other records with the same ID', async () => {
      const [id, from] = [await firm(), await firm()];
      const beta = await instance().organization(`beta${++count}`);
      const notesOf = async (record: number) =>
        instance().database.run({
          ...{ name: '', values: [] },
          text: `select resource, text from crm_notes where record_id = ${record} order by id`,
        });
      await instance().database.run({
        ...{ name: '', values: [] },
        text: `insert into crm_notes (organization_id, resource, record_id, author_id, text)
          select organization, resource, ${from}, ${acme.user}, text
          from (values (${acme.id}, 'firms', 'Called.'), (${acme.id}, 'badges', 'Other'), (${beta.id}, 'firms', 'Foreign')) _n(organization, resource, text)`,
      });
      const others = [
        ['badges', 'Other'],
        ['firms', 'Foreign'],
      ];
      await merged(`firms/${id}`, from);
      assert.deepEqual([await notesOf(id), await notesOf(from)], [[['firms', 'Called.']], others]);
      assert.equal((await undo(`firms/${id}`, from)).status, 200);
      assert.deepEqual([await notesOf(id), await notesOf(from)], [[], [['firms', 'Called.'], ...others]]);
    });

    test('up to 10,000 references move, and more are rejected', async () => {
      const [id, from] = [await firm(), await firm()];
      await instance().database.run({
        ...{ name: '', values: [] },
        text: `insert into visits (organization_id, firm_id, name, created_at, updated_at) select ${acme.id}, ${from}, 'v' || n, now(), now() from generate_series(1, 10000) n`,
      });
      // The references of all fields and resources count together.
      const visit = await create('visits', { other_firm_id: from });
      assertError(await merge(`firms/${id}`, from), [409, 'merge_too_large']);
      assert.equal((await read(`firms/${from}`)).visited, 10_000);
      await ok(`PATCH /visits/${visit}`, { other_firm_id: null });
      await instance().database.run({ ...{ name: '', values: [] }, text: 'analyze visits' });
      assert.equal((await merged(`firms/${id}`, from)).visited, 10_000);
    });

    test('undoing a merge restores both records and everything that the merge moved', async () => {
      const [red, blue] = [await create('tags'), await create('tags')];
      const id = await firm({ name: 'Acme', tag_ids: [red], custom: { color: 'red' } });
      const from = await firm({
        ...{ name: 'ACME Inc', region: 'south', size: 7, tag_ids: [blue], words: ['a'] },
        ...{ price: { amount: 5.1, currency: 'EUR' }, margin: 3, parent_id: id, active: true },
        custom: { color: 'blue', size: 'L', rate: 'x' },
      });
      await ok(`PATCH /firms/${id}`, {
        parent_id: from,
        friend_ids: [from],
        about: { resource: 'firms', id: from },
      });
      await ok(`PATCH /firms/${from}`, { boss_id: from, friend_ids: [from, id] });
      const subject = { resource: 'firms', id: from };
      const visits = [
        await create('visits', { firm_id: from, other_firm_id: from, firm_ids: [from, id], subject }),
        await create('visits', { firm_id: id, firm_ids: [from] }),
        await create('visits', { other_firm_id: from }),
      ];
      await ok(`DELETE /visits/${visits[2]}`);
      const child = await firm({ parent_id: from, friend_ids: [from, id] });
      await instance().database.run({
        ...{ name: '', values: [] },
        text: `insert into crm_notes (organization_id, resource, record_id, author_id, text) values (${acme.id}, 'firms', ${from}, ${acme.user}, 'Of the other'), (${acme.id}, 'firms', ${id}, ${acme.user}, 'Own')`,
      });
      const paths = [id, from, child]
        .map((each) => `firms/${each}`)
        .concat(visits.slice(0, 2).map((each) => `visits/${each}`));
      const state = async () =>
        Promise.all(
          paths.map(async (path) => {
            const { updated_at: _, ...record } = await read(path);
            return record;
          }),
        );
      const before = await state();
      await merged(`firms/${id}`, from);
      const answer = await undo(`firms/${id}`, from);
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(await state(), before);
      assert.deepEqual(answer.json, await read(`firms/${id}`));
      assert.equal(answer.headers.get('etag'), (await send(`GET /firms/${id}`)).headers.get('etag'));
      const rows = await instance().database.run({
        ...{ name: '', values: [] },
        text: `select record_id, text from crm_notes where resource = 'firms' and record_id in (${id}, ${from}) order by record_id`,
      });
      assert.deepEqual(rows, [
        [String(id), 'Own'],
        [String(from), 'Of the other'],
      ]);
      await ok(`POST /visits/${visits[2]}/restore`);
      assert.equal((await read(`visits/${visits[2]}`)).other_firm_id, from);
      const actions = async (path: string) =>
        ((await read(`${path}/history`)).data as readonly { action: string; request_id: string }[]).map(
          ({ action }) => action,
        );
      assert.deepEqual(await actions(`firms/${from}`), ['create', 'delete', 'update', 'create']);
      const versions = await instance().database.run({
        ...{ name: '', values: [] },
        text: `select version::text from crm_ledger where object = 'firms' and object_id = ${from} order by version`,
      });
      assert.deepEqual(versions, [['1'], ['2'], ['3'], ['4']]);
      assert.deepEqual(await actions(`firms/${id}`), [
        // The merge, two steps that undo it, and the update before.
        ...['update', 'update', 'update', 'update', 'create'],
      ]);
      const [values] = await instance().database.run({
        ...{ name: '', values: [] },
        text: `select count(*)::text from crm_custom_values where resource = 'firms' and record_id = ${from}`,
      });
      assert.deepEqual(values, ['3']);
      // The records can be merged and separated again.
      await merged(`firms/${from}`, id);
      assert.equal((await undo(`firms/${from}`, id)).status, 200);
      assert.deepEqual(await state(), before);
    });

    // The embedded database runs one transaction at a time.
    const whereSeveralConnect = driver === 'embedded' ? () => {} : test;
    whereSeveralConnect(
      'undoing a merge restores values that were written while the merge waited',
      async () => {
        const [id, from] = [await firm({ name: '' }), await firm({ name: 'Other' })];
        const written = [`update firms set name = 'Changed' where id = ${from}`];
        const result = await whileUncommitted(instance(), written, () => merged(`firms/${id}`, from));
        assert.equal(result.name, 'Changed');
        assert.equal((await undo(`firms/${id}`, from)).status, 200);
        assert.deepEqual(
          [(await read(`firms/${id}`)).name, (await read(`firms/${from}`)).name],
          ['', 'Changed'],
        );
      },
    );

    test('undoing a merge with a trash restores the other record from it', async () => {
      const [id, from] = [
        await create('people', { name: 'Ada' }),
        await create('people', { name: 'A. L.', email: `${++count}@example.com` }),
      ];
      const visit = await create('visits', { person_id: from });
      const email = (await merged(`people/${id}`, from)).email;
      const unable = await keyWith('people:read', 'people:create', 'people:update', 'people:delete');
      assertError(await undo(`people/${id}`, from, { key: unable }), [403, 'forbidden']);
      const key = await keyWith('people:read', 'people:update', 'people:restore');
      const answer = await undo(`people/${id}`, from, { key });
      assert.deepEqual([answer.status, answer.json.email], [200, ''], answer.text);
      const restored = await read(`people/${from}`);
      assert.deepEqual([restored.name, restored.email], ['A. L.', email]);
      assert.equal((await read(`visits/${visit}`)).person_id, from);
      // The merge no longer exists, even after the other record is moved to the trash again.
      await ok(`DELETE /people/${from}`);
      assertError(await undo(`people/${id}`, from), [
        ...([409, 'merge_not_undoable'] as const),
        'The merge cannot be undone: the records were not merged in the last 30 days',
      ]);
    });

    test('undoing a merge requires that the caller can restore or create the other record', async () => {
      const [id, from] = [await create('people', { name: 'Ada' }), await create('people')];
      const visit = await create('visits', { person_id: from });
      await merged(`people/${id}`, from);
      const restoring = await keyWith('people:read', 'people:update', 'people:restore:named');
      assertError(await undo(`people/${id}`, from, { key: restoring }), [
        ...([409, 'merge_not_undoable'] as const),
        `The merge cannot be undone: record ${from} is not in the trash`,
      ]);
      assert.equal((await read(`visits/${visit}`)).person_id, id);
      assert.equal((await undo(`people/${id}`, from)).status, 200);
      const [north, south] = [await firm({ region: 'north', level: 'n' }), await firm({ region: 'south' })];
      await merged(`firms/${north}`, south);
      const grants = ['firms:read', 'firms:update', 'firms:delete', 'firms.finance:*'];
      const creating = await keyWith(...grants, 'firms:create:north');
      assertError(await undo(`firms/${north}`, south, { key: creating }), [403, 'outside_scope']);
      assert.equal((await send(`GET /firms/${south}`)).status, 404);
      assert.equal((await undo(`firms/${north}`, south)).status, 200);
    });

    test('records that were merged before can be merged and separated again', async () => {
      const [id, from] = [await create('people'), await create('people', { name: 'Ada' })];
      const email = `${++count}@example.com`;
      assert.equal((await merged(`people/${id}`, from)).name, 'Ada');
      // The other record returns without undoing the merge.
      await ok(`POST /people/${from}/restore`);
      await instance().database.run({
        ...{ name: '', values: [] },
        text: `update crm_merges set merged_at = now() - interval '31 days', moved = '{"faxes":{"person_id":{}}}' where resource = 'people' and record_id = ${id}`,
      });
      await ok(`PATCH /people/${from}`, { email });
      assert.equal((await merged(`people/${id}`, from)).email, email);
      const answer = await undo(`people/${id}`, from);
      assert.deepEqual([answer.status, answer.json.name, answer.json.email], [200, 'Ada', ''], answer.text);
      assert.equal((await read(`people/${from}`)).email, email);
    });

    test('merges of the same record, or of records with the same IDs, are undone separately', async () => {
      const id = await firm();
      const [first, second] = [
        await firm({ name: 'First', size: 1 }),
        await firm({ name: 'Second', region: 'south', margin: 2 }),
      ];
      const visits = [
        await create('visits', { firm_id: first }),
        await create('visits', { firm_id: second }),
      ];
      const state = async () => {
        const { name, size, region, margin } = await read(`firms/${id}`);
        const records = await Promise.all(visits.map((visit) => read(`visits/${visit}`)));
        return [name, size, region, margin, ...records.map(({ firm_id }) => firm_id)];
      };
      const rows = async (text: string) => instance().database.run({ name: '', values: [], text });
      // Records of another resource can have the same IDs.
      await rows(
        `insert into crm_merges (organization_id, resource, record_id, from_id, before) select ${acme.id}, 'people', ${id}, _id, 'people' from unnest(array[${first}, ${second}]) _id`,
      );
      await merged(`firms/${id}`, first);
      await merged(`firms/${id}`, second);
      assert.deepEqual(await state(), ['First', 1, 'south', 2, id, id]);
      assertError(await undo(`firms/${id}`, 999_999), [
        ...([409, 'merge_not_undoable'] as const),
        'The merge cannot be undone: the records were not merged in the last 30 days',
      ]);
      for (const [from, name, expected] of [
        [first, 'First', ['', null, 'south', 2, first, id]],
        [second, 'Second', ['', null, '', null, first, second]],
      ] as const) {
        const answer = await undo(`firms/${id}`, from);
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(await state(), expected);
        assert.equal((await read(`firms/${from}`)).name, name);
      }
      const kept = `select before, after, moved::text from crm_merges where resource = 'people' and record_id = ${id}`;
      assert.deepEqual(await rows(`${kept} and from_id in (${first}, ${second})`), [
        ['people', '', '{}'],
        ['people', '', '{}'],
      ]);
      // A record that was restored can also be merged into another record.
      const [one, two] = [await create('people'), await create('people')];
      const from = await create('people', { name: 'Ada' });
      await merged(`people/${one}`, from);
      await ok(`POST /people/${from}/restore`);
      await merged(`people/${two}`, from);
      for (const [target, names] of [
        [two, ['Ada', '']],
        [one, ['', '']],
      ] as const) {
        const answer = await undo(`people/${target}`, from);
        assert.equal(answer.status, 200, answer.text);
        const people = [await read(`people/${one}`), await read(`people/${two}`)];
        assert.deepEqual(
          people.map(({ name }) => name),
          names,
        );
        await ok(`DELETE /people/${from}`);
      }
    });

    test('a merge can be undone for 30 days', async () => {
      const [id, from] = [await firm(), await firm({ name: 'Other' })];
      await merged(`firms/${id}`, from);
      await instance().database.run({
        ...{ name: '', values: [] },
        text: `update crm_merges set merged_at = now() - interval '29 days 23 hours' where resource = 'firms' and record_id = ${id}`,
      });
      const answer = await undo(`firms/${id}`, from);
      assert.deepEqual([answer.status, answer.json.name], [200, ''], answer.text);
    });

    test('what has changed since a merge stays', async () => {
      const gone = await create('firms', { code: `c${++count}` });
      const [goneTag, tag] = [await create('tags'), await create('tags')];
      const [id, from] = [
        await firm(),
        await firm({ name: 'Other', region: 'x', size: 1, parent_id: gone, tag_ids: [goneTag, tag] }),
      ];
      const [moved, changed] = [
        await create('visits', { firm_id: from, firm_ids: [from] }),
        await create('visits', { firm_id: from, firm_ids: [from] }),
      ];
      await merged(`firms/${id}`, from);
      const third = await firm();
      await ok(`PATCH /firms/${id}`, { region: 'y', parent_id: null });
      await ok(`PATCH /visits/${changed}`, { firm_id: third, firm_ids: [] });
      const added = await create('visits', { firm_id: id });
      await ok(`DELETE /firms/${gone}`);
      await ok(`DELETE /tags/${goneTag}`);
      const answer = await undo(`firms/${id}`, from);
      assert.equal(answer.status, 200, answer.text);
      const { name, region, size, visited } = answer.json as Json;
      assert.deepEqual([name, region, size, visited], ['', 'y', null, 1]);
      assert.equal((await read(`visits/${moved}`)).firm_id, from);
      const { firm_id, firm_ids } = await read(`visits/${changed}`);
      assert.deepEqual([firm_id, firm_ids], [third, []]);
      assert.equal((await read(`visits/${added}`)).firm_id, id);
      const restored = await read(`firms/${from}`);
      assert.deepEqual(
        [restored.name, restored.parent_id, restored.visited, restored.tag_ids],
        ['Other', null, 1, [tag]],
      );
      const [kept, left] = [await firm(), await firm()];
      const visit = await create('visits', { firm_id: left });
      await merged(`firms/${kept}`, left);
      await ok(`PATCH /visits/${visit}`, { firm_id: third });
      assert.equal((await undo(`firms/${kept}`, left)).status, 200);
      assert.equal((await read(`firms/${left}`)).visited, 0);
    });

    test('undoing a merge keeps a value of which only a part has been changed since', async () => {
      const [first, second] = [await firm(), await firm()];
      for (const [filled, entered] of [
        [{ price: { amount: 5, currency: 'EUR' } }, { price: { amount: 7, currency: 'EUR' } }],
        [{ price: { amount: 5, currency: 'EUR' } }, { price: { amount: 5, currency: 'USD' } }],
        [{ seen_at: '2026-03-01T10:00:00+02:00' }, { seen_at: '2026-03-01T11:00:00+02:00' }],
        [{ seen_at: '2026-03-01T10:00:00+02:00' }, { seen_at: '2026-03-01T09:00:00+01:00' }],
        [{ about: { resource: 'firms', id: first } }, { about: { resource: 'firms', id: second } }],
      ] satisfies readonly (readonly [object, object])[]) {
        const [id, from] = [await firm(), await firm(filled)];
        const valuesIn = (record: Json) =>
          Object.fromEntries(Object.keys(entered).map((name) => [name, record[name]]));
        assert.deepEqual(valuesIn(await merged(`firms/${id}`, from)), filled);
        await ok(`PATCH /firms/${id}`, entered);
        const answer = await undo(`firms/${id}`, from);
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(valuesIn(answer.json as Json), entered);
        assert.deepEqual(valuesIn(await read(`firms/${from}`)), filled);
      }
    });

    test('a merge that cannot be undone is rejected with the reason, and nothing is written', async () => {
      const [id, from] = [await firm(), await firm({ name: 'Other', margin: 5 })];
      const reason = async (pair: readonly [string, unknown], call: Call = {}) => {
        const { status, json, text } = await undo(...pair, call);
        assert.deepEqual([status, json.code], [409, 'merge_not_undoable'], text);
        return String(json.error).replace('The merge cannot be undone: ', '');
      };
      const other = await firm();
      assert.equal(await reason([`firms/${id}`, other]), `record ${other} exists`);
      assert.equal(await reason([`firms/${id}`, 999_999]), 'the records were not merged in the last 30 days');
      await merged(`firms/${id}`, from);
      assertError(await undo('firms/999999', from), [404, 'not_found']);
      assertError(await undo(`firms/${id}`, from, { key: await keyWith('firms:update') }), [
        403,
        'forbidden',
      ]);
      assertError(await undo(`firms/${id}`, from, { headers: { 'if-match': '"1-old"' } }), [
        412,
        'precondition_failed',
      ]);
      const limited = await keyWith('firms:read', 'firms:update', 'firms:create', 'firms:delete');
      assert.equal(
        await reason([`firms/${id}`, from], { key: limited }),
        'it changed fields that you cannot write',
      );
      const [plain, custom] = [await firm(), await firm({ name: 'Other', custom: { rate: 'x' } })];
      await merged(`firms/${plain}`, custom);
      for (const key of [limited, await keyWith('firms:*', 'firms.finance:read')])
        assert.equal(
          await reason([`firms/${plain}`, custom], { key }),
          'it changed fields that you cannot write',
        );
      // Values that the merge did not change do not matter.
      const [rated, colored] = [
        await firm({ custom: { rate: 'x' } }),
        await firm({ custom: { color: 'red', rate: 'y' } }),
      ];
      await merged(`firms/${rated}`, colored);
      const withoutRate = { key: await keyWith('firms:*', 'firms.finance:read') };
      assert.equal((await undo(`firms/${rated}`, colored, withoutRate)).status, 200);
      const beta = await instance().organization(`beta${++count}`);
      assertError(await undo(`firms/${id}`, from, { key: beta.key }), [404, 'not_found']);
      await create('firms', { code: 'taken' });
      const keep = (set: string) =>
        instance().database.run({
          ...{ name: '', values: [] },
          text: `update crm_merges set ${set} where resource = 'firms' and record_id = ${id}`,
        });
      await keep(`merged_at = now() - interval '31 days'`);
      assert.equal(await reason([`firms/${id}`, from]), 'the records were not merged in the last 30 days');
      await keep(`merged_at = now(), removed = jsonb_set(removed::jsonb, '{fax}', '1')::text`);
      assert.equal(await reason([`firms/${id}`, from]), 'the fields of firms have changed since');
      for (const [change, reverted] of [
        [
          `removed = (removed::jsonb - 'fax')::text, after = jsonb_set(after::jsonb, '{fax}', '1')::text`,
          `after = (after::jsonb - 'fax')::text`,
        ],
        [`moved = moved || '{"faxes":{"firm_id":{}}}'`, `moved = moved - 'faxes'`],
        [
          `removed = jsonb_set(removed::jsonb, '{size}', '"large"')::text`,
          `removed = jsonb_set(removed::jsonb, '{size}', 'null')::text`,
        ],
      ] as const) {
        await keep(change);
        assert.equal(await reason([`firms/${id}`, from]), 'the fields of firms have changed since', change);
        await keep(reverted);
      }
      await keep(`removed = (removed::jsonb || '{"code":"taken"}')::text`);
      assertError(await undo(`firms/${id}`, from), [409, 'duplicate']);
      assert.equal((await read(`firms/${id}`)).name, 'Other');
      const [begun, open] = [await firm(), await firm({ state: 'open' })];
      await merged(`firms/${begun}`, open);
      assertError(await undo(`firms/${begun}`, open), [409, 'invalid_transition']);
      const lost = await create('tags');
      const [badge, removed] = [
        await create('badges', { tag_id: await create('tags') }),
        await create('badges', { tag_id: lost }),
      ];
      await merged(`badges/${badge}`, removed);
      await ok(`DELETE /tags/${lost}`);
      assert.equal(
        await reason([`badges/${badge}`, removed]),
        'a record to which the other record refers no longer exists',
      );
      const [kept, deleted] = [await create('people'), await create('people')];
      await merged(`people/${kept}`, deleted);
      await ok(`POST /people/${deleted}/restore`);
      assert.equal(await reason([`people/${kept}`, deleted]), `record ${deleted} is not in the trash`);
    });

    test('merges are deleted after 30 days, and can then no longer be undone', async () => {
      const [first, second] = [await firm(), await firm()];
      await merged(`firms/${first}`, second);
      const age = async (days: number) => {
        const tables = tablesOf(instance().database);
        await tables
          .updateTable('crm_merges')
          .set({ merged_at: new Date(Date.now() - days * 86_400_000) })
          .where('record_id', '=', String(first))
          .execute();
        await mergesRetention(tables);
        const rows = tables.selectFrom('crm_merges').select('from_id').where('record_id', '=', String(first));
        return (await rows.execute()).length;
      };
      assert.deepEqual([await age(29), await age(31)], [1, 0]);
      assert.ok((await undo(`firms/${first}`, second)).status >= 400);
    });

    test('of two concurrent requests to undo a merge, one succeeds', async () => {
      const [id, from] = [await firm(), await firm({ name: 'Other' })];
      await merged(`firms/${id}`, from);
      const answers = await Promise.all([undo(`firms/${id}`, from), undo(`firms/${id}`, from)]);
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409]);
      assert.equal((await read(`firms/${from}`)).name, 'Other');
    });

    test('of two concurrent merges of the same records, one succeeds', async () => {
      const [id, from] = [await firm(), await firm()];
      const visit = await create('visits', { firm_id: from });
      const answers = await Promise.all([merge(`firms/${id}`, from), merge(`firms/${from}`, id)]);
      assert.deepEqual(
        answers.map(({ status }) => status).toSorted(),
        answers.some(({ status }) => status === 404) ? [200, 404] : [200, 400],
      );
      const remaining = answers[0]?.status === 200 ? id : from;
      assert.equal((await read(`visits/${visit}`)).firm_id, remaining);
    });
  },
  { sources: await sourcesWith(...sources) },
);
