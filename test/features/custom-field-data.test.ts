// Values of custom fields in events, histories, erasures, exports and the trash, and in requests with conditions.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { purgeFields, purgeValues } from '../../plugins/tenants/custom-fields/retention.ts';
import { exportOrganization } from '../../plugins/tenants/organizations/export.ts';
import { runCommand } from '../support/command-line.ts';
import { settled } from '../support/erasures.ts';
import { administratorOf, optionOf, problemOf, readable, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { settingsFile } from '../support/partners.ts';
import { until } from '../support/process.ts';
import { eventsTo, startReceiver } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';

const receiver = await startReceiver();
after(() => receiver.close());
const file = settingsFile(eventsTo(receiver.port));
const sources = await sourcesWith({
  file: 'shops.yaml',
  text: `
singular: shop
description: A shop.
common: all
custom_fields: true
trash: 30 days
fields:
  name: { type: string, unique: true, description: A field. }
sort: { by: id }
filters: [name]
`,
});

type Json = Record<string, unknown>;

onBothDrivers(
  'Data of custom fields',
  (instance) => {
    let alpha: Organization;
    let beta: Organization;
    const call = (request: string, { body, key = alpha.key, headers }: Call = {}) => {
      const [method, path] = request.split(' ');
      const prefix = /^\/(fields|events)/.test(String(path)) ? '' : '/api/v1';
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
    const make = async (name: string, custom: Json, { key } = alpha) =>
      Number((await succeeds('POST /shops', { key, body: { name, custom } })).id);
    const change = (id: number, custom: Json) => succeeds(`PATCH /shops/${id}`, { body: { custom } });
    const customOf = async (id: number, { key } = alpha) =>
      (await succeeds(`GET /shops/${id}`, { key })).custom as Json;
    const found = async (query: string, { key } = alpha) => {
      const { data } = await succeeds(`GET /shops?${query}`, { key });
      return (data as Json[]).map(({ name }) => name);
    };
    const tables = () => tablesOf(instance().database);
    /** Returns the names of the fields with rows in the table that filters read. */
    const storedFields = async (id: number) =>
      (
        await tables()
          .selectFrom('crm_custom_values')
          .select('field')
          .where('resource', '=', 'shops')
          .where('record_id', '=', String(id))
          .orderBy('field')
          .execute()
      ).map(({ field }) => field);

    before(async () => {
      alpha = await instance().organization('alpha');
      beta = await instance().organization('beta');
      const define = (body: Json, { key } = alpha) => succeeds('POST /fields/shops', { key, body });
      await define({ name: 'size', type: 'integer', label: 'Boot size', max: 60 });
      await define({ name: 'memo', type: 'text' });
      await define({ name: 'contact', type: 'string', format: 'email' });
      await define({ name: 'size', type: 'date' }, beta);
    });

    test('events contain the values, and subscriptions filter by them', async () => {
      const { key } = await limitedKey(instance(), alpha, ['*:*', 'events:*']);
      const subscribe = (path: string, filter: string) =>
        call('POST /events/subscriptions', {
          ...{ key, body: { url: receiver.url + path, resources: ['shops'], filter } },
        });
      const wrong = await subscribe('/wrong', 'custom.sizes=1');
      assert.equal(wrong.status, 400, wrong.text);
      assert.match(
        wrong.text,
        /filter: cannot filter shops by custom\.sizes\. Available: [^"]*custom\.size, custom\.size\[eq\]/,
      );
      const invalid = await subscribe('/wrong', 'custom.size[gte]=x');
      assert.match(invalid.text, /filter: custom\.size\[gte\] must be an integer/);
      for (const [path, filter] of [
        ['/all', ''],
        ['/large', 'custom.size[gte]=50'],
      ] as const)
        assert.equal((await subscribe(path, filter)).status, 201);
      const id = await make('E1', { size: 10, memo: 'first' });
      await change(id, { size: 55 });
      const received = (path: string) =>
        receiver
          .at(path)
          .map(({ event }) => event)
          .filter(({ data }) => data.id === id);
      await until(async () => received('/all').length === 2, 'two events');
      const [, second] = received('/all');
      assert.deepEqual(second?.data.record?.custom, { size: 55, memo: 'first', contact: null });
      assert.ok(second?.data.changed.includes('custom'));
      await until(async () => received('/large').some(({ type }) => type === 'shops.updated'), 'the event');
      const sizes = received('/large').map(({ data }) => (data.record as { custom: Json }).custom.size);
      assert.deepEqual([...new Set(sizes)], [55]);
      const created = await runCommand(instance(), [
        ...['subscription', 'create', `${receiver.url}/command`, '--org', 'alpha', '--resources', 'shops'],
        ...['--profile', 'administrator', '--filter', 'custom.memo=x'],
      ]);
      assert.equal((created.json as Json).filter, 'custom.memo=x');
      const path = `/events/subscriptions/${(created.json as Json).id}`;
      assert.equal((await succeeds(`PATCH ${path}`, { key, body: { filter: 'custom.size=1' } })).state, 'on');
      const admin = await signIn(instance(), administratorOf(alpha));
      const form = '/setup/o/alpha/events/add';
      const added = await admin.submit(form, form, {
        ...{ url: `${receiver.url}/form`, resource: 'shops', action: 'update', filter: 'custom.memo=y' },
        profile: await optionOf(admin, form, 'administrator'),
      });
      assert.equal(added.status, 200, problemOf(added));
      for (const filter of ['custom.size=1', 'custom.memo=y']) {
        const { data } = await succeeds('GET /events/subscriptions', { key });
        const found = (data as Json[]).filter((subscription) => subscription.filter === filter);
        assert.equal(found.length, 1, filter);
        await call(`DELETE /events/subscriptions/${found[0]?.id}`, { key });
      }
    });

    test('the change feed contains values before and after a change', async () => {
      const id = await make('F1', { size: 1 });
      await change(id, { size: 2, memo: 'm' });
      const { next } = await succeeds('GET /events?after=now');
      assert.ok(next);
      let changes: { id: number; before: Json | null; after: Json }[] = [];
      await until(async () => {
        const { data } = await succeeds('GET /events?resources=shops');
        changes = (data as typeof changes).filter((each) => each.id === id);
        return changes.length === 2;
      }, 'two changes');
      assert.deepEqual(
        changes.map(({ before: earlier, after }) => [earlier?.custom, after.custom]),
        [
          [undefined, { size: 1 }],
          [{ size: 1 }, { size: 2, memo: 'm' }],
        ],
      );
    });

    test("a record's page shows labels in its history, and an undo restores values", async () => {
      const id = await make('H1', { size: 41, memo: 'before' });
      await change(id, { size: 42, memo: null });
      const admin = await signIn(instance(), administratorOf(alpha));
      const page = `/setup/o/alpha/data/shops/${id}`;
      const text = readable((await admin.get(page)).text);
      assert.match(text, /Boot size[\s\S]*41[\s\S]*42/);
      const { data } = await succeeds(`GET /shops/${id}/history`);
      const [last] = data as { position: string }[];
      const undo = await admin.submit(`${page}/undo?change=${last?.position}`, `${page}/undo`);
      assert.equal(undo.status, 303, undo.text);
      assert.deepEqual(await customOf(id), { size: 41, memo: 'before', contact: null });
      assert.deepEqual(await found('custom.size=41'), ['H1']);
    });

    test('errors in batches name the record and the field', async () => {
      const records = [
        { name: 'B1' },
        { name: 'B2', custom: { size: 1 } },
        { name: 'B3', custom: { size: 61 } },
      ];
      const answer = await call('POST /shops/batch', { body: { records } });
      assert.equal(answer.status, 400, answer.text);
      assert.deepEqual(answer.json.fields, [
        { field: 'records[2].custom.size', message: 'records[2]: custom.size must be at most 60' },
      ]);
    });

    test('conditions and keys of requests apply to values', async () => {
      const id = await make('C1', { size: 1 });
      const tag = String((await call(`GET /shops/${id}`)).headers.get('etag'));
      const patch = (custom: Json) =>
        call(`PATCH /shops/${id}`, { body: { custom }, headers: { 'if-match': tag } });
      assert.equal((await patch({ size: 2 })).status, 200);
      assert.equal((await patch({ size: 3 })).status, 412);
      assert.equal((await customOf(id)).size, 2);
      const body = { records: [{ name: 'C2', custom: { size: 7 } }] };
      const headers = { 'idempotency-key': 'custom-values' };
      const first = await call('POST /shops/batch', { body, headers });
      const second = await call('POST /shops/batch', { body, headers });
      assert.deepEqual([second.status, second.text], [200, first.text]);
      assert.deepEqual(await found('custom.size=7'), ['C2']);
      const upsert = { match: ['name'], records: [{ name: 'C2', custom: { memo: 'm' } }] };
      await succeeds('POST /shops/batch', { body: upsert });
      assert.deepEqual(await found('custom.size=7&custom.memo=m'), ['C2']);
    });

    test('a record from the trash has its values again', async () => {
      const id = await make('T1', { size: 33 });
      await succeeds(`DELETE /shops/${id}`);
      assert.deepEqual(await found('custom.size=33'), []);
      assert.deepEqual(await found('custom.size=33&trashed=true'), ['T1']);
      await succeeds(`POST /shops/${id}/restore`);
      assert.equal((await customOf(id)).size, 33);
      assert.deepEqual(await found('custom.size=33'), ['T1']);
    });

    test('fields with the same name in two organizations have their own types', async () => {
      const own = await make('S1', { size: 20 });
      const other = await make('S1', { size: '2026-03-01' }, beta);
      assert.equal((await customOf(own)).size, 20);
      assert.deepEqual(await customOf(other, beta), { size: '2026-03-01' });
      assert.deepEqual(await found('custom.size[gte]=2026-01-01', beta), ['S1']);
      assert.equal((await call('GET /shops?custom.size=20', { key: beta.key })).status, 400);
      assert.equal((await call('GET /shops?custom.size=2026-03-01')).status, 400);
      for (const [{ key }, id, lines] of [
        [alpha, own, ['custom.size,custom.memo,custom.contact', '20,,']],
        [beta, other, ['custom.size', '2026-03-01']],
      ] as const) {
        const headers = { accept: 'text/csv' };
        const { text } = await call('GET /shops?name=S1&fields=name,custom', { key, headers });
        assert.equal(text, `id,name,${lines[0]}\r\n${id},S1,${lines[1]}\r\n`);
      }
      const document = async (slug: string, { key }: Organization) =>
        (await instance().call(`GET /docs/openapi.json?org=${slug}`, { key })).text;
      assert.match(await document('alpha', alpha), /Boot size/);
      assert.doesNotMatch(await document('beta', beta), /Boot size/);
    });

    test('fields of the same type are compared as their own formats require', async () => {
      const organization = await instance().organization('formats');
      const { key } = organization;
      for (const body of [
        { name: 'code', type: 'string' },
        { name: 'mail', type: 'string', format: 'email' },
        { name: 'phone', type: 'string', format: 'phone' },
      ])
        await succeeds('POST /fields/shops', { key, body });
      await make('K1', { code: 'ada@x.example', mail: 'ada@x.example', phone: '030 12' }, organization);
      await make('K2', { code: 'ADA@X.example', mail: 'ADA@X.example', phone: '0301-2' }, organization);
      for (const [query, names] of [
        ['mail=Ada@x.example', ['K1', 'K2']],
        ['code=ADA@X.example', ['K2']],
        ['phone=030-12', ['K1', 'K2']],
        ['code[in]=ada@x.example&custom.code[in]=none', ['K1']],
        ['mail[in]=Ada@x.example&custom.mail[in]=none', ['K1', 'K2']],
        ['phone[in]=03012&custom.phone[in]=none', ['K1', 'K2']],
        ['mail[ne]=ADA@x.example', []],
        ['code[ne]=ADA@X.example', ['K1']],
      ] as const)
        assert.deepEqual(await found(`custom.${query}&sort=id`, organization), names, query);
    });

    test('a field created again with another type starts without values', async () => {
      await succeeds('POST /fields/shops', { body: { name: 'grade', type: 'string' } });
      const id = await make('Z1', { grade: 'high' });
      await succeeds('DELETE /fields/shops/grade');
      await tables()
        .updateTable('crm_custom_fields')
        .set({ deleted_at: new Date(Date.now() - 31 * 86_400_000) })
        .where('name', '=', 'grade')
        .execute();
      await purgeValues({ name: 'shops' })(tables());
      await purgeFields(tables());
      assert.deepEqual(await storedFields(id), []);
      await succeeds('POST /fields/shops', { body: { name: 'grade', type: 'integer' } });
      assert.equal((await customOf(id)).grade, null);
      await change(id, { grade: 4 });
      assert.deepEqual(await found('custom.grade[lt]=5'), ['Z1']);
      const history = await call(`GET /shops/${id}/history`);
      assert.equal(history.status, 200, history.text);
      await succeeds('DELETE /fields/shops/grade');
    });

    test('an erasure finds people by custom fields, and erases the values', async () => {
      const email = 'Zoe.Quill@private.example';
      await succeeds('POST /fields/shops', { body: { name: 'pager', type: 'string', format: 'phone' } });
      const id = await make('Q1', { contact: email, pager: '+49 170 5550177', memo: 'Quillfeather came by' });
      const trashed = await make('Q2', { contact: 'zoe.quill@private.example' });
      await succeeds(`DELETE /shops/${trashed}`);
      const mention = await make('Q3', { memo: `Ask ${email}` });
      const kept = await make('Q4', { memo: 'Nobody' });
      await change(id, { memo: 'Quillfeather left' });
      const forget = (...more: string[]) =>
        runCommand(instance(), ['person', 'forget', '--org', 'alpha', ...more]);
      await assert.rejects(
        () => forget('--records', 'shops?custom.mail=x'),
        /"custom\.mail" is not a filter of shops\. Filters: .*custom\.contact/,
      );
      const criteria = ['--records', `shops?custom.contact=${encodeURIComponent(email)}`];
      const preview = (await forget(...criteria)).json as {
        records: { shops: string[] };
        mentions: Json;
        texts: string[];
      };
      const ids = preview.records.shops.toSorted();
      assert.deepEqual(ids, [String(id), String(trashed)].toSorted(), 'also in the trash, in any case');
      assert.deepEqual(preview.mentions, { shops: [String(mention)] });
      assert.deepEqual(
        preview.texts.toSorted(),
        ['+49 170 5550177', email, email.toLowerCase()],
        'addresses and phone numbers are search terms',
      );
      assert.equal((await customOf(id)).contact, email, 'the preview erases nothing');
      const admin = await signIn(instance(), administratorOf(alpha));
      const at = '/setup/o/alpha/forgetting/find';
      const page = await settled(
        admin,
        await admin.submit(at, at, { records: criteria[1] ?? '', texts: 'Quillfeather' }),
      );
      assert.match(
        readable(page.text),
        new RegExp(`These records mention the person and are left unchanged: shops ${mention}`),
      );
      await forget(...criteria, '--text', 'Quillfeather', '--erase');
      assert.equal((await call(`GET /shops/${id}`)).status, 404);
      assert.deepEqual([await storedFields(id), await storedFields(trashed)], [[], []]);
      assert.deepEqual(await storedFields(kept), ['memo']);
      const { rows } = await sql<{ text: string }>`select coalesce(record, '') || coalesce(before, '') as text
        from crm_ledger where object = 'shops' and object_id in (${id}::bigint, ${trashed}::bigint)`.execute(
        tables(),
      );
      assert.ok(rows.length > 0);
      for (const { text } of rows) assert.doesNotMatch(text, /quill/i);
    });

    test('an export contains the definitions with their properties, and the values', async () => {
      await succeeds('POST /fields/shops', {
        key: beta.key,
        body: { name: 'rank', type: 'integer', default: 3 },
      });
      await make('X1', {}, beta);
      const chunks: string[] = [];
      for await (const chunk of exportOrganization(instance(), beta.id)) chunks.push(String(chunk));
      const lines = chunks
        .join('')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { kind: string; custom_field?: Json; record?: Json });
      const rank = lines.find(({ custom_field: field }) => field?.name === 'rank')?.custom_field;
      assert.deepEqual([rank?.resource, rank?.type, rank?.default], ['shops', 'integer', 3]);
      const record = lines.find((line) => line.record?.name === 'X1')?.record;
      assert.deepEqual(record?.custom, { size: null, rank: 3 });
      assert.equal(chunks.join('').includes('Boot size'), false);
    });
  },
  { sources, environment: file.environment },
);
