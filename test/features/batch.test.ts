// Many records in one request: which records are written, what is reported for each record, and when nothing
// is written.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { cpuWithServer } from '../support/clock.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { activityOf } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { numberText, rowHashes, walk } from '../support/reading.ts';
import { missing } from '../support/records.ts';
import { assertErrorShape, errorOf } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';
import { people } from '../support/unique-people.ts';

/** Records that are written together with their children. */
const clubs = [
  {
    file: 'clubs.yaml',
    text: `
singular: club
common: all
fields:
  name: { type: string }
children: { guests: { of: guests, by: club_id, writable: true } }
`,
  },
  {
    file: 'guests.yaml',
    text: `
singular: guest
common: all
fields:
  code: { type: string, unique: true }
  club_id: { type: reference, to: clubs, nullable: true }
  account_id: { type: reference, to: accounts, nullable: true }
filters: [club_id]
`,
  },
];
const path = '/api/v1/people';
const batch = `${path}/batch`;
interface Result {
  readonly status: number;
  readonly id?: number;
  readonly code?: string;
  readonly error?: string;
  readonly fields?: readonly { readonly field: string; readonly message: string }[];
  readonly existing_id?: number;
}

onBothDrivers(
  'Batches',
  (instance, driver) => {
    let alpha: Organization;
    let key: string;
    /** IDs in another organization. */
    let foreign: { readonly account: number; readonly person: number };
    before(async () => {
      alpha = await instance().organization('alpha');
      ({ key } = alpha);
      const beta = await instance().organization('beta');
      const post = async (name: string, body: object) =>
        Number((await instance().call(`POST /api/v1/${name}`, { key: beta.key, body })).json.id);
      foreign = {
        account: await post('accounts', { name: 'Foreign' }),
        person: await post('people', { email: 'foreign@example.com', name: 'Foreign' }),
      };
    });
    const send = (request: string, body: unknown, headers = {}, as = key) =>
      instance().call(request, { key: as, body, headers });
    const all = async () => (await walk(instance(), path, 'sort=id', key)).flat();
    const results = ({ status, text, json }: Answer) => {
      assert.equal(status, 200, text);
      return json.results as readonly Result[];
    };
    const statuses = (answer: Answer) => results(answer).map(({ status }) => status);
    /** Creates records in one batch. @returns their IDs */
    const createAll = async (...records: object[]) =>
      results(await send(`POST ${batch}`, { records })).map(({ id }) => id ?? assert.fail());
    const get = async (id: number | undefined) => (await instance().call(`GET ${path}/${id}`, { key })).json;
    /** Asserts that a request is rejected with these locations and writes nothing. */
    const assertRejected = async (request: string, body: unknown, ...places: string[]) => {
      const before = await rowHashes(instance(), alpha.id);
      const answer = await send(request, body);
      assert.equal(answer.status, 400, answer.text);
      assertErrorShape(answer);
      assert.equal(answer.json.code, 'items_refused');
      const { fields } = answer.json as { fields: { field: string }[] };
      assert.deepEqual(
        fields.map(({ field }) => field),
        places,
      );
      assert.deepEqual(await rowHashes(instance(), alpha.id), before);
      return answer;
    };

    test('creates a thousand records in order', async () => {
      const records = Array.from({ length: 1000 }, (_, index) => ({
        email: `n${index}@example.com`,
        name: index % 2 === 0 ? null : `"\\ ${index} {,} 世界`,
      }));
      const done = results(await send(`POST ${batch}`, { records }));
      const rows = await all();
      assert.deepEqual(
        done,
        rows.map(({ id }) => ({ status: 201, id: Number(numberText(id)) })),
      );
      assert.deepEqual(
        rows.map(({ email, name }) => [email, name]),
        records.map(({ email, name }) => [email, name ?? 'nobody']),
      );
    });

    test('on_error=stop writes nothing and reports every invalid record', async () => {
      const [account] = [(await send('POST /api/v1/accounts', {})).json.id];
      await createAll({ email: 'taken@example.com', account_id: account, since: '2026-01-01' });
      const right = { email: 'right@example.com' };
      const post = (...records: unknown[]) => [`POST ${batch}`, { records: [right, ...records] }] as const;
      await assertRejected(
        ...post({ age: 'x', since: 'y' }, 7),
        'records[1].age',
        'records[1].since',
        'records[2]',
      );
      await assertRejected(...post({}, { account_id: Number(missing) }), 'records[2].account_id');
      await assertRejected(...post({ account_id: foreign.account }), 'records[1].account_id');
      await assertRejected(...post({ email: 'taken@example.com' }), 'records[1].email');
      await assertRejected(
        ...post({ account_id: account, since: '2026-01-01' }),
        'records[1].account_id',
        'records[1].since',
      );
      await assertRejected(...post({ code: 3 }, {}, { code: 3 }), 'records[1].code', 'records[3].code');
      const id = (await createAll({ email: 'patched@example.com' }))[0];
      const patch = (...records: unknown[]) =>
        [`PATCH ${batch}`, { records: [{ id, age: 5 }, ...records] }] as const;
      await assertRejected(...patch({ id: Number(missing), age: 1 }), 'records[1]');
      await assertRejected(...patch({ id: foreign.person, age: 1 }), 'records[1]');
      await assertRejected(...patch({ age: 1 }, { id: '7' }), 'records[1].id', 'records[2].id');
      await assertRejected(...patch({ id, age: 6 }), 'records[0].id', 'records[1].id');
      await assertRejected(
        `PATCH ${batch}`,
        { records: [{ id, email: 'taken@example.com' }] },
        'records[0].email',
      );
      await assertRejected(
        `DELETE ${batch}`,
        { ids: [id, Number(missing), foreign.person] },
        'ids[1]',
        'ids[2]',
      );
      await assertRejected(`DELETE ${batch}`, { ids: [id, 'x', id] }, 'ids[0]', 'ids[1]', 'ids[2]');
    });

    test('on_error=continue returns one result per record and writes the valid records', async () => {
      const [taken = 0] = await createAll({ email: 'continue@example.com', code: 100 });
      const before = (await all()).length;
      const records = [
        { email: 'first@example.com' },
        { age: 'x' },
        null,
        { email: 'continue@example.com' },
        { code: 100 },
        { account_id: foreign.account },
        { account_id: Number(missing) },
        { email: 'twice@example.com' },
        { email: 'last@example.com' },
        { email: 'twice@example.com' },
      ];
      const done = results(await send(`POST ${batch}`, { records, on_error: 'continue' }));
      assert.deepEqual(
        done.map(({ status, code }) => [status, code]),
        [
          [201, undefined],
          [400, 'invalid_input'],
          [400, 'invalid_input'],
          [409, 'duplicate'],
          [409, 'duplicate'],
          [400, 'missing_reference'],
          [400, 'missing_reference'],
          [400, 'invalid_input'],
          [201, undefined],
          [400, 'invalid_input'],
        ],
      );
      const error = `account_id ${missing} does not exist in accounts`;
      assert.deepEqual(done[6], {
        status: 400,
        error,
        code: 'missing_reference',
        fields: [{ field: 'account_id', message: error }],
      });
      assert.deepEqual(done[3], {
        status: 409,
        error: 'Another record has the same email',
        code: 'duplicate',
        fields: [{ field: 'email', message: 'Another record has the same email' }],
        existing_id: taken,
      });
      const asMissing = JSON.stringify(done[5]).replaceAll(
        `account_id ${foreign.account} `,
        `account_id ${missing} `,
      );
      assert.deepEqual(JSON.parse(asMissing), done[6], 'the error is the same as for a missing record');
      const rows = await all();
      assert.equal(rows.length, before + 2);
      assert.deepEqual(
        rows.slice(-2).map(({ email }) => email),
        ['first@example.com', 'last@example.com'],
      );

      const [a = 0, b = 0] = [done[0]?.id, done[8]?.id];
      const patched = await send(`PATCH ${batch}`, {
        records: [
          { id: a, age: 50 },
          { id: Number(missing), age: 50 },
          { id: foreign.person, age: 50 },
          { id: b, email: 'continue@example.com' },
          { age: 50 },
        ],
        on_error: 'continue',
      });
      assert.deepEqual(statuses(patched), [200, 404, 404, 409, 400]);
      const [, none, other] = results(patched);
      assert.deepEqual(none, other, 'the error is the same as for a missing record');
      assert.deepEqual(none, { status: 404, error: 'Not found', code: 'not_found' });
      assert.deepEqual([(await get(a)).age, (await get(b)).email], [50, 'last@example.com']);
      const deletion = await send(`DELETE ${batch}`, {
        ids: [a, Number(missing), foreign.person, 1.5, b],
        on_error: 'continue',
      });
      assert.deepEqual(statuses(deletion), [200, 404, 404, 400, 200]);
      assert.equal((await all()).length, before);
    });

    test('takes linear time for up to a thousand changes, by ID and by unique fields', async () => {
      const emails = Array.from({ length: 1000 }, (_, index) => ({ email: `many${index}@example.com` }));
      const ids = (await createAll(...emails)).map((id) => ({ id }));
      for (const [request, items, more] of [
        [`PATCH ${batch}`, ids, {}],
        [`POST ${batch}`, emails, { match: ['email'] }],
      ] as const) {
        const cost = (count: number, name: string) =>
          cpuWithServer(instance().database, async () => {
            const records = items.slice(0, count).map((item) => ({ ...item, name }));
            const answer = await send(request, { records, ...more });
            assert.ok(results(answer).every(({ status }) => status === 200));
          });
        let [quarter, whole] = [Infinity, Infinity];
        // Background work only adds time, so the minimum counts.
        for (let round = 0; round < 3 || (whole >= 9 * quarter && round < 10); round++) {
          quarter = Math.min(quarter, await cost(250, `a${round}`));
          whole = Math.min(whole, await cost(1000, `b${round}`));
        }
        assert.ok(whole < 9 * quarter, `${request}: ${whole} ms, a quarter of the records ${quarter} ms`);
      }
    });

    // The embedded database runs one transaction at a time.
    const whereSeveralConnect = driver === 'embedded' ? () => {} : test;
    whereSeveralConnect('writes that PostgreSQL rolls back because of a deadlock are repeated', async () => {
      const url = String(instance().config.environment.DATABASE_URL);
      const post = async (resource: string, records: readonly object[]) =>
        results(await send(`POST /api/v1/${resource}/batch`, { records })).map(({ id }) => id);
      const emails = ['first', 'middle', 'last'].map((name) => `${name}@deadlock.example`);
      const leads = await post(
        'leads',
        emails.map((email) => ({ email })),
      );
      const accounts = await post('accounts', [{}, {}, {}]);
      const bulk = `PATCH /api/v1/leads?${emails.map((email) => `email[in]=${email}`).join('&')}`;
      const preference = { prefer: 'bulk' };
      const { confirm } = (await send(bulk, { lead_score: 3 }, preference)).json;
      const waiting = async (count: number) => {
        const text = `select count(*)::text from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
        await until(
          async () =>
            (await instance().database.run({ name: '', text, values: [] }))[0]?.[0] === String(count),
          `${count} to wait`,
        );
      };
      for (const [table, ids, write] of [
        // A single statement.
        [
          'leads',
          leads,
          () => send('PATCH /api/v1/leads/batch', { records: leads.map((id) => ({ id, company: 'x' })) }),
        ],
        // A transaction that locks records.
        ['leads', leads, () => send(`${bulk}&confirm=${confirm}`, { lead_score: 3 }, preference)],
        // A transaction of operations.
        [
          'accounts',
          accounts,
          () => send('POST /api/v1/clubs', { guests: accounts.map((account_id) => ({ account_id })) }),
        ],
      ] as const)
        await connected(url, (outer) =>
          connected(url, async (inner) => {
            const [first, middle, last] = ids;
            const lock = (client: typeof outer, id?: number) =>
              client.query(`select from ${table} where id = $1 for update`, [id]);
            // The write locks the records in this order. Only its transaction detects the deadlock.
            for (const client of [outer, inner]) {
              await client.query(`set deadlock_timeout = '1h'`);
              await client.query('begin');
            }
            await lock(outer, middle);
            await lock(inner, last);
            const written = write();
            await waiting(1);
            const innermost = lock(inner, first);
            await waiting(2);
            await outer.query('commit');
            await innermost;
            await inner.query('commit');
            const { status, text } = await written;
            assert.ok(status < 300, text);
          }),
        );
      const count = async (request: string) =>
        ((await instance().call(`GET /api/v1/${request}`, { key })).json.data as readonly unknown[]).length;
      assert.deepEqual(
        [await count('leads?company[in]=x&lead_score[gte]=3'), await count('clubs'), await count('guests')],
        [3, 1, 3],
      );
    });

    test('IDs that JavaScript would round are exact in every request and response', async () => {
      for (const table of ['clubs', 'guests'])
        await instance().database.run({
          ...{ name: '', values: [] },
          text: `alter table ${table} alter id set increment by 2 restart with ${2n ** 53n + 1n}`,
        });
      const idsIn = ({ text }: Answer) => [...text.matchAll(/"id":(\d+)/g)].map(([, id = '']) => id);
      const ok = async (request: string, body?: string, headers = {}) => {
        const answer = await send(request.replace(' /', ' /api/v1/'), body, headers);
        assert.ok(answer.status < 300, `${request}: ${answer.text}`);
        return answer;
      };
      const clubOf = async (guest: string) =>
        /"club_id":(\d+)/.exec((await ok(`GET /guests/${guest}`)).text)?.[1];
      const created = await ok('POST /clubs', '{"guests":[{"code":"a"},{"code":"b"}]}');
      const [club = '', a = '', b = ''] = idsIn(created);
      assert.equal(created.headers.get('location'), `/api/v1/clubs/${club}`);
      assert.deepEqual(
        [club, a, b].map(BigInt),
        [1n, 1n, 3n].map((index) => 2n ** 53n + index),
      );
      const replaced = await ok(`PATCH /clubs/${club}`, `{"guests":[{"id":${a},"code":"a2"}]}`);
      assert.deepEqual(idsIn(replaced), [club, a]);
      assert.equal((await send(`GET /api/v1/guests/${b}`, undefined)).status, 404);
      const batched = await ok('POST /guests/batch', `{"records":[{"club_id":${club},"code":"c"}]}`);
      const [c = ''] = idsIn(batched);
      assert.equal(await clubOf(c), club);
      const upserted = await ok(
        'POST /guests/batch',
        `{"match":["code"],"records":[{"club_id":${club},"code":"c"}]}`,
      );
      assert.deepEqual(idsIn(upserted), [c]);
      const duplicate = await send('POST /api/v1/guests', '{"code":"c"}');
      assert.ok(duplicate.text.includes(`"existing_id":${c}`), duplicate.text);
      const missingClub = await send('POST /api/v1/guests', `{"club_id":${2n ** 60n + 1n}}`);
      assert.equal(missingClub.json.error, `club_id ${2n ** 60n + 1n} does not exist in clubs`);
      const once = { 'idempotency-key': 'exact' };
      const [d = ''] = idsIn(await ok('POST /guests', `{"club_id":${club},"code":"d"}`, once));
      const repeated = await ok('POST /guests', `{"club_id":${club},"code":"d"}`, once);
      assert.deepEqual([idsIn(repeated), repeated.headers.get('location')], [[d], `/api/v1/guests/${d}`]);
      await ok('POST /guests/import', `code,club_id\ne,${club}\n`, { 'content-type': 'text/csv' });
      assert.equal(idsIn(await ok(`GET /guests?club_id=${club}`)).length, 4);
      const [other = ''] = idsIn(await ok('POST /clubs', '{}'));
      assert.deepEqual(
        idsIn(await ok('PATCH /guests/batch', `{"records":[{"id":${a},"club_id":${other}}]}`)),
        [a],
      );
      await ok(`POST /clubs/${club}/merge`, `{"from":${other}}`);
      assert.equal(await clubOf(a), club);
      await ok(`POST /clubs/${club}/unmerge`, `{"from":${other}}`);
      assert.equal(await clubOf(a), other);
      const preference = { prefer: 'bulk' };
      const bulk = `PATCH /guests?club_id=${club}`;
      const { confirm } = (await ok(bulk, `{"club_id":${other}}`, preference)).json;
      await ok(`${bulk}&confirm=${confirm}`, `{"club_id":${other}}`, preference);
      assert.equal(await clubOf(c), other);
      assert.deepEqual(idsIn(await ok('DELETE /guests/batch', `{"ids":[${a},${c}]}`)), [a, c]);
    });

    test('reports batches in which every record is invalid or missing', async () => {
      const invalid = await send(`POST ${batch}`, { records: [1, { age: 'x' }], on_error: 'continue' });
      assert.deepEqual(statuses(invalid), [400, 400]);
      const deletion = await send(`DELETE ${batch}`, { ids: [Number(missing)], on_error: 'continue' });
      assert.deepEqual(statuses(deletion), [404]);
      // A number that JavaScript would round is not an object either.
      const number = await send(`POST ${batch}`, '{"records":[12345678901234567890],"on_error":"continue"}');
      assert.deepEqual(statuses(number), [400]);
    });

    test('PATCH changes only the fields in the body, and null sets the default', async () => {
      const [a, b] = await createAll({ name: 'a', age: 7, code: 201 }, { name: 'b', age: 8, code: 202 });
      const records = [
        { id: b, age: null, code: '9'.length },
        { id: a, name: 'changed', created_at: 'ignored' },
      ];
      assert.deepEqual(results(await send(`PATCH ${batch}`, { records })), [
        { status: 200, id: b },
        { status: 200, id: a },
      ]);
      const valuesOf = async (id: number | undefined) => {
        const { name, age, code } = await get(id);
        return [name, age, code];
      };
      assert.deepEqual(
        [await valuesOf(a), await valuesOf(b)],
        [
          ['changed', 7, 201],
          ['b', 1, 1],
        ],
      );
    });

    test('match updates existing records like PATCH and creates the others', async () => {
      const [existing] = await createAll({ email: 'known@example.com', name: 'kept', age: 9 });
      const account = (await send('POST /api/v1/accounts', {})).json.id;
      const records = [
        { email: 'new@example.com', age: 3 },
        { email: 'known@example.com', age: null, account_id: account },
        { email: 'KNOWN@example.com' },
        { email: 'foreign@example.com' },
      ];
      const done = results(await send(`POST ${batch}`, { records, match: ['email'] }));
      assert.deepEqual(
        done.map(({ status }) => status),
        [201, 200, 201, 201],
      );
      assert.equal(done[1]?.id, existing);
      const { name, age, account_id } = await get(existing);
      assert.deepEqual([name, age, account_id], ['kept', 1, account]);
      const again = results(await send(`POST ${batch}`, { records, match: ['email'] }));
      assert.deepEqual(
        again.map(({ status, id }) => [status, id]),
        done.map(({ id }) => [200, id]),
      );

      const since = '2020-02-02';
      const together = {
        match: ['since', 'account_id'],
        records: [{ account_id: account, since, name: 'both' }],
      };
      assert.deepEqual(statuses(await send(`POST ${batch}`, together)), [201]);
      assert.deepEqual(statuses(await send(`POST ${batch}`, together)), [200]);
      const others = {
        match: ['email'],
        records: [{ email: 'other@example.com', account_id: account, since }],
      };
      const other = await send(`POST ${batch}`, { ...others, on_error: 'continue' });
      assert.deepEqual(statuses(other), [409], 'another unique field has a duplicate');
    });

    test('match requires values, one record per value, and both grants', async () => {
      const match = ['email'];
      await assertRejected(
        `POST ${batch}`,
        { match, records: [{}, { email: '' }, { email: null }] },
        'records[0].email',
        'records[1].email',
        'records[2].email',
      );
      const twice = [
        { email: 'one@example.com' },
        { email: 'two@example.com' },
        { email: 'one@example.com' },
      ];
      await assertRejected(
        `POST ${batch}`,
        { match, records: twice },
        'records[0].email',
        'records[2].email',
      );
      assert.deepEqual(
        statuses(await send(`POST ${batch}`, { match, records: twice, on_error: 'continue' })),
        [400, 201, 400],
      );
      for (const wrong of [['name'], ['email', 'code'], ['since'], [], 'email', [7], null]) {
        const { status, json } = await send(`POST ${batch}`, { match: wrong, records: [{ email: 'x' }] });
        assert.deepEqual([status, json.code], [400, 'invalid_input'], JSON.stringify(wrong));
      }
      const none = await send('POST /api/v1/accounts/batch', { match: ['name'], records: [{ name: 'x' }] });
      assert.deepEqual(
        [none.status, none.json.error],
        [400, 'match cannot be used, because no field is unique'],
      );
      const creator = await alpha.keyWith([{ object: 'people', actions: ['create'] }]);
      const both = await alpha.keyWith([{ object: 'people', actions: ['create', 'update'] }]);
      const body = { match, records: [{ email: 'granted@example.com' }] };
      assert.deepEqual((await send(`POST ${batch}`, body, {}, creator)).status, 403);
      assert.deepEqual(statuses(await send(`POST ${batch}`, body, {}, both)), [201]);
      assert.deepEqual(statuses(await send(`POST ${batch}`, { records: [{}] }, {}, creator)), [201]);
      const unread = results(
        await send(
          `POST ${batch}`,
          { records: [{ email: 'granted@example.com' }], on_error: 'continue' },
          {},
          both,
        ),
      );
      assert.deepEqual([unread[0]?.status, unread[0]?.existing_id], [409, undefined]);
    });

    test('requires the create, update or delete grant', async () => {
      for (const [request, action, body] of [
        [`POST ${batch}`, 'create', { records: [{}] }],
        [`PATCH ${batch}`, 'update', { records: [{ id: 1 }], on_error: 'continue' }],
        [`DELETE ${batch}`, 'delete', { ids: [1], on_error: 'continue' }],
      ] as const) {
        const rest = (['list', 'read', 'create', 'update', 'delete'] as const).filter(
          (each) => each !== action,
        );
        const without = await alpha.keyWith([{ object: 'people', actions: rest }]);
        const only = await alpha.keyWith([{ object: 'people', actions: [action] }]);
        assert.equal((await send(request, body, {}, without)).status, 403);
        assert.equal((await send(request, body, {}, only)).status, 200);
        assert.equal((await send(request, body, {}, 'crm_wrong')).status, 401);
      }
    });

    test('records each created, updated and deleted record in the activity', async () => {
      const [existing] = await createAll({ email: 'active@example.com' });
      const from = (await activityOf(instance(), alpha.id)).length;
      const records = [{ email: 'active@example.com' }, { email: 'active2@example.com' }];
      const [, added] = results(await send(`POST ${batch}`, { records, match: ['email'] }));
      await send(`PATCH ${batch}`, {
        records: [
          { id: existing, age: 2 },
          { id: added?.id, age: 3 },
        ],
      });
      await send(`DELETE ${batch}`, { ids: [existing, added?.id] });
      const entries = (await activityOf(instance(), alpha.id)).slice(from);
      const actions = entries.map((each) => each.did).sort();
      const expected = ['update', 'update', 'delete'].map((action) => `${action} people ${existing}`);
      const other = ['create', 'update', 'delete'].map((action) => `${action} people ${added?.id}`);
      assert.deepEqual(actions, [...expected, ...other].sort());
    });

    test('Idempotency-Key: a repeated request returns the same results and writes nothing', async () => {
      const body = { records: [{ name: 'once' }, { age: 'x' }], on_error: 'continue' };
      const once = { 'idempotency-key': 'batch-1' };
      const first = await send(`POST ${batch}`, body, once);
      assert.deepEqual(statuses(first), [201, 400]);
      assert.deepEqual([first.headers.get('idempotency-replayed'), first.headers.get('etag')], [null, null]);
      const again = await send(`POST ${batch}`, body, once);
      assert.deepEqual([again.text, again.headers.get('idempotency-replayed')], [first.text, 'true']);
      assert.equal(again.headers.get('etag'), null);
      assert.equal((await all()).filter(({ name }) => name === 'once').length, 1);
      assert.equal((await send(`POST ${batch}`, { records: [{}] }, once)).status, 422);
      assert.equal((await send(`POST ${path}`, body, once)).status, 201, 'another path');
      const match = { records: [{ email: 'once@example.com' }], match: ['email'] };
      const upsert = { 'idempotency-key': 'batch-2' };
      assert.deepEqual(statuses(await send(`POST ${batch}`, match, upsert)), [201]);
      assert.deepEqual(statuses(await send(`POST ${batch}`, match, upsert)), [201]);
      assert.deepEqual(statuses(await send(`POST ${batch}`, match)), [200]);
    });

    test('rejects an invalid body', async () => {
      const many = Array.from({ length: 1001 }, () => ({}));
      for (const [request, body] of [
        [`POST ${batch}`, {}],
        [`POST ${batch}`, []],
        [`POST ${batch}`, { records: {} }],
        [`POST ${batch}`, { records: [] }],
        [`POST ${batch}`, { records: many }],
        [`POST ${batch}`, { records: [{}], on_error: 'ignore' }],
        [`PATCH ${batch}`, { ids: [1] }],
        [`DELETE ${batch}`, { records: [1] }],
        [`DELETE ${batch}`, { ids: many.map((_, index) => index) }],
      ] as const) {
        const answer = await send(request, body);
        assert.equal(answer.status, 400, JSON.stringify(body).slice(0, 60));
        assertErrorShape(answer);
      }
      const strict = { prefer: 'handling=strict' };
      assert.equal((await send(`POST ${batch}`, { records: [{}], matsch: [] }, strict)).status, 400);
      assert.equal((await send(`POST ${batch}?x=1`, { records: [{}] }, strict)).status, 400);
      const unknown = errorOf(await send(`POST ${batch}`, { records: [{ nmae: 'x', id: 1 }] }, strict));
      assert.deepEqual(
        (unknown.fields as { field: string }[]).map(({ field }) => field),
        ['records[0].nmae', 'records[0].id'],
      );
      const [id] = await createAll({});
      assert.deepEqual(statuses(await send(`PATCH ${batch}`, { records: [{ id, age: 3 }] }, strict)), [200]);
      const matched = { records: [{ id, age: 3 }], match: ['email'] };
      assert.deepEqual(statuses(await send(`PATCH ${batch}`, matched)), [200]);
      assert.deepEqual(
        (errorOf(await send(`PATCH ${batch}`, matched, strict)).fields as { field: string }[]).map(
          ({ field }) => field,
        ),
        ['match'],
      );
      for (const name of ['if-match', 'if-none-match']) {
        const answer = await send(`PATCH ${batch}`, { records: [{ id, age: 4 }] }, { [name]: '*' });
        assert.deepEqual([answer.status, answer.json.code], [400, 'invalid_header']);
      }
    });

    test('GET on the batch path returns 404, and other methods return 405', async () => {
      for (const [request, status] of [
        [`GET ${batch}`, 404],
        [`HEAD ${batch}`, 404],
        [`PUT ${batch}`, 405],
        [`PROPFIND ${batch}`, 405],
      ] as const) {
        const answer = await instance().call(request, { key });
        assert.equal(answer.status, status, request);
        if (status === 405) assert.equal(answer.headers.get('allow'), 'POST, PATCH, DELETE, OPTIONS');
      }
      const options = await instance().call(`OPTIONS ${batch}`);
      assert.deepEqual([options.status, options.headers.get('allow')], [204, 'POST, PATCH, DELETE, OPTIONS']);
    });

    test('accepts 8 MiB and rejects larger bodies', async () => {
      const records = (bytes: number) => {
        const text = 'x'.repeat(Math.floor((bytes - 30) / 8) - 12);
        return { records: Array.from({ length: 8 }, () => ({ name: text })) };
      };
      assert.equal((await send(`POST ${batch}`, records(8 * 1024 * 1024))).status, 200);
      assert.equal((await send(`POST ${batch}`, records(8 * 1024 * 1024 + 2000))).status, 413);
    });
  },
  { sources: await sourcesWith(people, ...clubs) },
);
