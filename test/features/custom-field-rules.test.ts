// Custom fields that are required, have a default or belong to a field group, and the size of a record's values.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { RE2JS } from 're2js';
import { readCustomField } from '../../engine/definition/index.ts';
import { maxCustomBytes } from '../../engine/fields/index.ts';
import { forgetCustomFields } from '../../engine/records/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { readChange, readNewField } from '../../plugins/tenants/custom-fields/input.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, formsOf, problemOf, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { type LimitedCaller, limitedKey, limitedPerson, setGrants } from '../support/limited.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const field = 'description: A field.';
const sources = await sourcesWith(
  {
    file: 'shops.yaml',
    text: `
singular: shop
description: A shop.
common: all
custom_fields: true
fields:
  name: { type: string, unique: true, ${field} }
  margin: { type: number, nullable: true, group: finance, ${field} }
  rating: { type: number, nullable: true, group: quality, ${field} }
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

const resource = { name: 'shops', fields: [] };
/** Returns the fields with issues in a new custom field. */
const issuesOf = (properties: Json): readonly string[] => {
  const issues: { field: string; message: string }[] = [];
  readNewField(resource, { name: 'one', type: 'string', ...properties }, issues);
  return issues.map(({ field }) => field);
};
const texts = (count: number, length: number) =>
  Array.from({ length: count }, (_, index) => String(index).padStart(length, 'x'));
const safe = Number.MAX_SAFE_INTEGER;
for (const [property, accepted, rejected, type = 'string'] of [
  ['name', ['a', 'a_1', `a${'b'.repeat(39)}`], ['', 'A', '1a', 'a-b', 'ä', `a${'b'.repeat(40)}`, 7, null]],
  ['label', ['x'.repeat(60)], ['x'.repeat(61), '', ' x', 'x ', 'a\nb', 'a\rb', 'a\0b', 7]],
  ['help', ['x'.repeat(300)], ['x'.repeat(301)]],
  ['message', ['x'.repeat(200)], ['x'.repeat(201)]],
  ['pattern', [`[${'x'.repeat(298)}]`], [`[${'x'.repeat(299)}]`]],
  ['enum', [texts(100, 100)], [texts(101, 3), texts(1, 101), ['a', 'a'], [], [7], 'a', ['']]],
  ['min_length', [1, 10_000], [0, 10_001, 1.5, '1']],
  ['max_length', [1, 10_000], [0, 10_001, 1.5, '1']],
  ['min', [-safe, safe, 0], [-safe - 1, safe + 1, '1'], 'integer'],
  ['max', [-safe, safe, 0], [-safe - 1, safe + 1, '1'], 'integer'],
  ['default', ['x'.repeat(1000)], ['x'.repeat(1001), [], {}], 'text'],
  ['required', [true, false], ['true', 1]],
  ['format', ['email'], ['mail', 7]],
] as const satisfies readonly (readonly [string, readonly unknown[], readonly unknown[], string?])[])
  test(`${property} of a custom field has limits`, () => {
    for (const value of accepted)
      assert.deepEqual(issuesOf({ type, [property]: value }), [], JSON.stringify(value));
    for (const value of rejected)
      assert.ok(issuesOf({ type, [property]: value }).includes(property), JSON.stringify(value));
  });

test('a pattern has at most 300 instructions', () => {
  const patternOf = (size: number) => {
    let pattern = 'x';
    while (RE2JS.compile(pattern).programSize() < size) pattern += 'x';
    return pattern;
  };
  const issuesWith = (pattern: string) =>
    readCustomField('shops', 'one', { type: 'string', pattern }).issues?.map(({ key }) => key);
  assert.deepEqual([issuesWith(patternOf(300)), issuesWith(patternOf(301))], [undefined, ['pattern']]);
});

test('texts have a maximum length by default, which is at least their minimum length', () => {
  const lengthOf = (properties: Json) =>
    readNewField(resource, { name: 'one', ...properties }, [])?.options.max_length;
  assert.deepEqual(
    [
      lengthOf({ type: 'string' }),
      lengthOf({ type: 'text' }),
      lengthOf({ type: 'string', min_length: 300 }),
      lengthOf({ type: 'string', max_length: 5 }),
      lengthOf({ type: 'date' }),
    ],
    [255, 10_000, 300, 5, undefined],
  );
  const options = { type: 'string', max_length: 5, label: 'One' } as const;
  const field = { name: 'one', options };
  const change = (body: Json) => readChange(resource, field, body, [])?.options;
  assert.deepEqual(change({ name: 'one', type: 'string', max_length: null }), {
    ...options,
    max_length: 255,
  });
  assert.deepEqual(change({ label: null }), { type: 'string', max_length: 5 });
  assert.equal(change({ name: 'two' }), undefined);
});

onBothDrivers(
  'Rules of custom fields',
  (instance) => {
    /** Has required fields and defaults. */
    let alpha: Organization;
    /** Has fields in groups. */
    let beta: Organization;
    /** Has large texts. */
    let gamma: Organization;
    const call = (request: string, { body, key = alpha.key, headers }: Call = {}) => {
      const [method, path] = request.split(' ');
      const prefix = /^\/(fields|events|docs)/.test(String(path)) ? '' : '/api/v1';
      return instance().call(`${method} ${prefix}${path}`, {
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
    const define = (name: string, options: Json, key = alpha.key, resource = 'shops') =>
      succeeds(`POST /fields/${resource}`, { key, body: { name, ...options } });
    /** Sends a write, and returns the record's values that are not null. */
    const custom = async (request: string, body?: Json, key = alpha.key) => {
      const record = await succeeds(request, { key, ...(body && { body }) });
      const entries = Object.entries(record.custom as Json);
      return Object.fromEntries(entries.filter(([, value]) => value !== null));
    };
    const importing = (body: string, query = '') =>
      call(`POST /shops/import${query}`, { body, headers: { 'content-type': 'text/csv' } });

    before(async () => {
      alpha = await instance().organization('alpha');
      beta = await instance().organization('beta');
      gamma = await instance().organization('gamma');
      await define('floors', { type: 'integer', default: 1, max: 9 });
      await define('open', { type: 'boolean', default: false });
      await define('width', { type: 'number', default: 0.5 }, alpha.key, 'shelves');
      await define('depth', { type: 'number', required: true }, alpha.key, 'shelves');
      await define('seen', { type: 'date' }, beta.key);
      await define('cost', { type: 'integer', group: 'finance', default: 7 }, beta.key);
      await define('stars', { type: 'integer', group: 'quality' }, beta.key);
      for (let index = 0; index < 11; index++) await define(`t${index}`, { type: 'text' }, gamma.key);
    });

    test('properties are checked like those of a field in YAML', async () => {
      for (const [properties, field, message] of [
        [{ type: 'integer', default: 'x' }, 'default', /^the default must be an integer/],
        [{ type: 'integer', default: 1.5 }, 'default', /^the default must be an integer/],
        [{ type: 'integer', default: 2, max: 1 }, 'default', 'the default must be at most 1'],
        [{ type: 'boolean', default: 'true' }, 'default', /^the default must be true or false/],
        [{ type: 'date', default: '2026-02-30' }, 'default', /^the default must be a date/],
        [{ type: 'string', default: 'b', enum: ['a'] }, 'default', /^the default "b" is not in "enum"/],
        [{ type: 'string', default: ['a'] }, 'default', /^default must be a value of the type/],
        [{ type: 'text', default: 'x'.repeat(1001) }, 'default', /^default must be a value of the type/],
        [{ type: 'string', default: 'ab', pattern: '^a$' }, 'default', /^the default must match/],
        [{ type: 'string', pattern: '(a?){1000}' }, 'pattern', /^the pattern is too complex\./],
        [{ type: 'string', required: 'yes' }, 'required', 'required must be true or false'],
        [
          { type: 'string', required: true, default: 'a' },
          'required',
          '"required" and "default" are mutually exclusive: remove one',
        ],
        [
          { type: 'string', group: 'finanse' },
          'group',
          '"finanse" is not a field group of shops. Did you mean "finance"?',
        ],
        [
          { type: 'string', group: 'finance', required: true },
          'group',
          '"wrong" is required, so callers without the group could not create records. Remove "required" or "group".',
        ],
      ] as const) {
        const answer = await call('POST /fields/shops', { body: { name: 'wrong', ...properties } });
        assert.equal(answer.status, 400, `${JSON.stringify(properties)}: ${answer.text}`);
        const [issue] = answer.json.fields as { field: string; message: string }[];
        assert.equal(issue?.field, field, answer.text);
        if (typeof message === 'string') assert.equal(issue?.message, message);
        else assert.match(String(issue?.message), message);
      }
      assert.match(
        await fails(400, 'POST /fields/shelves', { body: { name: 'x', type: 'date', group: 'finance' } }),
        /^"finance" is not a field group of shelves\. It has none\.$/,
      );
      assert.match(
        await fails(400, 'PATCH /fields/shops/floors', { body: { max: 0 } }),
        /the default must be at most 0/,
      );
    });

    test('absent and null values become the default', async () => {
      const defaults = { floors: 1, open: false };
      assert.deepEqual(await custom('POST /shops', { name: 'D1' }), defaults);
      assert.deepEqual(await custom('POST /shops', { name: 'D2', custom: null }), defaults);
      assert.deepEqual(await custom('POST /shops', { name: 'D3', custom: { floors: null } }), defaults);
      const set = { floors: 3, open: true };
      const { id } = await succeeds('POST /shops', { body: { name: 'D4', custom: set } });
      assert.deepEqual(await custom(`PUT /shops/${id}`, { name: 'D4' }), set);
      assert.deepEqual(await custom(`PUT /shops/${id}`, { name: 'D4', custom: { floors: 4 } }), {
        floors: 4,
        open: false,
      });
      assert.deepEqual(await custom(`PATCH /shops/${id}`, { custom: { floors: null } }), defaults);
      await custom(`PATCH /shops/${id}`, { custom: set });
      assert.deepEqual(await custom(`PATCH /shops/${id}`, { custom: null }), defaults);
      const { data } = await succeeds('GET /shops?custom.floors=1&custom.open=false');
      assert.deepEqual(
        (data as Json[]).map(({ name }) => name),
        ['D1', 'D2', 'D3', 'D4'],
        'filters find defaults',
      );
    });

    test('an upsert sets defaults only in new records', async () => {
      await succeeds('POST /shops', { body: { name: 'U1', custom: { floors: 5, open: true } } });
      const records = [{ name: 'U1' }, { name: 'U2' }, { name: 'U3', custom: { open: true } }];
      const { results } = await succeeds('POST /shops/batch', { body: { match: ['name'], records } });
      const values = [];
      for (const { id } of results as Json[]) values.push(await custom(`GET /shops/${id}`));
      assert.deepEqual(values, [
        { floors: 5, open: true },
        { floors: 1, open: false },
        { floors: 1, open: true },
      ]);
      const report = await importing(
        'name,custom.floors,custom.open,custom.unknown\nU1,,true,1\nU4,,,2\n',
        '?match=name',
      );
      assert.deepEqual(
        [report.json.created, report.json.updated, report.json.ignored],
        [1, 1, ['custom.unknown']],
        report.text,
      );
      const { data } = await succeeds('GET /shops?name=U4');
      assert.deepEqual((data as Json[])[0]?.custom, { floors: 1, open: false });
    });

    test('a changed default applies to new records', async () => {
      const { id } = await succeeds('POST /shops', { body: { name: 'C1' } });
      await succeeds('PATCH /fields/shops/floors', { body: { default: 2 } });
      assert.deepEqual(await custom('POST /shops', { name: 'C2' }), { floors: 2, open: false });
      assert.deepEqual(await custom(`GET /shops/${id}`), { floors: 1, open: false });
      await succeeds('PATCH /fields/shops/floors', { body: { default: null } });
      assert.deepEqual(await custom('POST /shops', { name: 'C3' }), { open: false });
      await succeeds('PATCH /fields/shops/floors', { body: { default: 1 } });
    });

    test('children have defaults and required fields of their own', async () => {
      const parent = { name: 'P1', shelves: [{ label: 'a', custom: { depth: 2 } }] };
      const { id } = await succeeds('POST /shops', { body: parent });
      const { data } = await succeeds(`GET /shelves?shop_id=${id}`);
      const [shelf] = data as Json[];
      assert.deepEqual(shelf?.custom, { width: 0.5, depth: 2 });
      const kept = { name: 'P1', shelves: [{ id: shelf?.id, label: 'b' }] };
      await succeeds(`PUT /shops/${id}`, { body: kept });
      assert.deepEqual(await custom(`GET /shelves/${shelf?.id}`), { width: 0.5, depth: 2 });
      const answer = await call('POST /shops', { body: { name: 'P2', shelves: [{ label: 'a' }] } });
      assert.equal(answer.status, 400, answer.text);
      assert.deepEqual(answer.json.fields, [
        { field: 'shelves[0].custom.depth', message: 'shelves[0]: custom.depth is required' },
      ]);
    });

    test('a required field must have a value once a record is written', async () => {
      const { id: older } = await succeeds('POST /shops', { body: { name: 'R0' } });
      await define('code', { type: 'string', required: true });
      const issue = { field: 'custom.code', message: 'custom.code is required' };
      for (const body of [{ name: 'R1' }, { name: 'R1', custom: null }, { name: 'R1', custom: {} }]) {
        const answer = await call('POST /shops', { body });
        assert.deepEqual([answer.status, answer.json.fields], [400, [issue]], answer.text);
      }
      const cleared = { custom: { code: null } };
      assert.equal(await fails(400, 'POST /shops', { body: { name: 'R1', ...cleared } }), issue.message);
      assert.deepEqual(await custom(`PATCH /shops/${older}`, { name: 'R0a' }), { floors: 1, open: false });
      assert.deepEqual(await custom(`PUT /shops/${older}`, { name: 'R0' }), { floors: 1, open: false });
      assert.equal(
        await fails(400, `PUT /shops/${older}`, { body: { name: 'R0', custom: { floors: 2 } } }),
        issue.message,
      );
      const { id } = await succeeds('POST /shops', { body: { name: 'R1', custom: { code: 'x' } } });
      assert.equal(await fails(400, `PATCH /shops/${id}`, { body: cleared }), issue.message);
      assert.equal(await fails(400, `PATCH /shops/${id}`, { body: { custom: null } }), issue.message);
      assert.equal((await custom(`PATCH /shops/${id}`, { custom: { floors: 2 } })).code, 'x');
      const batch = { records: [{ name: 'R1', custom: { code: 'y' } }, { name: 'R2' }, { name: 'R3' }] };
      const answer = await call('POST /shops/batch', { body: { match: ['name'], ...batch } });
      assert.deepEqual(
        (answer.json.fields as Json[]).map((failed) => failed.field),
        ['records[1].custom.code', 'records[2].custom.code'],
        answer.text,
      );
      const report = await importing('name,custom.code\nR4,z\nR5,\n', '?dry_run=true');
      assert.deepEqual([report.json.created, report.json.failed], [1, 1], report.text);
      const own = (await instance().call('GET /docs/openapi.json?org=alpha', { key: alpha.key })).json;
      const { schemas } = own.components as { schemas: Record<string, Json> };
      const input = schemas.ShopInput as { required: string[]; properties: { custom: Json } };
      assert.deepEqual(
        [input.required.includes('custom'), input.properties.custom.required],
        [true, ['code']],
      );
      const { floors } = input.properties.custom.properties as Record<string, Json>;
      assert.match(String(floors?.description), /Default: `1`\./);
      const patch = schemas.ShopPatch as typeof input;
      assert.equal(patch.properties.custom.required, undefined);
      const item = schemas.ShopShelvesItem as typeof input;
      assert.deepEqual(
        [item.required.includes('custom'), item.properties.custom.required],
        [true, ['depth']],
      );
      for (const name of ['Shop', 'ShopProjection']) {
        const { custom } = (schemas[name] as typeof input).properties;
        assert.deepEqual(Object.keys(custom.properties as Json).sort(), ['code', 'floors', 'open'], name);
        assert.equal(custom.required, undefined, name);
      }
      const admin = await signIn(instance(), administratorOf(alpha));
      const at = '/setup/o/alpha/data/shops/new';
      const form = await admin.get(at);
      assert.match(form.text, /name="custom\.code"[^>]* required/);
      const rejected = await admin.submit(at, at, { name: 'R6', 'custom.code': '' });
      assert.match(rejected.text, /custom\.code is required/);
      // A field with the same type and rules that is not required can be null.
      await define('nick', { type: 'string' });
      assert.equal((await custom(`PATCH /shops/${id}`, { custom: { nick: null } })).code, 'x');
      await succeeds('PATCH /fields/shops/code', { body: { required: false } });
      assert.deepEqual(await custom('POST /shops', { name: 'R7' }), { floors: 1, open: false });
    });

    test('a record created once keeps the values of the first request', async () => {
      const headers = { 'idempotency-key': 'custom' };
      const body = { name: 'I1', custom: { floors: 6 } };
      const first = await call('POST /shops', { body, headers });
      const second = await call('POST /shops', { body, headers });
      assert.deepEqual([first.status, second.status], [201, 201], second.text);
      assert.equal(second.text, first.text);
      assert.deepEqual((first.json.custom as Json).floors, 6);
      const other = await call('POST /shops', { body: { ...body, custom: { floors: 7 } }, headers });
      assert.equal(other.status, 422, other.text);
    });

    test('the values of a record have at most 102,400 bytes', async () => {
      const key = gamma.key;
      const text = 'x'.repeat(10_000);
      const full = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`t${index}`, text]));
      // PostgreSQL's text of a JSON object has a space after each comma and colon.
      const size = (values: Json) => JSON.stringify(values).length + 2 * Object.keys(values).length - 1;
      const rest = maxCustomBytes - size({ ...full, t10: '' });
      const exact = { ...full, t10: 'y'.repeat(rest) };
      assert.equal(size(exact), maxCustomBytes);
      const { id } = await succeeds('POST /shops', { key, body: { name: 'S1', custom: exact } });
      const message = 'custom must have at most 102,400 bytes in total';
      const answer = await call(`PATCH /shops/${id}`, { key, body: { custom: { t10: `${exact.t10}y` } } });
      assert.deepEqual(
        [answer.status, answer.json.error, answer.json.fields],
        [400, message, [{ field: 'custom', message }]],
        answer.text,
      );
      assert.equal((await custom(`GET /shops/${id}`, undefined, key)).t10, exact.t10);
      const beyond = { ...exact, t10: `${exact.t10}y` };
      assert.equal(await fails(400, 'POST /shops', { key, body: { name: 'S2', custom: beyond } }), message);
      const batch = await call('POST /shops/batch', {
        key,
        body: { on_error: 'continue', records: [{ name: 'S3' }, { name: 'S4', custom: beyond }] },
      });
      const results = batch.json.results as Json[];
      assert.deepEqual([results[0]?.status, results[1]?.status, results[1]?.error], [201, 400, message]);
    });

    test('the size of values of a group does not depend on values of other groups', async () => {
      const text = 'x'.repeat(10_000);
      const names = Array.from({ length: 10 }, (_, index) => `h${index}`);
      for (const name of [...names, 'more'])
        await define(name, { type: 'text', max_length: 10_000, group: 'finance' }, gamma.key);
      const hidden = Object.fromEntries(names.map((name) => [name, text]));
      const { key } = await limitedKey(instance(), gamma, ['shops:*']);
      const full = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`t${index}`, text]));
      const statuses = await Promise.all(
        [{}, hidden].map(async (values, index) => {
          const body = { name: `H${index}`, custom: values };
          const { id } = await succeeds('POST /shops', { key: gamma.key, body });
          const writes = [full, { t10: text }, { t0: null, t10: text }];
          const answers = [];
          for (const written of writes)
            answers.push(await call(`PATCH /shops/${id}`, { key, body: { custom: written } }));
          const more = { key: gamma.key, body: { custom: { more: text } } };
          return [...answers.map(({ status }) => status), (await call(`PATCH /shops/${id}`, more)).status];
        }),
      );
      assert.deepEqual(statuses, [
        [200, 400, 200, 200],
        [200, 400, 200, 400],
      ]);
    });

    test('the page and the command manage these properties', async () => {
      const admin = await signIn(instance(), administratorOf(beta));
      const at = '/setup/o/beta/custom-fields';
      const values = {
        resource: 'shops',
        name: 'level',
        type: 'integer',
        default: '3',
        min: '1',
        group: 'finance',
      };
      assert.equal((await admin.submit(`${at}/create`, `${at}/create`, values)).status, 303);
      const level = await succeeds('GET /fields/shops/level', { key: beta.key });
      assert.deepEqual([level.default, level.min, level.group], [3, 1, 'finance']);
      const change = `${at}/change?id=${level.id}`;
      const [form] = formsOf(await admin.get(change)).filter(({ action }) => action === `${at}/change`);
      assert.deepEqual([form?.values.default, form?.values.group], ['3', 'finance']);
      const inputs = Object.keys(form?.values ?? {});
      assert.ok(inputs.includes('min') && !inputs.includes('pattern'), 'the properties of the type');
      const rejected = await admin.submit(change, `${at}/change`, { default: '0' });
      assert.match(problemOf(rejected), /the default must be at least 1/);
      const cleared = { default: '', group: '', required: 'true', message: 'Enter a level.' };
      assert.equal((await admin.submit(change, `${at}/change`, cleared)).status, 303);
      const changed = await succeeds('GET /fields/shops/level', { key: beta.key });
      assert.deepEqual(
        [changed.default, changed.group, changed.required, changed.message, changed.min],
        [undefined, undefined, true, 'Enter a level.', 1],
      );
      const emptied = { required: '', message: '', min: '' };
      assert.equal((await admin.submit(change, `${at}/change`, emptied)).status, 303);
      const optional = await succeeds('GET /fields/shops/level', { key: beta.key });
      assert.deepEqual(
        [optional.required, optional.message, optional.min],
        [undefined, undefined, undefined],
      );
      await succeeds('PATCH /fields/shops/level', { key: beta.key, body: { required: true } });
      const texts = { resource: 'shops', name: 'mail', type: 'string', format: 'email', min_length: '6' };
      assert.equal((await admin.submit(`${at}/create`, `${at}/create`, texts)).status, 303);
      const mail = await succeeds('GET /fields/shops/mail', { key: beta.key });
      assert.deepEqual([mail.format, mail.min_length], ['email', 6]);
      const command = (...words: string[]) => runCommand(instance(), ['fields', ...words, '--org', 'beta']);
      await command('change', 'shops', 'level', '--properties', '{"required":null,"default":2}');
      assert.equal((await succeeds('GET /fields/shops/level', { key: beta.key })).default, 2);
      await assert.rejects(
        () => command('change', 'shops', 'level', '--properties', '{"group":"sales"}'),
        /"sales" is not a field group of shops\. Available: finance, quality\./,
      );
      await command('delete', 'shops', 'level');
      await command('delete', 'shops', 'mail');
    });

    /** Requests that must not depend on fields in groups that the caller cannot read, with NAME as the field. */
    const requests = (id: unknown): readonly (readonly [string, Json?])[] => [
      ['GET /shops?custom.NAME=7'],
      ['GET /shops?custom.NAME[gte]=7'],
      ['GET /shops?custom.NAME[is_null]=true'],
      ['POST /shops', { name: 'Probe', custom: { NAME: 1 } }],
      [`PATCH /shops/${id}`, { custom: { NAME: null } }],
      [`PUT /shops/${id}`, { name: 'G1', custom: { NAME: 'x' } }],
      ['POST /shops/batch', { records: [{ name: 'Probe', custom: { NAME: 1 } }] }],
      ['PATCH /shops/batch', { records: [{ id, custom: { NAME: 1 } }] }],
      ['GET /fields/shops/NAME'],
      ['PATCH /fields/shops/NAME', { label: 'X' }],
      ['DELETE /fields/shops/NAME'],
      ['POST /fields/shops/NAME/restore'],
    ];

    test('for callers without the group, a field does not exist', async () => {
      const { id } = await succeeds('POST /shops', {
        key: beta.key,
        body: { name: 'G1', custom: { cost: 471_147_711, stars: 5, seen: '2026-01-01' } },
      });
      const limited: LimitedCaller = await limitedKey(instance(), beta, [
        'shops:*',
        'fields:*',
        'events:*',
        'shops.quality:read',
      ]);
      const { key } = limited;
      const own = { seen: '2026-01-01', stars: 5 };
      const record = await succeeds(`GET /shops/${id}`, { key });
      assert.deepEqual(record.custom, own);
      assert.equal('margin' in record, false);
      const { data } = await succeeds('GET /shops?name=G1&fields=custom', { key });
      assert.deepEqual((data as Json[])[0]?.custom, own);
      for (const [request, body] of requests(id)) {
        const answers = [];
        for (const name of ['cost', 'none']) {
          const named = (text: string) => text.replaceAll('NAME', name);
          const sent = body && (JSON.parse(named(JSON.stringify(body))) as Json);
          const answer = await call(named(request), { key, ...(sent && { body: sent }) });
          answers.push(
            `${answer.status} ${answer.text.replaceAll(name, 'NAME').replaceAll(/"request_id":"[^"]*"/g, '')}`,
          );
        }
        assert.equal(answers[0], answers[1], request);
        assert.match(String(answers[0]), /^4/, request);
      }
      // A caller who can read fewer groups sees fewer fields.
      const fewer = await limitedKey(instance(), beta, ['shops:*']);
      await succeeds('GET /shops?custom.stars=5', { key });
      await fails(400, 'GET /shops?custom.stars=5', { key: fewer.key });
      const listed = (await succeeds('GET /fields/shops', { key })).data as Json[];
      assert.deepEqual(
        listed.map(({ name }) => name),
        ['seen', 'stars'],
      );
      const csv = await call('GET /shops?name=G1&fields=custom', { key, headers: { accept: 'text/csv' } });
      assert.equal(csv.text, `id,custom.seen,custom.stars\r\n${id},2026-01-01,5\r\n`);
      const document = await call('GET /docs/openapi.json?org=beta', { key });
      assert.doesNotMatch(document.text, /custom\.cost/);
      assert.match(document.text, /custom\.stars/);
      assert.match((await call('GET /docs/openapi.json?org=beta', { key: beta.key })).text, /custom\.cost/);
      assert.match(
        await fails(400, 'POST /events/subscriptions', {
          key,
          body: { url: 'https://receiver.example', resources: ['shops'], filter: 'custom.cost=1' },
        }),
        /cannot filter shops by custom\.cost\. Available: name, name\[eq\]|cannot filter shops by custom\.cost/,
      );
    });

    test('writes of callers without the group keep its values', async () => {
      const values = { cost: 1, stars: 2, seen: '2026-01-01' };
      const { id } = await succeeds('POST /shops', { key: beta.key, body: { name: 'G2', custom: values } });
      const { key } = await limitedKey(instance(), beta, ['shops:*', 'shops.quality:read']);
      await succeeds(`PUT /shops/${id}`, { key, body: { name: 'G2', custom: { seen: null } } });
      assert.deepEqual(await custom(`GET /shops/${id}`, undefined, beta.key), { cost: 1, stars: 2 });
      // A field that the caller can only read is ignored, like other read-only fields.
      await succeeds(`PATCH /shops/${id}`, { key, body: { custom: { stars: 9 } } });
      await succeeds(`PATCH /shops/${id}`, { key, body: { custom: null } });
      assert.deepEqual(await custom(`GET /shops/${id}`, undefined, beta.key), { cost: 1, stars: 2 });
      await succeeds(`PATCH /shops/${id}`, { key, body: { custom: { stars: 'not even a number' } } });
      assert.deepEqual(await custom(`GET /shops/${id}`, undefined, beta.key), { cost: 1, stars: 2 });
      const stars = { custom: { stars: 9 } };
      for (const [request, body, location] of [
        [`PATCH /shops/${id}`, stars],
        [`PUT /shops/${id}`, { name: 'G2', ...stars }],
        ['POST /shops', { name: 'Strict', ...stars }],
        ['POST /shops/batch', { records: [{ name: 'Strict', ...stars }] }, 'records[0]'],
        ['PATCH /shops/batch', { records: [{ id, ...stars }] }, 'records[0]'],
      ] as const) {
        const strict = await call(request, { key, body, headers: { prefer: 'handling=strict' } });
        const prefix = location === undefined ? '' : `${location}.`;
        const fields = (strict.json.fields as Json[]).map((issue) => issue.field);
        assert.deepEqual(
          [strict.status, fields],
          [400, [`${prefix}custom.stars`]],
          `${request}: ${strict.text}`,
        );
        assert.match(strict.text, /custom\.stars is read-only/, request);
      }
      assert.deepEqual(await custom('POST /shops', { name: 'G3' }, key), {});
      const { data } = await succeeds('GET /shops?name=G3', { key: beta.key });
      const [created] = data as { custom: Json }[];
      assert.equal(created?.custom.cost, 7, 'the default of a hidden field');
      const writer = await limitedKey(instance(), beta, ['shops:*', 'shops.quality:*']);
      const describedFields = async (as: string) => {
        const { json } = await call('GET /docs/openapi.json?org=beta', { key: as });
        const { schemas } = json.components as {
          schemas: Record<string, { properties: { custom: { properties: Json } } }>;
        };
        return ['Shop', 'ShopProjection', 'ShopInput', 'ShopPatch'].map((name) =>
          Object.keys(schemas[name]?.properties.custom.properties ?? {}).sort(),
        );
      };
      const [all, withoutStars] = [['seen', 'stars'], ['seen']];
      assert.deepEqual(await describedFields(key), [all, all, withoutStars, withoutStars]);
      assert.deepEqual(await describedFields(writer.key), [all, all, all, all]);
      await succeeds(`PATCH /shops/${id}`, { key: writer.key, body: { custom: { stars: 9 } } });
      assert.deepEqual(await custom(`GET /shops/${id}`, undefined, beta.key), { cost: 1, stars: 9 });
    });

    test('the history and the feed do not contain fields of the group', async () => {
      // Another organization has a field of the same name without a group.
      await define('cost', { type: 'integer' }, gamma.key);
      const { id } = await succeeds('POST /shops', {
        key: beta.key,
        body: { name: 'G4', custom: { cost: 471_147_711, seen: '2026-01-01' } },
      });
      for (const values of [
        { cost: 471_147_712 },
        { seen: '2026-01-02' },
        { seen: '2026-01-03', cost: 471_147_713 },
      ])
        await succeeds(`PATCH /shops/${id}`, { key: beta.key, body: { custom: values } });
      const { key } = await limitedKey(instance(), beta, ['shops:*']);
      const seen = (days: readonly (string | undefined)[]) =>
        days.map((day) => (day === undefined ? null : { seen: day }));
      const history = await call(`GET /shops/${id}/history`, { key });
      const changes = history.json.data as { before: Json | null; after: Json | null; changed: string[] }[];
      assert.deepEqual(
        changes.map(({ before: earlier, after }) => [earlier?.custom ?? null, after?.custom]),
        [
          seen(['2026-01-02', '2026-01-03']),
          seen(['2026-01-01', '2026-01-02']),
          seen([undefined, '2026-01-01']),
        ],
        'a change to hidden fields only does not exist',
      );
      assert.doesNotMatch(history.text, /471147|cost/);
      let feed = await call('GET /events?resources=shops', { key });
      await until(async () => {
        feed = await call('GET /events?resources=shops', { key });
        return feed.text.includes('2026-01-03');
      }, 'the feed to contain the changes');
      assert.doesNotMatch(feed.text, /471147|cost/);
      assert.match((await call(`GET /shops/${id}/history`, { key: beta.key })).text, /471147712/);
    });

    test('pages do not contain fields of the group', async () => {
      const { id } = await succeeds('POST /shops', {
        key: beta.key,
        body: { name: 'G5', custom: { cost: 471_147_711, stars: 4 } },
      });
      await succeeds(`PATCH /shops/${id}`, {
        key: beta.key,
        body: { custom: { cost: 471_147_712, stars: 5 } },
      });
      const member = await limitedPerson(instance(), beta, ['shops:*', 'shops.quality:read']);
      const browser = await signIn(instance(), member);
      const at = '/setup/o/beta/data/shops';
      for (const page of [at, `${at}/${id}`, `${at}/${id}/edit`, `${at}/new`, `${at}?columns=custom.cost`]) {
        const { status, text } = await browser.get(page);
        assert.equal(status, 200, page);
        assert.doesNotMatch(text, /471,?147|"custom\.cost"|>Cost</, page);
      }
      const read = (await browser.get(`${at}/${id}`)).text;
      assert.match(read, /Stars/);
      assert.doesNotMatch((await browser.get(`${at}/${id}/edit`)).text, /name="custom\.stars"/);
      assert.doesNotMatch(read, /\/undo\?/, 'an undo would not restore all values');
    });

    test('a definition is moved out of a group only by callers who can read the group', async () => {
      const { key } = await limitedKey(instance(), beta, ['shops:*', 'fields:*', 'shops.quality:read']);
      await fails(404, 'PATCH /fields/shops/cost', { key, body: { group: null } });
      const body = { name: 'secret', type: 'string', group: 'finance' };
      assert.match(await fails(403, 'POST /fields/shops', { key, body }), /shops\.finance/);
      await fails(403, 'PATCH /fields/shops/seen', { key, body: { group: 'finance' } });
      await define('moved', { type: 'integer', group: 'finance' }, beta.key);
      const { id } = await succeeds('POST /shops', {
        key: beta.key,
        body: { name: 'G6', custom: { moved: 1 } },
      });
      assert.equal('moved' in (await custom(`GET /shops/${id}`, undefined, key)), false);
      await succeeds('PATCH /fields/shops/moved', { key: beta.key, body: { group: null } });
      assert.equal((await custom(`GET /shops/${id}`, undefined, key)).moved, 1);
    });

    test('a repeated request does not return values of a group that the caller can no longer read', async () => {
      await define('price', { type: 'integer', group: 'finance' }, beta.key);
      const grants = ['shops:*', 'shops.quality:*'];
      const { key, profile } = await limitedKey(instance(), beta, [...grants, 'shops.finance:*']);
      const request = {
        key,
        body: { name: 'G8', margin: 471_147_712, custom: { price: 471_147_713 } },
        headers: { 'idempotency-key': 'shop-g8' },
      };
      const { id, custom: values } = await succeeds('POST /shops', request);
      assert.equal((values as Json).price, 471_147_713);
      await setGrants(instance(), beta, profile, grants);
      await until(async () => !(await call(`GET /shops/${id}`, { key })).text.includes('471147713'), 'apply');
      const repeated = await call('POST /shops', request);
      assert.doesNotMatch(repeated.text, /4711477/, 'the stored response is not returned unchanged');
    });

    test('a conflict with the name of a hidden field does not reveal whether the field was deleted', async () => {
      const { key } = await limitedKey(instance(), beta, ['shops:*', 'fields:*']);
      const body = { name: 'taken', type: 'integer' };
      await define('taken', { type: 'integer', group: 'finance' }, beta.key);
      const error = await fails(409, 'POST /fields/shops', { key, body });
      await succeeds('DELETE /fields/shops/taken', { key: beta.key });
      assert.equal(await fails(409, 'POST /fields/shops', { key, body }), error);
      assert.match(await fails(409, 'POST /fields/shops', { key: beta.key, body }), /was deleted/);
    });

    test('a field of a group that the definitions no longer have is not part of records', async () => {
      await define('orphan', { type: 'integer', group: 'quality' }, beta.key);
      const { id } = await succeeds('POST /shops', {
        key: beta.key,
        body: { name: 'G7', custom: { orphan: 4711 } },
      });
      await sql`update crm_custom_fields set field_group = 'former', options = replace(options, 'quality', 'former')
        where name = 'orphan'`.execute(tablesOf(instance().database));
      forgetCustomFields(instance().database, beta.id);
      assert.equal('orphan' in (await custom(`GET /shops/${id}`, undefined, beta.key)), false);
      await fails(400, 'GET /shops?custom.orphan=4711', { key: beta.key });
      await fails(400, `PATCH /shops/${id}`, { key: beta.key, body: { custom: { orphan: 1 } } });
      const { group } = await succeeds('GET /fields/shops/orphan', { key: beta.key });
      assert.equal(group, 'former');
      await succeeds('PATCH /fields/shops/orphan', { key: beta.key, body: { group: 'finance' } });
      assert.equal((await custom(`GET /shops/${id}`, undefined, beta.key)).orphan, 4711);
    });
  },
  { sources },
);
