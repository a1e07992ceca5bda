// Children: named lists of referring records, and records that are written together with their children.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { clientOf, type ResourceTypes } from '../../client/src/client.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { indexes } from '../../engine/records/indexes.ts';
import { administratorOf, readable, signIn } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey, limitedPerson, setGrants } from '../support/limited.ts';
import { nested } from '../support/nested.ts';
import { settingsFile } from '../support/partners.ts';
import { logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { rowHashes } from '../support/reading.ts';
import { errorOf } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

type Row = Readonly<Record<string, unknown>>;
interface List {
  readonly data: readonly Row[];
  readonly has_more: boolean;
  readonly url: string;
}
const listIn = (row: Row, name = 'lines'): List =>
  (row.expanded as Readonly<Record<string, List>> | undefined)?.[name] ?? assert.fail(`no ${name}`);
const namesIn = (row: Row) => listIn(row).data.map(({ name }) => name);
const idsIn = (row: Row) => listIn(row).data.map(({ id }) => Number(id));
const file = settingsFile({});
/** Children whose reference to their record is in a field group. */
const grouped = [
  {
    file: 'letters.yaml',
    text: `
singular: letter
description: A letter.
common: all
fields:
  name: { type: string, description: The name. }
children: { stamps: { of: stamps, by: letter_id, sort: { by: name, direction: desc }, writable: true } }
`,
  },
  {
    file: 'stamps.yaml',
    text: `
singular: stamp
description: A stamp.
common: all
fields:
  name: { type: string, description: The name. }
  letter_id: { type: reference, to: letters, nullable: true, group: post, description: The letter. }
  seen_ids: { type: references, to: letters, description: Where it was seen. }
sort: { by: name }
`,
  },
];
const sources = await sourcesWith(...nested, ...grouped);

onBothDrivers(
  'Children',
  (instance) => {
    let acme: Organization;
    let other: Organization;
    before(async () => {
      acme = await instance().organization('acme');
      other = await instance().organization('other');
    });
    const send = (request: string, body?: unknown, { key = acme.key, headers = {} } = {}): Promise<Answer> =>
      instance().call(request.replace(' ', ' /api/v1/'), {
        key,
        headers,
        ...(body !== undefined && { body }),
      });
    const succeed = async (...[request, body, options]: Parameters<typeof send>) => {
      const answer = await send(request, body, options);
      assert.ok(answer.status < 300, answer.text);
      return answer.json;
    };
    const create = async (body: object, options?: Parameters<typeof send>[2]) =>
      Number((await succeed('POST quotes', body, options)).id);
    const get = (id: number, options?: Parameters<typeof send>[2]) =>
      succeed(`GET quotes/${id}?expand=lines,notes`, undefined, options);
    /** Asserts that a request is rejected, and that it changes nothing. */
    const assertRejected = async (
      expected: Row & { readonly status: number },
      ...[request, body, options]: Parameters<typeof send>
    ) => {
      const before = await rowHashes(instance(), acme.id);
      const answer = await send(request, body, options);
      assert.deepEqual({ status: answer.status, ...errorOf(answer) }, { ...expected }, answer.text);
      assert.deepEqual(await rowHashes(instance(), acme.id), before);
    };
    const invalid = (...issues: readonly (readonly [field: string, message: string])[]) => ({
      status: 400,
      error: issues.map(([, message]) => message).join('; '),
      code: 'invalid_input',
      fields: issues.map(([field, message]) => ({ field, message })),
    });
    const changesOf = async (path: string) => (await succeed(`GET ${path}/history`)).data as readonly Row[];
    const run = (text: string) => instance().database.run({ name: '', text, values: [] });

    test('POST creates a record with its children and returns them, in the order of the list', async () => {
      const answer = await send('POST quotes', {
        title: 'Roof',
        lines: [{ name: 'second', position: 2, amount: 12.5 }, { name: 'first' }],
        notes: [{ text: 'a' }, { body: 'b' }],
      });
      assert.equal(answer.status, 201, answer.text);
      const id = Number(answer.json.id);
      const lines = listIn(answer.json);
      assert.deepEqual(
        lines.data.map(({ quote_id, name, position, amount }) => [quote_id, name, position, amount]),
        [
          [id, 'first', 1, null],
          [id, 'second', 2, 12.5],
        ],
      );
      assert.deepEqual(
        [lines.has_more, lines.url],
        [false, `/api/v1/quote_lines?quote_id=${id}&sort=position&dir=asc`],
      );
      const notes = listIn(answer.json, 'notes');
      assert.deepEqual(
        notes.data.map(({ text }) => text),
        ['b', 'a'],
      );
      assert.equal(notes.url, `/api/v1/quote_notes?quote_id%5Bin%5D=${id}&sort=text&dir=desc`);
      assert.equal(answer.headers.get('location'), `/api/v1/quotes/${id}`);
      assert.deepEqual(await get(id), answer.json);
      assert.ok(!('expanded' in (await succeed(`GET quotes/${id}`))));
      const { etag = '' } = Object.fromEntries(answer.headers);
      assert.equal((await send(`PATCH quotes/${id}`, {}, { headers: { 'if-match': etag } })).status, 200);
      // The same author and request as the record itself, and one change for each child.
      const [change] = await changesOf(`quotes/${id}`).then((changes) => changes.slice(-1));
      for (const line of idsIn(answer.json)) {
        const [own, ...more] = await changesOf(`quote_lines/${line}`);
        assert.deepEqual(
          [own?.action, own?.actor, own?.request_id, more.length],
          ['create', change?.actor, change?.request_id, 0],
        );
      }
    });

    test('IDs and references to other records are ignored by POST, as for every record', async () => {
      const first = await succeed('POST quotes', { title: 'A', lines: [{ name: 'a' }] });
      const copy = await succeed('POST quotes', { title: 'B', lines: listIn(first).data });
      assert.notDeepEqual(idsIn(copy), idsIn(first));
      assert.deepEqual(
        listIn(copy).data.map(({ quote_id, name }) => [quote_id, name]),
        [[copy.id, 'a']],
      );
      assert.deepEqual(namesIn(await get(Number(first.id))), ['a']);
    });

    test('PUT replaces the list: updates, creates and deletes', async () => {
      const created = await succeed('POST quotes', {
        title: 'A',
        lines: [{ name: 'a', amount: 1, code: 'x' }, { name: 'b' }, { name: 'c', code: 'y' }],
      });
      const id = Number(created.id);
      const [a = 0, b = 0, c = 0] = idsIn(created);
      const replaced = await succeed(`PUT quotes/${id}`, {
        title: 'B',
        // Codes of deleted and of changed lines are free.
        lines: [
          { name: 'new', position: 9, code: 'y' },
          { id: b, name: 'b2', position: 8 },
          { id: a },
          { id: null, name: 'more', position: 10, code: 'x' },
        ],
      });
      assert.deepEqual(namesIn(replaced), ['', 'b2', 'new', 'more']);
      const [emptied] = listIn(replaced).data;
      assert.deepEqual([emptied?.id, emptied?.amount, emptied?.code], [a, null, null]);
      assert.deepEqual((await get(id)).expanded, {
        ...(replaced.expanded as Row),
        notes: listIn(await get(id), 'notes'),
      });
      assert.equal((await send(`GET quote_lines/${c}`)).status, 404);
      assert.deepEqual(
        await Promise.all(
          [a, b, c].map(async (line) => (await changesOf(`quote_lines/${line}`)).map(({ action }) => action)),
        ),
        [
          ['update', 'create'],
          ['update', 'create'],
          ['delete', 'create'],
        ],
      );
      // An absent list keeps its records, and the response does not contain them.
      const kept = await succeed(`PUT quotes/${id}`, { title: 'C' });
      assert.ok(!('expanded' in kept));
      assert.deepEqual(namesIn(await get(id)), ['', 'b2', 'new', 'more']);
      assert.deepEqual(listIn(await succeed(`PUT quotes/${id}`, { title: 'D', lines: [] })).data, []);
      assert.deepEqual(namesIn(await get(id)), []);
    });

    test('PATCH replaces only the list, and changes the version of the record', async () => {
      const id = await create({ title: 'A', lines: [{ name: 'a' }], notes: [{ text: 'kept' }] });
      const tag = (answer: Answer) => answer.headers.get('etag') ?? assert.fail('no ETag');
      const before = await send(`GET quotes/${id}`);
      const patched = await send(`PATCH quotes/${id}`, { lines: [{ name: 'b' }] });
      assert.deepEqual([patched.json.title, namesIn(patched.json)], ['A', ['b']]);
      assert.notEqual(tag(patched), tag(before));
      assert.deepEqual(
        listIn(await get(id), 'notes').data.map(({ text }) => text),
        ['kept'],
      );
      const stale = { headers: { 'if-match': tag(before) } };
      const unmet = {
        status: 412,
        error: 'The record has changed since you read it',
        code: 'precondition_failed',
      };
      const { json } = await send(`PATCH quotes/${id}`, { title: 'x' }, stale);
      await assertRejected({ ...unmet, error: json.error }, `PATCH quotes/${id}`, { lines: [] }, stale);
      await succeed(`PATCH quotes/${id}`, { lines: [] }, { headers: { 'if-match': tag(patched) } });
      const missing = await send('PUT quotes/987654321', { lines: [{ name: 'a' }] });
      assert.equal(missing.status, 404, missing.text);
    });

    test('issues of the record and of its children are reported together, and nothing is written', async () => {
      const created = await succeed('POST quotes', { title: 'A', lines: [{ name: 'a', code: 'x' }] });
      const [line = 0] = idsIn(created);
      const path = `quotes/${created.id}`;
      await assertRejected(
        invalid(
          ['title', 'title must be a string'],
          ['lines[0]', 'lines[0]: must be an object'],
          ['lines[1].name', 'lines[1]: name must be at most 20 characters long'],
          ['lines[1].amount', 'lines[1]: amount must be a number'],
          ['notes[1].text', 'notes[1]: text must be a string'],
        ),
        'POST quotes',
        {
          title: 1,
          lines: ['a', { amount: 'x', name: 'x'.repeat(21) }, { name: 'ok' }],
          notes: [{ text: 'ok' }, { text: 1 }],
        },
      );
      for (const value of [null, {}, 'a', Array.from({ length: 1001 }, () => ({}))]) {
        await assertRejected(
          invalid(['lines', 'lines must be a list of at most 1000 records']),
          `PATCH ${path}`,
          { lines: value, title: 'x' },
        );
      }
      await assertRejected(
        invalid(
          ['title', 'title must be a string'],
          ['lines', 'lines must be a list of at most 1000 records'],
        ),
        `PUT ${path}`,
        { lines: null, title: 1 },
      );
      const foreign = idsIn(
        await succeed('POST quotes', { lines: [{ name: 'foreign' }] }, { key: other.key }),
      );
      const elsewhere = idsIn(await succeed('POST quotes', { lines: [{ name: 'elsewhere' }] }));
      for (const id of [...foreign, ...elsewhere, 987654321])
        await assertRejected(
          invalid(['lines[1].id', `lines[1]: id ${id} does not belong to this record`]),
          `PUT ${path}`,
          { title: 'x', lines: [{ name: 'new' }, { id, name: 'moved' }] },
        );
      await assertRejected(invalid(['lines[0].id', 'lines[0]: id must be a 64-bit integer']), `PUT ${path}`, {
        lines: [{ id: 'x' }],
      });
      const repeated = 'several records in the batch have the same id';
      await assertRejected(
        invalid(['lines[0].id', `lines[0]: ${repeated}`], ['lines[1].id', `lines[1]: ${repeated}`]),
        `PUT ${path}`,
        { lines: [{ id: line }, { id: line }] },
      );
      const missing = (index: number, id: number) => ({
        field: `lines[${index}].product_id`,
        message: `lines[${index}]: product_id ${id} does not exist in products`,
      });
      const fields = [missing(1, 987654321), missing(2, 987654322)];
      await assertRejected(
        {
          status: 400,
          error: fields.map(({ message }) => message).join('; '),
          code: 'missing_reference',
          fields,
        },
        'POST quotes',
        { lines: [{ name: 'ok' }, { product_id: 987654321 }, { product_id: 987654322 }] },
      );
      const message = 'lines[1]: Another record has the same quote_id and code';
      const { json } = await send(`PUT ${path}`, {
        lines: [
          { id: line, name: 'a', code: 'x' },
          { name: 'b', code: 'x' },
        ],
      });
      assert.deepEqual([json.code, json.existing_id], ['duplicate', line]);
      assert.deepEqual(
        (json.fields as readonly Row[]).map(({ field }) => field),
        ['lines[1].quote_id', 'lines[1].code'],
        message,
      );
      assert.deepEqual(namesIn(await get(Number(created.id))), ['a']);
      // An error has one code, so only the children with the code of the first one are listed.
      const mixed = await send('POST quotes', {
        lines: [{}, { product_id: 987654321 }, { code: 'x' }, { code: 'x' }, { product_id: 987654322 }],
      });
      assert.deepEqual(
        [mixed.status, mixed.json.code, mixed.json.fields],
        [400, 'missing_reference', [missing(1, 987654321), missing(4, 987654322)]],
      );
    });

    test('strict requests reject unknown and read-only fields of children', async () => {
      const created = await succeed('POST quotes', { title: 'A', lines: [{ name: 'a' }] });
      const strict = { headers: { prefer: 'handling=strict' } };
      await assertRejected(
        invalid(
          ['linse', 'linse is not a field of this resource. Did you mean "lines"?'],
          ['lines[0].nane', 'lines[0]: nane is not a field of this resource. Did you mean "name"?'],
          ['lines[1].quote_id', 'lines[1]: quote_id is read-only'],
          ['lines[1].id', 'lines[1]: id is read-only'],
        ),
        'POST quotes',
        { title: 'A', linse: [], lines: [{ nane: 'a' }, { quote_id: 1, id: 1 }] },
        strict,
      );
      const [id] = idsIn(created);
      await succeed(`PUT quotes/${created.id}`, { title: 'A', lines: [{ id, name: 'b' }] }, strict);
    });

    test('children cannot be written in batches, imports or other children', async () => {
      const reason = 'can be written only in a request that writes a single record of its resource';
      const path = `quotes/${await create({ title: 'A' })}`;
      await assertRejected(invalid(['lines[0].marks', `lines[0]: marks ${reason}`]), `PATCH ${path}`, {
        lines: [{ name: 'a', marks: [{}] }],
      });
      const records = [{ title: 'B', lines: [{ name: 'a' }] }];
      const batch = await send('POST quotes/batch', { records });
      assert.deepEqual(batch.json.fields, [
        { field: 'records[0].lines', message: `records[0]: lines ${reason}` },
      ]);
      const patches = await send('PATCH quotes/batch', { records: [{ id: 1, lines: [] }] });
      assert.deepEqual(patches.status, 400, patches.text);
      for (const query of ['', '?dry_run=true']) {
        const { json } = await instance().call(`POST /api/v1/quotes/import${query}`, {
          key: acme.key,
          body: `${JSON.stringify(records[0])}\n`,
          headers: { 'content-type': 'application/x-ndjson' },
        });
        const [line] = json.lines as readonly Row[];
        assert.deepEqual(
          [json.created, json.failed, line?.error],
          [0, 1, `lines ${reason}`],
          JSON.stringify(json),
        );
      }
    });

    test('a delete of a child obeys its rules', async () => {
      const created = await succeed('POST quotes', { title: 'A', lines: [{ name: 'a' }, { name: 'b' }] });
      const [a, b] = idsIn(created);
      await succeed('POST line_marks', { line_id: a });
      const error = errorOf(await send(`DELETE quote_lines/${a}`));
      const body = { title: 'B', lines: [{ id: b, name: 'b2' }] };
      await assertRejected({ status: 409, ...error }, `PUT quotes/${created.id}`, body);
      await assertRejected({ status: 409, ...error }, `PATCH quotes/${created.id}`, { lines: [] });
    });

    test('an idempotency key returns the stored response, with the children', async () => {
      const headers = { 'idempotency-key': 'children-1' };
      const body = { title: 'Once', lines: [{ name: 'a' }, { name: 'b' }] };
      const first = await send('POST quotes', body, { headers });
      await succeed(`PATCH quotes/${first.json.id}`, { lines: [] });
      const second = await send('POST quotes', body, { headers });
      assert.deepEqual([second.status, second.text], [201, first.text]);
      assert.equal(second.headers.get('etag'), first.headers.get('etag'));
      assert.equal(second.headers.get('idempotency-replayed'), 'true');
      assert.equal((await send('POST quotes', { ...body, lines: [] }, { headers })).status, 422);
      const failing = { title: 'Failing', lines: [{ product_id: 987654321 }] };
      const key = { headers: { 'idempotency-key': 'children-2' } };
      assert.equal((await send('POST quotes', failing, key)).status, 400);
      assert.equal((await send('POST quotes', { ...failing, lines: [] }, key)).status, 201);
      const attempts = await Promise.all(
        Array.from({ length: 4 }, () =>
          send('POST quotes', body, { headers: { 'idempotency-key': 'children-3' } }),
        ),
      );
      const ids = new Set(attempts.filter(({ status }) => status === 201).map(({ json }) => json.id));
      assert.equal(ids.size, 1);
      assert.ok(attempts.every(({ status }) => status === 201 || status === 409));
      const { json } = await send(`GET quote_lines?quote_id=${[...ids][0]}`);
      assert.equal((json.data as readonly Row[]).length, 2);
    });

    test('responses stored for the same key in two organizations contain their own children', async () => {
      const person = await makePerson(instance(), [{ organization: acme }, { organization: other }]);
      const { token } = await logIn(instance(), person);
      const options = { key: token, headers: { 'idempotency-key': 'children-of-each' } };
      const post = (slug: string) => succeed(`POST quotes?org=${slug}`, { lines: [{ name: 'a' }] }, options);
      const first = [await post('acme'), await post('other')];
      assert.notDeepEqual(first[0], first[1]);
      assert.deepEqual([await post('acme'), await post('other')], first);
    });

    test('a replay for a limited caller reads the children with the current rights', async () => {
      const grants = ['quotes:*', 'quote_lines:create', 'quote_lines:list:small', 'quote_lines:read'];
      const limited = await limitedKey(instance(), acme, grants);
      const options = { key: limited.key, headers: { 'idempotency-key': 'children-limited' } };
      const body = { title: 'A', lines: [{ name: 'a' }, { name: 'b', position: 100 }] };
      assert.deepEqual(namesIn(await succeed('POST quotes', body, options)), ['a', 'b']);
      assert.deepEqual(namesIn(await succeed('POST quotes', body, options)), ['a']);
      await setGrants(instance(), acme, limited.profile, ['quotes:*', 'quote_lines:create:small']);
      const replay = () => send('POST quotes', body, options);
      await until(async () => !('expanded' in (await replay()).json), 'the grants to change');
      assert.equal((await replay()).status, 201);
    });

    test('a response stored before the caller was limited is not returned to a caller that cannot read the record', async () => {
      const unlimited = [
        'quotes:*',
        'quote_lines:*',
        ...['quote_lines.finance:read', 'quote_lines.finance:update'],
        ...['stamps.post:read', 'stamps.post:update'],
      ];
      const { key, profile } = await limitedKey(instance(), acme, unlimited);
      const replay = () =>
        send('POST quotes', { lines: [{ margin: 4711 }] }, { key, headers: { 'idempotency-key': 'stored' } });
      const first = await replay();
      assert.deepEqual([first.status, (await replay()).text], [201, first.text]);
      await setGrants(instance(), acme, profile, ['quotes:create', 'quote_lines:create']);
      await until(async () => (await replay()).status === 404, 'the grants to change');
    });

    test('each action on children requires its grant', async () => {
      const created = await succeed('POST quotes', { title: 'A', lines: [{ name: 'a' }, { name: 'b' }] });
      const path = `quotes/${created.id}`;
      const [a, b] = idsIn(created);
      const keep = [
        { id: a, name: 'a' },
        { id: b, name: 'b' },
      ];
      const forbidden = (action: string, prefix = '') => ({
        status: 403,
        error: `${prefix}Your profile does not grant ${action} on quote_lines. An administrator can add the grant quote_lines:${action}.`,
        code: 'forbidden',
        grant: `quote_lines:${action}`,
      });
      const keyWith = async (...actions: readonly string[]) => ({
        key: (
          await limitedKey(instance(), acme, [
            'quotes:*',
            ...actions.map((action) => `quote_lines:${action}`),
          ])
        ).key,
      });
      await assertRejected(
        forbidden('create'),
        'POST quotes',
        { lines: [{}] },
        await keyWith('update', 'delete'),
      );
      await assertRejected(
        forbidden('create'),
        `PATCH ${path}`,
        { lines: [...keep, {}] },
        await keyWith('update', 'delete'),
      );
      await assertRejected(
        forbidden('update'),
        `PATCH ${path}`,
        { lines: keep },
        await keyWith('create', 'delete'),
      );
      await assertRejected(
        forbidden('delete'),
        `PATCH ${path}`,
        { lines: [] },
        await keyWith('create', 'update', 'read'),
      );
      // Without grants to read children, the response contains only the written ones.
      const writer = await keyWith('create', 'update');
      const written = await succeed(`PATCH ${path}`, { lines: [...keep, { name: 'c' }] }, writer);
      assert.deepEqual(namesIn(written), ['a', 'b', 'c']);
      assert.equal((await send(`GET ${path}?expand=lines`, undefined, writer)).status, 403);
      for (const action of ['read', 'update'])
        await assertRejected(
          forbidden('delete'),
          `PATCH ${path}`,
          action === 'read' ? { lines: [{}] } : { lines: [{ id: a, name: 'only' }] },
          await keyWith(action, 'create'),
        );
      assert.deepEqual(namesIn(await succeed(`PATCH ${path}`, { lines: [] }, await keyWith('delete'))), []);
      assert.deepEqual(namesIn(await get(Number(created.id))), []);
    });

    test('the complete list has the order of the list of children, which can be the opposite of the default', async () => {
      const created = await succeed('POST letters', { stamps: ['a', 'c', 'b'].map((name) => ({ name })) });
      const { data, url } = listIn(created, 'stamps');
      assert.equal(url, `/api/v1/stamps?letter_id%5Bin%5D=${created.id}&sort=name&dir=desc`);
      assert.deepEqual(
        data.map(({ name }) => name),
        ['c', 'b', 'a'],
      );
      assert.deepEqual((await instance().call(`GET ${url}`, { key: acme.key })).json.data, data);
    });

    test('creating children requires the grant to write their reference', async () => {
      const created = await succeed('POST letters', { stamps: [{ name: 'a' }] });
      const [{ id = 0 } = {}] = listIn(created, 'stamps').data;
      const grants = ['letters:*', 'stamps:*', 'stamps.post:read'];
      const reader = { key: (await limitedKey(instance(), acme, grants)).key };
      const changed = await succeed(`PATCH letters/${created.id}`, { stamps: [{ id, name: 'b' }] }, reader);
      assert.deepEqual(
        listIn(changed, 'stamps').data.map(({ name }) => name),
        ['b'],
      );
      for (const [request, stamps] of [
        ['POST letters', [{ name: 'c' }]],
        [`PATCH letters/${created.id}`, [{ id, name: 'c' }, { name: 'd' }]],
      ] as const) {
        const { status, json } = await send(request, { stamps }, reader);
        assert.deepEqual([status, json.grant], [403, 'stamps.post:update'], request);
      }
      const { key } = await limitedKey(instance(), acme, [...grants, 'stamps.post:update']);
      await succeed('POST letters', { stamps: [{ name: 'c' }] }, { key });
    });

    test('children outside the scopes of the caller are neither returned nor deleted', async () => {
      const owner = await limitedPerson(instance(), acme, ['quotes:*', 'quote_lines:*:own']);
      const created = await succeed('POST quotes', { title: 'A', lines: [{ name: 'foreign' }] });
      const path = `quotes/${created.id}`;
      const [foreign] = idsIn(created);
      const own = { key: owner.key };
      const written = await succeed(`PUT ${path}`, { title: 'A', lines: [{ name: 'own' }] }, own);
      assert.deepEqual(namesIn(written), ['own']);
      assert.deepEqual(namesIn(await get(Number(created.id))), ['foreign', 'own']);
      await assertRejected(
        invalid(['lines[0].id', `lines[0]: id ${foreign} does not belong to this record`]),
        `PUT ${path}`,
        { lines: [{ id: foreign, name: 'taken' }] },
        own,
      );
      assert.deepEqual(namesIn(await succeed(`PUT ${path}`, { title: 'A', lines: [] }, own)), []);
      assert.deepEqual(namesIn(await get(Number(created.id))), ['foreign']);

      const small = await limitedKey(instance(), acme, [
        'quotes:*',
        'quote_lines:read',
        'quote_lines:*:small',
      ]);
      const outside = (index: number, action: string) => {
        const text = `lines[${index}]: The record would be outside the scope in which your profile grants ${action} on quote_lines. Writing this record requires the grant quote_lines:${action}.`;
        return {
          status: 403,
          error: text,
          code: 'outside_scope',
          fields: [{ field: `lines[${index}]`, message: text }],
          grant: `quote_lines:${action}`,
        };
      };
      await assertRejected(
        outside(1, 'create'),
        'POST quotes',
        { lines: [{ name: 'a' }, { name: 'b', position: 100 }] },
        small,
      );
      const both = await succeed('POST quotes', { lines: [{ name: 'a' }, { name: 'b', position: 100 }] });
      const [a, b] = idsIn(both);
      await assertRejected(
        outside(1, 'update'),
        `PATCH quotes/${both.id}`,
        { lines: [{ name: 'new' }, { id: a, position: 200 }] },
        await limitedKey(instance(), acme, ['quotes:*', 'quote_lines:*:small']),
      );
      // The caller can read the other line, but neither update nor delete it.
      const forbidden = (action: string, location: string) => {
        const text = `${location === '' ? '' : `${location}: `}Your profile does not grant ${action} on quote_lines. An administrator can add the grant quote_lines:${action}.`;
        return {
          status: 403,
          error: text,
          code: 'forbidden',
          ...(location !== '' && { fields: [{ field: location, message: text }] }),
          grant: `quote_lines:${action}`,
        };
      };
      await assertRejected(
        forbidden('update', 'lines[0]'),
        `PATCH quotes/${both.id}`,
        { lines: [{ id: b, name: 'x' }] },
        small,
      );
      await assertRejected(
        forbidden('delete', ''),
        `PATCH quotes/${both.id}`,
        { lines: [{ id: a, name: 'x' }] },
        small,
      );
    });

    test('a caller can create children of a new record that it cannot read', async () => {
      const owner = await limitedPerson(instance(), acme, [
        ...['quotes:create', 'quotes:read:own', 'products:*'],
        ...['quote_lines:create', 'quote_lines:read'],
      ]);
      const own = { key: owner.key };
      const created = await succeed('POST quotes', { owner_id: null, lines: [{ name: 'a' }] }, own);
      assert.deepEqual(namesIn(created), ['a']);
      assert.equal((await send(`GET quotes/${created.id}`, undefined, own)).status, 404);
      assert.deepEqual(namesIn(await get(Number(created.id))), ['a']);
      // Other references are checked.
      await assertRejected(
        {
          status: 400,
          error: 'lines[0]: product_id 999999 does not exist in products',
          code: 'missing_reference',
          fields: [
            {
              field: 'lines[0].product_id',
              message: 'lines[0]: product_id 999999 does not exist in products',
            },
          ],
        },
        'POST quotes',
        { owner_id: null, lines: [{ product_id: 999_999 }] },
        own,
      );
      const answer = await send('POST quote_lines', { quote_id: created.id }, own);
      assert.deepEqual([answer.status, answer.json.code], [400, 'missing_reference']);
    });

    test('hidden fields of children are absent, ignored and kept', async () => {
      const limited = await limitedKey(instance(), acme, ['quotes:*', 'quote_lines:*']);
      const key = { key: limited.key };
      const created = await succeed('POST quotes', { title: 'A', lines: [{ name: 'a', margin: 5 }] });
      const [id] = idsIn(created);
      const written = await succeed(
        `PUT quotes/${created.id}`,
        {
          title: 'A',
          lines: [
            { id, name: 'b', margin: 9 },
            { name: 'c', margin: 9 },
          ],
        },
        key,
      );
      assert.ok(listIn(written).data.every((line) => !('margin' in line)));
      assert.deepEqual(
        listIn(await get(Number(created.id))).data.map(({ name, margin }) => [name, margin]),
        [
          ['b', 5],
          ['c', null],
        ],
      );
    });

    test('an owner that the body does not contain is kept', async () => {
      const created = await succeed('POST quotes', { title: 'A', lines: [{ name: 'a', owner_id: null }] });
      const [id] = idsIn(created);
      const [line] = listIn(await succeed(`PATCH quotes/${created.id}`, { lines: [{ id, name: 'b' }] })).data;
      assert.deepEqual([line?.name, line?.owner_id], ['b', null]);
      // Null removes an owner.
      for (const [values, owner] of [
        [{ owner_id: Number(acme.user) }, Number(acme.user)],
        [{}, Number(acme.user)],
        [{ owner_id: null }, null],
      ] as const) {
        const changed = await succeed(`PATCH quotes/${created.id}`, { lines: [{ id, ...values }] });
        assert.equal(listIn(changed).data[0]?.owner_id, owner, JSON.stringify(values));
      }
    });

    test('a list of references that the body does not contain is kept, and an empty one is cleared', async () => {
      const seen = Number((await succeed('POST letters', {})).id);
      const created = await succeed('POST letters', { stamps: [{ name: 'a', seen_ids: [seen] }] });
      const [{ id } = {}] = listIn(created, 'stamps').data;
      for (const [values, expected] of [
        [{}, [seen]],
        [{ seen_ids: null }, [seen]],
        [{ seen_ids: [] }, []],
      ] as const) {
        const changed = await succeed(`PATCH letters/${created.id}`, { stamps: [{ id, ...values }] });
        const [stamp] = listIn(changed, 'stamps').data;
        assert.deepEqual([stamp?.name, stamp?.seen_ids], ['', expected]);
      }
    });

    test('concurrent replacements do not interleave', async () => {
      const id = await create({ title: 'A', lines: [{ name: 'old' }] });
      const sets = Array.from({ length: 6 }, (_, set) =>
        Array.from({ length: 3 }, (_, line) => ({ name: `${set} ${line}`, position: line })),
      );
      const answers = await Promise.all(
        sets.map((lines, set) =>
          send(`${set % 2 === 0 ? 'PUT' : 'PATCH'} quotes/${id}`, { title: 'A', lines }),
        ),
      );
      for (const answer of answers) assert.equal(answer.status, 200, answer.text);
      const names = namesIn(await get(id));
      assert.ok(
        sets.some((lines) => lines.every(({ name }, index) => names[index] === name)),
        JSON.stringify(names),
      );
      assert.equal(names.length, 3);
      // Writes of single children do not wait forever for the record, and the record does not wait for them.
      const mixed = await Promise.all([
        send(`PATCH quotes/${id}`, { lines: [{ name: 'x' }] }),
        send('POST quote_lines', { quote_id: id, name: 'y' }),
        send(`PATCH quotes/${id}`, { lines: [{ name: 'z' }] }),
      ]);
      for (const answer of mixed) assert.ok(answer.status < 300, answer.text);
    });

    test('up to 1,000 children are written, and at most 1,000 others are deleted', async () => {
      const lines = Array.from({ length: 1000 }, (_, position) => ({ name: `n${position}`, position }));
      const created = await succeed('POST quotes', { title: 'Large', lines });
      assert.equal(listIn(created).data.length, 1000);
      assert.deepEqual(namesIn(created).slice(0, 2), ['n0', 'n1']);
      const read = listIn(await get(Number(created.id)));
      assert.deepEqual([read.data.length, read.has_more], [20, true]);
      const path = `quotes/${created.id}`;
      const add = async () => {
        const text = `insert into quote_lines (organization_id, quote_id, name, position, created_at, updated_at)
          values (${acme.id}, ${created.id}, 'more', 5000, now(), now()) returning id::text`;
        return Number((await run(text))[0]?.[0]);
      };
      await add();
      const message =
        'lines does not contain more than 1000 of the existing records, which would be deleted. Delete them in batches first.';
      await assertRejected(invalid(['lines', message]), `PATCH ${path}`, { lines: [] });
      const kept = listIn(created)
        .data.slice(0, 1)
        .map(({ id, name }) => ({ id, name }));
      // The first and the last of 1,002 lines are kept.
      kept.push({ id: await add(), name: 'last' });
      assert.deepEqual(namesIn(await succeed(`PATCH ${path}`, { lines: kept })), ['n0', 'last']);
    });

    test('a body that can contain children can be as large as a batch', async () => {
      const body = { padding: 'x'.repeat(1_500_000), lines: [{ name: 'a' }] };
      assert.equal((await send('POST quotes', body)).status, 201);
      assert.equal((await send('POST products', body)).status, 413);
    });

    test("the operator's constraints are reported for the child that violates them", async () => {
      await run(`alter table quote_lines add constraint quote_lines_lucky check (name <> 'unlucky')`);
      const { status, json } = await send('POST quotes', {
        lines: [{ name: 'a' }, { name: 'unlucky' }, { name: 'c' }],
      });
      assert.deepEqual(
        [status, json.code, json.constraint, (json.fields as readonly Row[]).map(({ field }) => field)],
        [400, 'rejected_by_database', 'quote_lines_lucky', ['lines[1]']],
      );
      await run('alter table quote_lines drop constraint quote_lines_lucky');
    });

    test('quotas count children', async () => {
      const small = await instance().organization('small');
      const options = { key: small.key };
      await file.apply(instance(), { quotas: { organizations: { small: { records: 4 } } } });
      const { status, json } = await send('POST quotes', { lines: [{}, {}, {}, {}] }, options);
      assert.deepEqual([status, json.code], [403, 'quota_exceeded']);
      const id = await create({ lines: [{}, {}] }, options);
      // The new lines replace the deleted ones.
      await succeed(`PATCH quotes/${id}`, { lines: [{}, {}] }, options);
      await succeed(`PATCH quotes/${id}`, { lines: [{}, {}, {}] }, options);
      assert.equal((await send(`PATCH quotes/${id}`, { lines: [{}, {}, {}, {}] }, options)).status, 403);
      const [line] = idsIn(await get(id, options));
      assert.equal(
        (await send(`PATCH quotes/${id}`, { lines: [{ id: line }, {}, {}, {}] }, options)).status,
        403,
      );
      await file.apply(instance(), {});
    });

    test('the client converts the numbers of children', async () => {
      type Line = { readonly id: bigint; readonly name: string; readonly amount: string | null };
      interface Quotes extends ResourceTypes {
        readonly record: { readonly id: bigint; readonly title: string };
        readonly input: {
          readonly title?: string;
          readonly lines?: readonly {
            readonly id?: bigint;
            readonly name?: string;
            readonly amount?: string;
          }[];
        };
        readonly written: { readonly lines: { readonly data: readonly Line[] } };
      }
      const none = { references: {}, lists: {}, users: [] };
      const client = clientOf<{ quotes: Quotes; quote_lines: ResourceTypes }>(
        {
          quotes: { ...none, numbers: { id: 'int64' }, lists: { lines: 'quote_lines' } },
          quote_lines: { ...none, numbers: { id: 'int64', quote_id: 'int64', amount: 'decimal' } },
        },
        { url: instance().url, key: acme.key },
      );
      const created = await client.quotes.create({ title: 'A', lines: [{ name: 'a', amount: '0.1' }] });
      const [line] = created.expanded?.lines?.data ?? [];
      assert.deepEqual([typeof line?.id, line?.amount], ['bigint', '0.1']);
      const lines = [{ id: line?.id ?? 0n, name: 'b', amount: '12345678901234567890.5' }];
      const replaced = await client.quotes.replace(created.id, { title: 'B', lines });
      assert.equal(replaced.expanded?.lines?.data[0]?.amount, '12345678901234567890.5');
    });

    test('record pages show the list under its name, and forms keep it', async () => {
      const id = await create({ title: 'Shown', lines: [{ name: 'listed line' }] });
      const browser = await signIn(instance(), administratorOf(acme));
      const page = readable((await browser.get(`/setup/o/acme/data/quotes/${id}`)).text);
      assert.match(page, /Lines.*listed line/s);
    });

    test('an index provides the order of a named list', () => {
      const definitions = checkSources(sources);
      const lines = definitions.find(({ name }) => name === 'quote_lines') ?? assert.fail();
      assert.deepEqual(
        indexes(lines).find(({ name }) => name === 'quote_lines_quote_id_position_index')?.keys,
        ['"organization_id"', '"quote_id"', '"position"', '"id"'],
      );
    });
  },
  { sources, environment: { ...file.environment } },
);
