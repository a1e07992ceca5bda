// Custom fields: definitions of one organization, their values in records, filters, the change log and isolation.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { changeCustomField, setDeleted } from '../../plugins/tenants/custom-fields/custom-fields.ts';
import { purgeFields, purgeValues } from '../../plugins/tenants/custom-fields/retention.ts';
import { exportOrganization } from '../../plugins/tenants/organizations/export.ts';
import { deleteOrganization } from '../../plugins/tenants/organizations/remove.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, problemOf, readable, signIn } from '../support/forms.ts';
import { assertGerman, namesIn } from '../support/german.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { activityOf, command } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { sourcesWith } from '../support/sources.ts';
import { untilWaiting } from '../support/uncommitted.ts';

const field = 'description: A field.';
const sources = await sourcesWith(
  {
    file: 'shops.yaml',
    text: `
singular: shop
description: A shop.
common: all
custom_fields: true
trash: 30 days
fields:
  name: { type: string, unique: true, ${field} }
  size: { type: integer, default: 1, ${field} }
scopes: { small: size < 10 }
sort: { by: id }
filters: [name]
children: { shelves: { of: shelves, by: shop_id, writable: true } }
`,
  },
  {
    file: 'shelves.yaml',
    text: `
singular: shelf
description: A shelf.
common: all
custom_fields: true
fields:
  shop_id: { type: reference, to: shops, nullable: true, ${field} }
  label: { type: string, default: "", ${field} }
sort: { by: id }
filters: [shop_id]
`,
  },
);

type Json = Record<string, unknown>;

onBothDrivers(
  'Custom fields',
  (instance, driver) => {
    let alpha: Organization;
    let beta: Organization;
    const call = (request: string, { body, key = alpha.key, headers }: Call = {}) => {
      const [method, path] = request.split(' ');
      return instance().call(`${method} ${path?.startsWith('/fields') ? '' : '/api/v1'}${path}`, {
        key,
        ...(body !== undefined && { body }),
        ...(headers && { headers }),
      });
    };
    const succeeds = async (request: string, options: Call = {}) => {
      const answer = await call(request, options);
      assert.ok([200, 201].includes(answer.status), `${request}: ${answer.text}`);
      return answer.json;
    };
    const fails = async (status: number, request: string, options: Call = {}) => {
      const answer = await call(request, options);
      assert.equal(answer.status, status, `${request}: ${answer.text}`);
      return String(answer.json.error);
    };
    const define = (name: string, options: Json, path = '/fields/shops') =>
      succeeds(`POST ${path}`, { body: { name, ...options } });
    const namesOf = async (query: string, key = alpha.key) => {
      const { data } = await succeeds(`GET /shops?${query}`, { key });
      return (data as { name: string }[]).map(({ name }) => name);
    };
    const customOf = async (id: unknown, path = '/shops') => (await succeeds(`GET ${path}/${id}`)).custom;

    before(async () => {
      alpha = await instance().organization('alpha');
      beta = await instance().organization('beta');
      await define('score', { type: 'integer', min: 0, max: 100, label: 'Score' });
      await define('note', { type: 'text' });
      await define('kind', { type: 'string', enum: ['new', 'old'], closed: true });
      await define('price', { type: 'number' });
      await define('open', { type: 'boolean' });
      await define('since', { type: 'date' });
      await define('visited', { type: 'timestamp' });
      await define('width', { type: 'integer' }, '/fields/shelves');
    });

    test('the API description contains everything that it refers to, and the explorer shows it', async () => {
      const { json, text } = await instance().call('GET /docs/openapi.json');
      for (const [, reference = ''] of text.matchAll(/"\$ref":"#\/([^"]+)"/g)) {
        const found = reference
          .split('/')
          .reduce<unknown>((part, key) => (part as Json | undefined)?.[key], json);
        assert.ok(found, reference);
      }
      assert.equal((await instance().call('GET /docs/')).status, 200);
    });

    test('a filter without the prefix is rejected with the name of the filter', async () => {
      const headers = { prefer: 'handling=strict' };
      assert.equal(
        await fails(400, 'GET /shops?score=5', { headers }),
        'score is not a parameter of this operation. Did you mean "custom.score"?',
      );
      await succeeds('GET /shops?custom.score=5&custom.score[gte]=5', { headers });
    });

    test('definitions are listed, changed and checked like fields in YAML', async () => {
      const { data } = await succeeds('GET /fields/shops');
      assert.deepEqual(
        (data as Json[]).map(({ name }) => name),
        ['score', 'note', 'kind', 'price', 'open', 'since', 'visited'],
      );
      const [score, note, kind] = data as Json[];
      assert.deepEqual(
        [score?.name, score?.type, score?.min, score?.max, score?.label],
        ['score', 'integer', 0, 100, 'Score'],
      );
      assert.deepEqual([note?.max_length, kind?.max_length], [10_000, 255]);
      const rated = await call('POST /fields/shops', { body: { name: 'rated', type: 'integer', max: 5 } });
      assert.deepEqual([rated.status, rated.headers.get('location')], [201, '/fields/shops/rated']);
      const changed = await succeeds('PATCH /fields/shops/rated', { body: { max: 10, label: 'Rating' } });
      assert.deepEqual([changed.max, changed.label], [10, 'Rating']);
      const reset = await succeeds('PATCH /fields/shops/rated', { body: { max: null } });
      assert.deepEqual([reset.max, reset.label], [undefined, 'Rating']);
      for (const [body, message] of [
        [
          { type: 'string' },
          'name must be a lowercase letter followed by up to 39 letters, digits or underscores',
        ],
        [{ name: 'a' }, 'type is required'],
        [{ name: 'a', type: 'json' }, /^type must be one of string, text, integer/],
        [{ name: 'a', type: 'boolean', min: 1 }, 'a boolean field cannot have "min"'],
        [{ name: 'a', type: 'string', pattern: '(?=x)' }, /is not a valid RE2 regular expression/],
        [{ name: 'a', type: 'integer', min: 3, max: 2 }, '"min" (3) is greater than "max" (2)'],
        [{ name: 'a', type: 'string', closed: true }, '"closed" needs "enum"'],
        [{ name: 'a', type: 'string', unique: true }, /^unique is not a property of custom fields/],
        [{ name: 'constructor', type: 'string' }, /is a reserved name/],
      ] as const) {
        const error = await fails(400, 'POST /fields/shops', { body });
        if (typeof message === 'string') assert.equal(error, message);
        else assert.match(error, message);
      }
      assert.match(
        await fails(409, 'POST /fields/shops', { body: { name: 'score', type: 'text' } }),
        /already exists/,
      );
      assert.match(
        await fails(400, 'PATCH /fields/shops/score', { body: { type: 'text' } }),
        /type cannot be changed/,
      );
      await fails(404, 'GET /fields/leads');
      await fails(404, 'GET /fields/shops/missing');
      await fails(404, 'POST /fields/shops/rated/restore');
      await succeeds('DELETE /fields/shops/rated');
      await fails(404, 'DELETE /fields/shops/rated');
      await fails(404, 'PATCH /fields/shops/rated', { body: { max: 3 } });
      await fails(404, 'GET /fields/shops/rated');
      assert.match(await fails(400, 'GET /fields/shops?deleted=yes'), /deleted must be true or false/);
      const rows = await tablesOf(instance().database)
        .selectFrom('crm_ledger')
        .select(['action', 'actor_kind', 'actor_id', 'actor_name', 'organization_id', 'request_id'])
        .where('object', '=', 'custom field')
        .where('object_id', '=', String(rated.json.id))
        .orderBy('id')
        .execute();
      assert.deepEqual(
        rows.map((row) => [row.action, row.actor_kind, String(row.organization_id)]),
        ['create', 'update', 'update', 'delete'].map((action) => [action, 'key', alpha.id]),
      );
      const { id } = await tablesOf(instance().database)
        .selectFrom('crm_api_keys')
        .select('id')
        .where('organization_id', '=', alpha.id)
        .where('name', '=', 'admin')
        .executeTakeFirstOrThrow();
      assert.ok(rows.every((row) => String(row.actor_id) === String(id) && row.actor_name === 'admin'));
      assert.equal(rows[0]?.request_id, rated.headers.get('x-request-id'));
    });

    test('the properties of a resource have at most 100 KB, and can always become shorter', async () => {
      const { key } = await instance().organization('properties');
      const values = (count: number) =>
        Array.from({ length: count }, (_, index) => String(index).padEnd(100, 'x'));
      const body = (name: string, count: number) => ({ name, type: 'string', enum: values(count) });
      for (let count = 0; count < 9; count++)
        await succeeds('POST /fields/shops', { key, body: body(`field_${count}`, 100) });
      const error = await fails(400, 'POST /fields/shops', { key, body: body('last', 100) });
      assert.equal(
        error,
        'The custom field properties of shops, including deleted fields, would exceed 102400 bytes in total. Shorten help texts or lists of values.',
      );
      await succeeds('POST /fields/shops', { key, body: body('last', 50) });
      await fails(400, 'PATCH /fields/shops/last', { key, body: { enum: values(100) } });
      await succeeds('PATCH /fields/shops/field_0', { key, body: { enum: values(10) } });
      await succeeds('PATCH /fields/shops/last', { key, body: { enum: values(100) } });
      await succeeds('POST /fields/shelves', { key, body: body('other', 100) });
    });

    test('fields above the limit for properties accept small changes', async () => {
      const { id, key } = await instance().organization('larger');
      const options = JSON.stringify({ enum: ['x'.repeat(60_000)] });
      await tablesOf(instance().database)
        .insertInto('crm_custom_fields')
        .values(
          ['first', 'second'].map((name) => ({
            ...{ organization_id: id, resource: 'shops', name, type: 'string', options },
            ...{ field_group: null, created_at: new Date(), deleted_at: null },
          })),
        )
        .execute();
      const change = (body: Json) => ({ key, body });
      await succeeds('PATCH /fields/shops/first', change({ required: true, label: 'x'.repeat(50) }));
      await fails(400, 'PATCH /fields/shops/second', change({ help: 'x'.repeat(100) }));
      await fails(400, 'POST /fields/shops', change({ name: 'third', type: 'string' }));
      await succeeds('PATCH /fields/shops/second', change({ enum: null }));
      await succeeds('POST /fields/shops', change({ name: 'third', type: 'string' }));
    });

    test('a resource has at most 100 custom fields, including deleted ones', async () => {
      const { id, key } = await instance().organization('full');
      await tablesOf(instance().database)
        .insertInto('crm_custom_fields')
        .values(
          Array.from({ length: 99 }, (_, index) => ({
            ...{ organization_id: id, resource: 'shops', name: `f${index}`, type: 'text', options: '{}' },
            ...{ field_group: null, created_at: new Date(), deleted_at: index === 0 ? new Date() : null },
          })),
        )
        .execute();
      const field = (name: string) => ({ key, body: { name, type: 'text' } });
      await succeeds('POST /fields/shops', field('last'));
      const answer = await call('POST /fields/shops', field('one_more'));
      assert.deepEqual([answer.status, answer.json.code], [403, 'quota_exceeded']);
      assert.match(String(answer.json.error), /100/);
      await succeeds('POST /fields/shelves', field('of_another_resource'));
    });

    if (driver === 'postgresql')
      test('the limit includes fields that are created at the same time', async () => {
        const { id, key } = await instance().organization('racing');
        await tablesOf(instance().database)
          .insertInto('crm_custom_fields')
          .values(
            Array.from({ length: 99 }, (_, index) => ({
              ...{ organization_id: id, resource: 'shops', name: `f${index}`, type: 'text', options: '{}' },
              ...{ field_group: null, created_at: new Date(), deleted_at: null },
            })),
          )
          .execute();
        await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
          await client.query(`begin; select from crm_organizations where id = ${id} for no key update;
            insert into crm_custom_fields (organization_id, resource, name, type, options, created_at)
            values (${id}, 'shops', 'last', 'text', '{}', now())`);
          const answer = call('POST /fields/shops', { key, body: { name: 'one_more', type: 'text' } });
          await untilWaiting(client, 'the request to wait for the other field');
          await client.query('commit');
          assert.equal((await answer).status, 403);
        });
      });

    test('records contain a value for every custom field', async () => {
      const created = await succeeds('POST /shops', {
        body: { name: 'A', custom: { score: 5, price: 0.1, open: false, since: '2026-03-01', note: null } },
      });
      const all = {
        score: 5,
        note: null,
        kind: null,
        price: 0.1,
        open: false,
        since: '2026-03-01',
        visited: null,
      };
      assert.deepEqual(created.custom, all);
      assert.deepEqual(await customOf(created.id), all);
      const { data } = await succeeds('GET /shops?name=A');
      assert.deepEqual((data as Json[])[0]?.custom, all);
      const { custom } = await succeeds('POST /shops', { body: { name: 'B' } });
      assert.deepEqual(new Set(Object.values(custom as Json)), new Set([null]));
    });

    test('writes change, keep and clear values', async () => {
      const { id } = await succeeds('POST /shops', {
        body: { name: 'C', custom: { score: 1, note: 'n', open: true } },
      });
      const values = async () =>
        Object.entries((await customOf(id)) as Json).filter(([, value]) => value !== null);
      await succeeds(`PATCH /shops/${id}`, { body: { custom: { score: 2, open: null } } });
      assert.deepEqual(Object.fromEntries(await values()), { score: 2, note: 'n' });
      await succeeds(`PATCH /shops/${id}`, { body: { size: 3 } });
      await succeeds(`PUT /shops/${id}`, { body: { name: 'C' } });
      assert.deepEqual(Object.fromEntries(await values()), { score: 2, note: 'n' });
      await succeeds('PATCH /shops/batch', { body: { records: [{ id, custom: { note: 'm' } }] } });
      await succeeds('POST /shops/batch', {
        body: { match: ['name'], records: [{ name: 'C', custom: { open: false } }] },
      });
      assert.deepEqual(Object.fromEntries(await values()), { score: 2, note: 'm', open: false });
      await succeeds(`PUT /shops/${id}`, { body: { name: 'C', custom: { score: 3 } } });
      assert.deepEqual(Object.fromEntries(await values()), { score: 3 });
      await succeeds(`PUT /shops/${id}`, { body: { name: 'C', custom: {} } });
      assert.deepEqual(await values(), []);
      const big = '{"custom":{"price":12345678901234567890.12345}}';
      await succeeds(`PATCH /shops/${id}`, { body: big });
      assert.match((await call(`GET /shops/${id}`)).text, /12345678901234567890\.12345/);
      await succeeds(`PATCH /shops/${id}`, { body: { custom: null } });
      assert.deepEqual(await values(), []);
    });

    test('invalid values are rejected with their location', async () => {
      for (const [custom, message] of [
        [{ score: 101 }, 'custom.score must be at most 100'],
        [{ score: 1.5 }, /^custom\.score must be an integer/],
        [{ kind: 'other' }, 'custom.kind must be one of new, old'],
        [{ since: '2026-02-30' }, /^custom\.since must be a date/],
        [{ visited: 'today' }, /^custom\.visited must be an RFC 3339 timestamp/],
        [{ note: 'x'.repeat(10_001) }, /^custom\.note must/],
        [{ scor: 1 }, 'custom.scor is not a custom field of this resource. Did you mean "score"?'],
        [{ width: 1 }, 'custom.width is not a custom field of this resource'],
        [[], 'custom must be an object with the values of custom fields'],
      ] as const) {
        const answer = await call('POST /shops', { body: { name: 'Bad', custom } });
        assert.equal(answer.status, 400, answer.text);
        const [issue] = answer.json.fields as { field: string; message: string }[];
        if (typeof message === 'string') assert.equal(issue?.message, message);
        else assert.match(issue?.message ?? '', message);
        assert.match(issue?.field ?? '', /^custom/);
      }
      assert.equal(
        await fails(400, 'POST /shops', { body: '{"name":"Bad","custom":12345678901234567890}' }),
        'custom must be an object with the values of custom fields',
      );
      const { results } = await succeeds('POST /shops/batch', {
        body: { on_error: 'continue', records: [{ name: 'Bad', custom: { score: -1 } }] },
      });
      assert.match(JSON.stringify(results), /custom\.score must be at least 0/);
    });

    test('children have custom fields of their own', async () => {
      const body = { name: 'Nested', custom: { score: 1 }, shelves: [{ label: 'a', custom: { width: 7 } }] };
      const { id } = await succeeds('POST /shops', { body });
      const { data } = await succeeds(`GET /shelves?shop_id=${id}`);
      assert.deepEqual((data as Json[])[0]?.custom, { width: 7 });
      assert.match(
        await fails(400, 'POST /shops', { body: { name: 'N2', shelves: [{ custom: { score: 7 } }] } }),
        /custom\.score is not a custom field of this resource/,
      );
    });

    test('filters find records by their values', async () => {
      await succeeds('POST /shops/batch', {
        body: {
          records: [
            { name: 'F1', custom: { score: 10, note: 'red apple', since: '2026-01-01', open: true } },
            { name: 'F2', custom: { score: 20, note: 'red', visited: '2026-03-01T00:30:00+02:00' } },
            {
              name: 'F3',
              custom: { score: 30, price: 1.5, kind: 'new', visited: '2026-02-28T23:30:00-08:00' },
            },
            { name: 'F4', size: 99 },
          ],
        },
      });
      const among = async (query: string) => (await namesOf(query)).filter((name) => /^F\d$/.test(name));
      for (const [query, expected] of [
        ['custom.score=20', ['F2']],
        ['custom.score=20&custom.score=30', ['F2', 'F3']],
        ['custom.score[gte]=20', ['F2', 'F3']],
        ['custom.score[lt]=20', ['F1']],
        ['custom.score[ne]=20', ['F1', 'F3', 'F4']],
        ['custom.score[is_null]=true', ['F4']],
        ['custom.score[is_null]=false', ['F1', 'F2', 'F3']],
        ['custom.note[starts_with]=red', ['F1', 'F2']],
        ['custom.note[contains]=apple', ['F1']],
        ['custom.note=red', ['F2']],
        ['custom.since[lte]=2026-01-01', ['F1']],
        ['custom.visited[gte]=2026-02-28&custom.visited[lt]=2026-03-01', ['F2']],
        ['custom.visited=2026-03-01T07:30:00Z', ['F3']],
        ['custom.open=true', ['F1']],
        ['custom.price[gt]=1', ['F3']],
        ['custom.kind[in]=new&custom.score[gt]=20', ['F3']],
      ] as const)
        assert.deepEqual(await among(query), expected, query);
      assert.match(await fails(400, 'GET /shops?custom.score=x'), /custom\.score must be an integer/);
      assert.match(await fails(400, 'GET /shops?custom.color=x'), /custom\.color is not a custom field/);
      const unknown = await call('GET /shops?custom.color[gt]=x');
      assert.deepEqual([unknown.status, (unknown.json.fields as Json[]).length], [400, 1], unknown.text);
      assert.match(String(unknown.json.error), /is not a filter of this list/);
      const { id } = ((await succeeds('GET /shops?name=F1')).data as Json[])[0] as Json;
      await succeeds(`PATCH /shops/${id}`, { body: { custom: { score: 21, note: null } } });
      assert.deepEqual(await among('custom.score=21'), ['F1']);
      assert.deepEqual(await among('custom.score=10'), []);
      assert.deepEqual(await among('custom.note[is_null]=true'), ['F1', 'F3', 'F4']);
      const small = await limitedKey(instance(), alpha, ['shops:list:small', 'shops:read']);
      assert.deepEqual(
        (await namesOf('custom.score[is_null]=true', small.key)).includes('F4'),
        false,
        'filters respect scopes',
      );
      await succeeds(`DELETE /shops/${id}`);
      assert.deepEqual(await among('custom.score=21'), []);
    });

    test('filters ignore the values of a record of another resource or organization with the same ID', async () => {
      const { key, id: organization } = await instance().organization('same-ids');
      const other = await instance().organization('other-same-ids');
      const id = 900_000_001;
      for (const [resource, name, height, owner] of [
        ['shops', 'name', 1, { key, id: organization }],
        ['shelves', 'label', 2, { key, id: organization }],
        ['shops', 'name', 4, other],
      ] as const) {
        await succeeds(`POST /fields/${resource}`, {
          key: owner.key,
          body: { name: 'height', type: 'integer' },
        });
        const text = `insert into ${resource} (organization_id, id, ${name}, custom, created_at, updated_at)
          values (${owner.id}, ${id}, 'Same', '{"height": ${height}}', now(), now())`;
        await instance().database.run({ name: '', text, values: [] });
      }
      assert.deepEqual(await namesOf('custom.height=1', key), ['Same']);
      assert.deepEqual(await namesOf('custom.height=2', key), []);
      assert.deepEqual(await namesOf('custom.height=4', key), []);
      assert.deepEqual(await namesOf('custom.height[ne]=2', key), ['Same']);
      // Values are deleted with their own record only.
      await succeeds(`PATCH /shops/${id}`, { key, body: { custom: { height: 3 } } });
      await succeeds(`DELETE /shops/${id}`, { key });
      const run = (text: string) => instance().database.run({ name: '', text, values: [] });
      await run(`delete from shops where organization_id = ${organization} and id = ${id}`);
      const { data } = await succeeds('GET /shelves?custom.height=2', { key });
      assert.deepEqual(
        (data as Json[]).map(({ label }) => label),
        ['Same'],
      );
      assert.deepEqual(await namesOf('custom.height=4', other.key), ['Same']);
    });

    test('the history contains values', async () => {
      const { id } = await succeeds('POST /shops', { body: { name: 'H', custom: { score: 1 } } });
      await succeeds(`PATCH /shops/${id}`, { body: { custom: { score: 2 } } });
      const { data } = await succeeds(`GET /shops/${id}/history`);
      const [last] = data as { changed: string[]; after?: Json }[];
      assert.deepEqual(last?.after?.custom, { score: 2 });
      assert.ok(last?.changed.includes('custom'));
    });

    test('a new field changes the entity tag', async () => {
      const { id } = await succeeds('POST /shops', { body: { name: 'T' } });
      const tag = (await call(`GET /shops/${id}`)).headers.get('etag');
      await define('extra', { type: 'string' });
      const answer = await call(`GET /shops/${id}`, { headers: { 'if-none-match': String(tag) } });
      assert.equal(answer.status, 200, answer.text);
      const current = String(answer.headers.get('etag'));
      const unchanged = await call(`GET /shops/${id}`, { headers: { 'if-none-match': current } });
      assert.equal(unchanged.status, 304, unchanged.text);
      const body = { custom: { extra: 'x' } };
      assert.equal(
        (await call(`PATCH /shops/${id}`, { body, headers: { 'if-match': current } })).status,
        200,
      );
    });

    test('a deleted field keeps its values for 30 days', async () => {
      await define('old', { type: 'string' });
      const { id } = await succeeds('POST /shops', { body: { name: 'Old', custom: { old: 'kept' } } });
      await succeeds('DELETE /fields/shops/old');
      assert.equal('old' in ((await customOf(id)) as Json), false);
      await fails(400, 'GET /shops?custom.old=kept');
      await fails(400, 'POST /shops', { body: { name: 'Old2', custom: { old: 'x' } } });
      assert.match(
        await fails(409, 'POST /fields/shops', { body: { name: 'old', type: 'string' } }),
        /was deleted, and can be restored/,
      );
      await succeeds(`PUT /shops/${id}`, { body: { name: 'Old', custom: {} } });
      const { data } = await succeeds('GET /fields/shops?deleted=true');
      assert.ok((data as Json[]).some(({ name }) => name === 'old'));
      assert.ok((data as Json[]).every(({ deleted_at }) => typeof deleted_at === 'string'));
      await succeeds('POST /fields/shops/old/restore');
      assert.equal(((await customOf(id)) as Json).old, 'kept');
      assert.deepEqual(await namesOf('custom.old=kept'), ['Old']);
      await define('unused', { type: 'string' });
      for (const name of ['old', 'unused']) await succeeds(`DELETE /fields/shops/${name}`);
      const tables = tablesOf(instance().database);
      await purgeValues({ name: 'shops' })(tables);
      await purgeFields(tables);
      for (const name of ['old', 'unused']) await succeeds(`POST /fields/shops/${name}/restore`);
      assert.equal(((await customOf(id)) as Json).old, 'kept');
      for (const name of ['old', 'unused']) await succeeds(`DELETE /fields/shops/${name}`);
      await tables
        .updateTable('crm_custom_fields')
        .set({ deleted_at: new Date(Date.now() - 31 * 86_400_000) })
        .where('name', '=', 'old')
        .execute();
      await purgeValues({ name: 'shops' })(tables);
      await purgeFields(tables);
      await define('old', { type: 'string' });
      assert.equal(((await customOf(id)) as Json).old, null);
      assert.deepEqual(await namesOf('custom.old=kept'), []);
    });

    test('when the values of a deleted field are deleted, other fields of the same name keep theirs', async () => {
      const tables = tablesOf(instance().database);
      const [own, other] = [
        await instance().organization('twin'),
        await instance().organization('other-twin'),
      ];
      const body = { name: 'Twins', custom: { twin: 'shop' }, shelves: [{ custom: { twin: 'shelf' } }] };
      const ids: unknown[] = [];
      for (const { key } of [own, other]) {
        for (const resource of ['shops', 'shelves'])
          await succeeds(`POST /fields/${resource}`, { key, body: { name: 'twin', type: 'string' } });
        ids.push((await succeeds('POST /shops', { key, body })).id);
      }
      const { key } = own;
      await succeeds('DELETE /fields/shops/twin', { key });
      /** Deletes values whose field was deleted this many days ago. @returns how many, and the resources that still have values */
      const resourcesAfter = async (days: number) => {
        await tables
          .updateTable('crm_custom_fields')
          .set({ deleted_at: new Date(Date.now() - days * 86_400_000) })
          .where('name', '=', 'twin')
          .where('deleted_at', 'is not', null)
          .execute();
        let deleted = 0;
        for (const name of ['shops', 'shelves']) deleted += await purgeValues({ name })(tables);
        await purgeFields(tables);
        const rows = await tables
          .selectFrom('crm_custom_values')
          .select(['organization_id', 'resource'])
          .where('field', '=', 'twin')
          .execute();
        const left = [own, other].map(({ id }) =>
          rows
            .filter((row) => String(row.organization_id) === id)
            .map(({ resource }) => resource)
            .sort(),
        );
        return [deleted, ...left];
      };
      const both = ['shelves', 'shops'];
      assert.deepEqual(await resourcesAfter(29), [0, both, both]);
      assert.deepEqual(await resourcesAfter(31), [1, ['shelves'], both]);
      const { custom } = await succeeds(`GET /shops/${ids[1]}`, { key: other.key });
      assert.deepEqual(custom, { twin: 'shop' });
      await fails(404, 'POST /fields/shops/twin/restore', { key });
    });

    test('organizations do not see or affect each other', async () => {
      const { key } = beta;
      assert.deepEqual((await succeeds('GET /fields/shops', { key })).data, []);
      await fails(400, 'POST /shops', { key, body: { name: 'X', custom: { score: 1 } } });
      await fails(404, 'PATCH /fields/shops/score', { key, body: { label: 'X' } });
      await fails(404, 'DELETE /fields/shops/score', { key });
      await succeeds('POST /fields/shops', { key, body: { name: 'score', type: 'string' } });
      const { id } = await succeeds('POST /shops', { key, body: { name: 'X', custom: { score: '20' } } });
      assert.deepEqual((await succeeds(`GET /shops/${id}`, { key })).custom, { score: '20' });
      assert.deepEqual(await namesOf('custom.score=20', key), ['X']);
      assert.equal((await namesOf('custom.score=20')).includes('X'), false);
      await succeeds('DELETE /fields/shops/score', { key });
      const { custom } = await succeeds('POST /shops', { body: { name: 'Y', custom: { score: 20 } } });
      assert.equal((custom as Json).score, 20);
      // The functions behind the requests check the organization, too.
      const own = await succeeds('GET /fields/shops/score');
      await transaction(instance().database, async (tables) => {
        const actor = command(instance());
        await changeCustomField(tables, actor, beta.id, String(own.id), { type: 'integer' });
        await setDeleted(tables, actor, beta.id, String(own.id), true);
      });
      assert.deepEqual(await succeeds('GET /fields/shops/score'), own);
      const entries = await tablesOf(instance().database)
        .selectFrom('crm_ledger')
        .select('action')
        .where('object', '=', 'custom field')
        .where('object_id', '=', String(own.id))
        .where('organization_id', '=', beta.id)
        .execute();
      assert.deepEqual(entries, []);
    });

    test('definitions need a grant on fields', async () => {
      const reader = await limitedKey(instance(), alpha, ['shops:*', 'fields:list']);
      await succeeds('GET /fields/shops', { key: reader.key });
      await fails(403, 'POST /fields/shops', { key: reader.key, body: { name: 'z', type: 'string' } });
      const other = await limitedKey(instance(), alpha, ['shops:*']);
      await fails(403, 'GET /fields/shops', { key: other.key });
      const everything = await limitedKey(instance(), alpha, ['*:*']);
      await fails(403, 'GET /fields/shops', { key: everything.key });
      await succeeds('POST /shops', { key: other.key, body: { name: 'Z', custom: { score: 1 } } });
    });

    test('each operation on definitions needs its own grant, and no response is cached', async () => {
      const { id } = await define('granted', { type: 'string' });
      const granted = { type: 'string', name: 'granted_too' };
      const all = ['list', 'read', 'update', 'delete', 'create'];
      for (const [action, request, body] of [
        ['list', 'GET /fields/shops'],
        ['read', 'GET /fields/shops/granted'],
        ['update', 'PATCH /fields/shops/granted', { label: 'Granted' }],
        ['delete', 'DELETE /fields/shops/granted'],
        ['create', 'POST /fields/shops/granted/restore'],
        ['create', 'POST /fields/shops', granted],
      ] as const) {
        const others = all.filter((each) => each !== action).map((each) => `fields:${each}`);
        const limited = await limitedKey(instance(), alpha, others);
        const refused = await call(request, { key: limited.key, body });
        assert.deepEqual([refused.status, refused.json.grant], [403, `fields:${action}`], request);
        const { key } = await limitedKey(instance(), alpha, [`fields:${action}`]);
        const { status, headers } = await call(request, { key, body });
        assert.ok(status < 300, `${request}: ${status}`);
        assert.equal(headers.get('cache-control'), 'no-store', request);
      }
      const activity = await activityOf(instance(), alpha.id);
      assert.deepEqual(
        activity.flatMap(({ did }) => (did.endsWith(` custom field ${id}`) ? [did.split(' ')[0]] : [])),
        ['create', 'update', 'delete', 'restore'],
      );
    });

    test('other methods and large bodies are rejected', async () => {
      for (const [path, methods] of [
        ['', 'GET, HEAD, POST, OPTIONS'],
        ['/score', 'GET, HEAD, PATCH, DELETE, OPTIONS'],
        ['/score/restore', 'POST, OPTIONS'],
      ]) {
        const answer = await call(`PUT /fields/shops${path}`, { body: {} });
        assert.deepEqual([answer.status, answer.headers.get('allow')], [405, methods]);
      }
      await fails(413, 'POST /fields/shops', { body: { name: 'x', type: 'text', help: 'x'.repeat(65_536) } });
    });

    test('an import reads values from JSON lines', async () => {
      const lines = ['{"name":"I1","custom":{"score":1}}', '{"name":"I2","custom":{"score":"x"}}'].join('\n');
      const report = await instance().call('POST /api/v1/shops/import', {
        key: alpha.key,
        body: lines,
        headers: { 'content-type': 'application/x-ndjson' },
      });
      assert.deepEqual([report.json.created, report.json.failed], [1, 1], report.text);
      assert.match(report.text, /custom\.score must be an integer/);
    });

    test('CSV has a column for every custom field', async () => {
      const csv = { 'content-type': 'text/csv' };
      const body = 'name,custom.score,custom.note,custom.open\nK1,7,"a, ""b""",TRUE\nK2,,x,\nK3,x,,\n';
      const report = await instance().call('POST /api/v1/shops/import', {
        key: alpha.key,
        body,
        headers: csv,
      });
      assert.deepEqual(
        [report.json.created, report.json.failed, report.json.ignored],
        [2, 1, []],
        report.text,
      );
      const query = 'custom.note[in]=x&custom.note[in]=a,%20%22b%22&fields=name,custom';
      const { text } = await call(`GET /shops?${query}`, { headers: { accept: 'text/csv' } });
      const [head = '', ...lines] = text.trimEnd().split('\r\n');
      const names = head.split(',');
      assert.deepEqual(names.slice(0, 4), ['id', 'name', 'custom.score', 'custom.note']);
      const empty = (count: number) => ','.repeat(count);
      assert.deepEqual(
        lines.map((line) => line.replace(/^\d+,/, '')),
        [`K1,7,"a, ""b""",,,true${empty(names.length - 7)}`, `K2,,x${empty(names.length - 4)}`],
      );
    });

    test('columns of custom fields add to a column with all of them', async () => {
      const report = await instance().call('POST /api/v1/shops/import', {
        key: alpha.key,
        body: 'name,custom,custom.note\nL1,"{""score"":7}",x\n',
        headers: { 'content-type': 'text/csv' },
      });
      assert.equal(report.json.created, 1, report.text);
      const { text } = await call('GET /shops?name=L1&fields=custom');
      assert.match(text, /"score": 7/);
      assert.match(text, /"note": "x"/);
    });

    test('the OpenAPI document of an organization describes its custom fields', async () => {
      const at = (path: string, key = alpha.key) => instance().call(`GET ${path}`, { key });
      const propertiesOf = ({ json }: Awaited<ReturnType<typeof at>>, schema: string) => {
        const { schemas } = json.components as { schemas: Record<string, Json> };
        const properties = schemas[schema]?.properties as { custom?: { properties?: Json } } | undefined;
        return properties?.custom?.properties;
      };
      const own = await at('/docs/openapi.json?org=alpha');
      assert.deepEqual([own.headers.get('cache-control'), own.headers.get('etag')], ['no-store', null]);
      const score = propertiesOf(own, 'ShopInput')?.score as Json | undefined;
      assert.deepEqual([score?.minimum, score?.maximum, score?.type], [0, 100, ['integer', 'null']]);
      const since = propertiesOf(own, 'Shop')?.since as Json | undefined;
      assert.equal(since?.format, 'date');
      assert.deepEqual(Object.keys(propertiesOf(own, 'ShelfPatch') ?? {}), ['width']);
      assert.deepEqual(Object.keys(propertiesOf(own, 'ShopShelvesItem') ?? {}), ['width']);
      const paths = own.json.paths as Record<string, { get?: { parameters: { name?: string }[] } }>;
      const parameters = paths['/api/v1/shops']?.get?.parameters ?? [];
      assert.ok(parameters.some(({ name }) => name === 'custom.score[gte]'));
      assert.equal(propertiesOf(await at('/docs/openapi.json'), 'ShopInput'), undefined);
      assert.equal(
        propertiesOf(await at('/docs/openapi.json?org=beta', beta.key), 'ShopInput')?.since,
        undefined,
      );
      assert.equal((await at('/docs/openapi.json?org=alpha', 'wrong')).status, 401);
    });

    test('the export of an organization contains its custom fields', async () => {
      const lines: string[] = [];
      for await (const chunk of exportOrganization(instance(), alpha.id)) lines.push(String(chunk));
      const fields = lines
        .join('')
        .split('\n')
        .filter((line) => line.includes('"kind":"custom_field"'));
      assert.ok(fields.some((line) => line.includes('"name":"score"')));
      assert.equal(
        fields.some((line) => line.includes('"shop":')),
        false,
      );
    });

    test('deleting an organization deletes its custom fields and values', async () => {
      const gamma = await instance().organization('gamma');
      await succeeds('POST /fields/shops', { key: gamma.key, body: { name: 'score', type: 'integer' } });
      await succeeds('POST /shops', { key: gamma.key, body: { name: 'G', custom: { score: 1 } } });
      await deleteOrganization(instance().database, gamma.id);
      for (const table of ['crm_custom_fields', 'crm_custom_values'] as const)
        assert.deepEqual(
          await tablesOf(instance().database)
            .selectFrom(table)
            .select('resource')
            .where('organization_id', '=', gamma.id)
            .execute(),
          [],
        );
      assert.ok((await namesOf('custom.score[gte]=0')).length > 0);
    });

    test('administrators manage custom fields in the admin UI', async () => {
      const admin = await signIn(instance(), administratorOf(beta));
      const at = '/setup/o/beta/custom-fields';
      const values = { resource: 'shops', name: 'weight', type: 'integer', label: 'Weight in kg', min: '1' };
      assert.equal((await admin.submit(`${at}/create`, `${at}/create`, values)).status, 303);
      assert.match((await admin.get(at)).text, /Weight in kg/);
      const { data } = await succeeds('GET /fields/shops', { key: beta.key });
      const weight = (data as Json[]).find(({ name }) => name === 'weight');
      assert.deepEqual([weight?.label, weight?.min], ['Weight in kg', 1]);
      const change = `${at}/change?id=${weight?.id}`;
      assert.equal((await admin.submit(change, `${at}/change`, { label: 'Weight', max: '5' })).status, 303);
      const changed = await succeeds('GET /fields/shops/weight', { key: beta.key });
      assert.deepEqual([changed.label, changed.min, changed.max], ['Weight', 1, 5]);
      const rejected = await admin.submit(`${at}/create`, `${at}/create`, { ...values, name: 'Two words' });
      assert.match(problemOf(rejected), /lowercase letter/);
      const taken = await admin.submit(`${at}/create`, `${at}/create`, { ...values, label: 'Again' });
      assert.equal(taken.status, 400);
      assert.match(problemOf(taken), /already exists/);
      assert.ok(taken.text.includes('value="Again"'), 'the form keeps the input');
    });

    test('a field that is created, deleted or restored in the admin UI applies immediately', async () => {
      const { key, ...organization } = await instance().organization('quick');
      const admin = await signIn(instance(), administratorOf({ key, ...organization }));
      const at = '/setup/o/quick/custom-fields';
      let count = 0;
      const custom = async () =>
        (await succeeds('POST /shops', { key, body: { name: `Quick ${++count}` } })).custom;
      assert.deepEqual(await custom(), {});
      const create = (values: Readonly<Record<string, string>>) =>
        admin.submit(`${at}/create`, `${at}/create`, { resource: 'shops', ...values });
      const isCreated = async (values: Readonly<Record<string, string>>) =>
        assert.equal((await create(values)).status, 303);
      await isCreated({ name: 'open', type: 'boolean', default: 'false' });
      assert.deepEqual(await custom(), { open: false });
      await isCreated({
        ...{ name: ' kind ', type: 'string', enum: ' red \r\n\r\nblue', closed: 'true', default: 'red' },
        ...{ max_length: '9', pattern: '^[a-z]+$', help: 'Its color.', message: 'Choose a color.' },
      });
      assert.deepEqual(await custom(), { open: false, kind: 'red' });
      const { id, name, created_at, ...kind } = await succeeds('GET /fields/shops/kind', { key });
      assert.deepEqual(kind, {
        ...{ type: 'string', enum: ['red', 'blue'], closed: true, default: 'red', max_length: 9 },
        ...{ pattern: '^[a-z]+$', help: 'Its color.', message: 'Choose a color.' },
      });
      for (const [values, problem] of [
        [{ type: 'integer', max: 'many' }, /max must be a number/],
        [{ type: 'integer', default: 'one' }, /the default must be an integer/],
        [{ type: 'boolean', default: 'yes' }, /the default must be true or false/],
      ] as const) {
        const answer = await create({ name: 'wrong', ...values });
        assert.equal(answer.status, 400);
        assert.match(problemOf(answer), problem);
        for (const value of Object.values(values)) assert.ok(answer.text.includes(`value="${value}"`), value);
      }
      const { id: open } = await succeeds('GET /fields/shops/open', { key });
      const change = `${at}/change?id=${open}`;
      assert.equal((await admin.submit(change, `${at}/change`, { default: 'true' })).status, 303);
      assert.deepEqual(await custom(), { open: true, kind: 'red' });
      assert.equal((await admin.submit(`${at}/delete?id=${open}`, `${at}/delete`)).status, 303);
      const { id: between, custom: values } = await succeeds('POST /shops', {
        key,
        body: { name: 'Between' },
      });
      assert.deepEqual(values, { kind: 'red' });
      const shown = async (page: string) => (await admin.get(page)).text.includes('custom.open');
      assert.deepEqual([await shown(at), await shown(`${at}?show=deleted`)], [false, true]);
      const restored = await admin.submit(`${at}?show=deleted`, `${at}/restore`, { id: String(open) });
      assert.equal(restored.status, 303);
      assert.deepEqual(await custom(), { open: true, kind: 'red' });
      const record = await succeeds(`GET /shops/${between}`, { key });
      assert.deepEqual(record.custom, { open: null, kind: 'red' }, 'a deleted field has no default');
      const activity = await activityOf(instance(), organization.id);
      assert.deepEqual(
        activity.flatMap(({ actor, did }) => (did.endsWith(` custom field ${open}`) ? [actor, did] : [])),
        ['create', 'update', 'delete', 'restore'].flatMap((action) => [
          `user ${organization.user}`,
          `${action} custom field ${open}`,
        ]),
      );
    });

    test('the pages for custom fields are in the browser’s language', async () => {
      const german = { 'accept-language': 'de' };
      const names = namesIn(instance(), [
        ...['acme', 'admin@acme.example', 'shops', 'weight', 'custom.weight', 'integer'],
      ]);
      const admin = await signIn(instance(), administratorOf(await instance().organization('acme')));
      const at = '/setup/o/acme/custom-fields';
      const assertPages = async (...pages: readonly string[]) => {
        for (const page of pages) assertGerman(await admin.get(`${at}${page}`, german), names);
      };
      await assertPages('', '?show=deleted', '/create');
      const _csrf = await admin.token(`${at}/create`);
      assert.equal(
        problemOf(await admin.post(`${at}/create`, { _csrf }, german)),
        'Wählen Sie die Datensätze aus.',
      );
      const values = { resource: 'shops', name: 'weight', type: 'integer' };
      assert.equal(
        problemOf(await admin.post(`${at}/create`, { _csrf, ...values, max: 'viele' }, german)),
        'Die Eigenschaft „max“ ist ungültig.',
      );
      const created = await admin.submit(`${at}/create`, `${at}/create`, values);
      assert.equal(created.status, 303, problemOf(created));
      assertGerman(await admin.post(`${at}/create`, { _csrf, ...values }, german), names);
      const { text } = await admin.get(created.headers.get('location') ?? '', german);
      assert.match(readable(text), /<strong>weight<\/strong> angelegt\./);
      const id = /change\?id=(\d+)/.exec(readable(text))?.[1];
      await assertPages('', `/change?id=${id}`, `/delete?id=${id}`);
      const deleted = await admin.submit(`${at}/delete?id=${id}`, `${at}/delete`);
      assert.equal(deleted.status, 303, problemOf(deleted));
      await assertPages('?show=deleted');
      const missing = await admin.get(`${at}/change?id=999`, german);
      assert.equal(problemOf(missing), 'Dieses eigene Feld existiert nicht.');
    });

    test('forms, pages and lists of the admin UI contain custom fields', async () => {
      await succeeds('POST /fields/shops', {
        key: beta.key,
        body: { name: 'depth', type: 'integer', max: 9 },
      });
      await succeeds('POST /fields/shops', { key: beta.key, body: { name: 'memo', type: 'string' } });
      const admin = await signIn(instance(), administratorOf(beta));
      const at = '/setup/o/beta/data/shops';
      const created = await admin.submit(`${at}/new`, `${at}/new`, {
        name: 'Admin',
        'custom.depth': '7',
        'custom.memo': 'hi',
      });
      assert.equal(created.status, 303, created.text);
      const [shop] = (await succeeds('GET /shops?name=Admin', { key: beta.key })).data as Json[];
      const custom = shop?.custom as Json | undefined;
      assert.deepEqual([custom?.depth, custom?.memo], [7, 'hi']);
      const page = `${at}/${shop?.id}`;
      assert.match((await admin.get(page)).text, /Depth/);
      const rejected = await admin.submit(`${page}/edit`, `${page}/edit`, { 'custom.depth': '10' });
      assert.match(rejected.text, /custom\.depth must be at most 9/);
      await admin.submit(`${page}/edit`, `${page}/edit`, { 'custom.depth': '8', 'custom.memo': '' });
      const edited = (await succeeds(`GET /shops/${shop?.id}`, { key: beta.key })).custom as Json;
      assert.deepEqual([edited.depth, edited.memo], [8, null]);
      const { data: changes } = await succeeds(`GET /shops/${shop?.id}/history`, { key: beta.key });
      const [last] = changes as { position: string }[];
      const undo = await admin.submit(`${page}/undo?change=${last?.position}`, `${page}/undo`);
      assert.equal(undo.status, 303, undo.text);
      const undone = (await succeeds(`GET /shops/${shop?.id}`, { key: beta.key })).custom as Json;
      assert.deepEqual([undone.depth, undone.memo], [7, 'hi']);
      await succeeds(`PATCH /shops/${shop?.id}`, { key: beta.key, body: { custom: { depth: 8 } } });
      await succeeds('POST /fields/shops', {
        key: beta.key,
        body: { name: 'grade', type: 'string', enum: ['A', 'B'], closed: true },
      });
      assert.equal((await admin.get(`${at}/board?by=custom.grade`)).status, 404, 'no column of a board');
      const list = await admin.get(`${at}?columns=custom.depth&custom.depth[eq]=8`);
      assert.match(list.text, /Admin/);
      assert.match(list.text, /Depth/);
      assert.doesNotMatch((await admin.get(`${at}?custom.depth[eq]=3`)).text, />Admin</);
      const choice = 'columns=size&columns=custom.depth&columns%5Bremember%5D=1';
      const chosen = await admin.get(`${at}?${choice}`);
      assert.equal(chosen.headers.get('location'), `${at}?columns=size&columns=custom.depth`);
      const headings = [...(await admin.get(at)).text.matchAll(/<th scope="col"[^>]*>(?:<a[^>]*>)?([^<]*)/g)];
      assert.deepEqual(
        headings.slice(0, -1).map(([, heading = '']) => heading.trim()),
        ['Shop', 'Size', 'Depth'],
        'the chosen columns are remembered',
      );
    });

    test('commands manage custom fields', async () => {
      const fields = (...words: string[]) => runCommand(instance(), ['fields', ...words, '--org', 'beta']);
      const outputs = [
        await fields('create', 'shops', 'color', 'string', '--properties', '{"enum":["red"],"closed":true}'),
        await fields('change', 'shops', 'color', '--properties', '{"label":"Color"}'),
        await fields('delete', 'shops', 'color'),
        await fields('restore', 'shops', 'color'),
      ];
      assert.deepEqual(
        outputs.map(({ text }) => text),
        [
          'Created the custom field "color" of shops.',
          'Changed the custom field "color" of shops.',
          'Deleted the custom field "color" of shops. Its values are kept for 30 days.',
          'Restored the custom field "color" of shops.',
        ],
      );
      const { data } = await succeeds('GET /fields/shops', { key: beta.key });
      const color = (data as Json[]).find(({ name }) => name === 'color');
      assert.deepEqual([color?.label, color?.enum, color?.closed], ['Color', ['red'], true]);
      for (const [words, message] of [
        [
          ['create', 'leads', 'x', 'string'],
          /^leads does not have custom fields\. Available: shelves, shops\.$/,
        ],
        [['create', 'shop', 'x', 'string'], /^shop does not have custom fields\. Did you mean "shops"\? /],
        [['create', 'shops', 'color', 'string'], /already exists/],
        [
          ['create', 'shops', 'x', 'integer', '--properties', '{"min":3,"max":2}'],
          /^"min" \(3\) is greater than "max" \(2\)$/,
        ],
        ...['[1]', 'null', '"x"', '{'].map(
          (json) =>
            [
              ['create', 'shops', 'x', 'string', '--properties', json],
              /^--properties must be a JSON object, for example \{"max": 100\}\.$/,
            ] as const,
        ),
        [['change', 'shops', 'none', '--properties', '{}'], /^shops does not have a custom field "none"\.$/],
        [['delete', 'shelves', 'color'], /^shelves does not have a custom field "color"\.$/],
        [['restore', 'shops', 'color'], /^shops does not have a deleted custom field "color"\.$/],
      ] as const)
        await assert.rejects(fields(...words), { name: 'UserError', message });
      await fields('delete', 'shops', 'color');
      await assert.rejects(fields('delete', 'shops', 'color'), { name: 'UserError' });
      const listed = await fields('list');
      const [listedColor, ...more] = (listed.json.fields as Json[]).filter(({ name }) => name === 'color');
      assert.deepEqual([listedColor?.resource, listedColor?.closed, more], ['shops', true, []]);
      assert.match(String(listedColor?.deleted_at), /^\d{4}-/);
      assert.match(listed.text, /^resource +name +type +deleted\n[\s\S]*^shops +color +string +\d{4}-/m);
    });

    test('prune deletes all values of fields that were deleted 30 days ago, however many there are', async () => {
      const { id, key } = await instance().organization('pruned');
      for (const name of ['one', 'two'])
        await succeeds('POST /fields/shops', { key, body: { name, type: 'string' } });
      for (let batch = 0; batch < 3; batch++) {
        const records = Array.from({ length: 100 }, (_, index) => ({
          name: `Pruned ${batch} ${index}`,
          custom: { one: '1', two: '2' },
        }));
        await succeeds('POST /shops/batch', { key, body: { records } });
      }
      const tables = tablesOf(instance().database);
      await tables
        .updateTable('crm_custom_fields')
        .set({ deleted_at: new Date(Date.now() - 31 * 86_400_000) })
        .where('organization_id', '=', id)
        .execute();
      await runCommand(instance(), ['prune']);
      for (const table of ['crm_custom_values', 'crm_custom_fields'] as const)
        assert.deepEqual(
          await tables.selectFrom(table).select('resource').where('organization_id', '=', id).execute(),
          [],
        );
      await succeeds('POST /fields/shops', { key, body: { name: 'one', type: 'string' } });
      const { data } = await succeeds('GET /shops?name=Pruned%200%200', { key });
      assert.deepEqual((data as Json[])[0]?.custom, { one: null });
    });
  },
  { sources },
);
