// The trash: deletes that can be reverted, and everything that must not show trashed records.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { retentionBatch } from '../../engine/modules/index.ts';
import {
  changingRecords,
  commandCaller,
  compileGrants,
  type ExistingRecords,
} from '../../engine/records/index.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { purgeStep } from '../../plugins/tenants/trash/purge.ts';
import type { Change } from '../support/changes.ts';
import { runCommand } from '../support/command-line.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { settingsFile } from '../support/partners.ts';
import { until } from '../support/process.ts';
import { eventsTo, settledFeed, startReceiver } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';

const receiver = await startReceiver();
after(() => receiver.close());
const settings = eventsTo(receiver.port);
const file = settingsFile(settings);

const field = 'description: A field.';
const sources = await sourcesWith(
  {
    file: 'firms.yaml',
    text: `
singular: firm
description: A firm.
common: all
trash: 30 days
fields:
  name: { type: string, unique: true, ${field} }
  size: { type: integer, default: 1, ${field} }
  code: { type: string, unique: true, group: codes, ${field} }
scopes: { small: size < 10 }
sort: { by: id }
filters: [{ field: name, operators: [eq, in] }]
search: [name]
children: { visits: { of: visits, by: firm_id } }
`,
  },
  {
    file: 'visits.yaml',
    text: `
singular: visit
description: A visit.
common: all
trash: 1 day
fields:
  firm_id: { type: reference, to: firms, nullable: true, ${field} }
  firm_name: { type: joined, through: firm_id, show: [name], ${field} }
  firm_ids: { type: references, to: firms, ${field} }
  kept_firm_id: { type: reference, to: firms, nullable: true, on_delete: restrict, ${field} }
  note: { type: string, default: "", ${field} }
sort: { by: id }
filters: [firm_id]
`,
  },
);

onBothDrivers(
  'Trash',
  (instance) => {
    let alpha: Organization;
    let beta: Organization;
    before(async () => {
      alpha = await instance().organization('alpha');
      beta = await instance().organization('beta');
    });
    const call = (request: string, { body, key = alpha.key, headers }: Call = {}) => {
      const [method, path] = request.split(' ');
      return instance().call(`${method} /api/v1${path}`, {
        key,
        ...(body !== undefined && { body }),
        ...(headers && { headers }),
      });
    };
    const create = async (path: string, body: object): Promise<number> => {
      const answer = await call(`POST ${path}`, { body });
      assert.equal(answer.status, 201, answer.text);
      return Number(answer.json.id);
    };
    const succeeds = async (request: string, options: Call = {}) => {
      const answer = await call(request, options);
      assert.equal(answer.status, 200, `${request}: ${answer.text}`);
      return answer;
    };
    const idsOf = async (request: string): Promise<number[]> =>
      ((await succeeds(request)).json.data as { id: number }[]).map(({ id }) => id);
    const rows = (text: string) => instance().database.run({ name: '', text, values: [] });
    const purge = async (name: string) => {
      const resource = instance().resources.find((candidate) => candidate.name === name);
      assert.ok(resource);
      await purgeStep(instance().database, resource)(tablesOf(instance().database));
    };

    test('a trashed record is missing everywhere until it is restored with its ID', async () => {
      const id = await create('/firms', { name: 'Gone' });
      await succeeds(`DELETE /firms/${id}`);
      assert.equal((await call(`GET /firms/${id}`)).status, 404);
      assert.equal((await call(`PATCH /firms/${id}`, { body: { size: 2 } })).status, 404);
      assert.equal((await call(`PUT /firms/${id}`, { body: { name: 'Gone' } })).status, 404);
      assert.equal((await call(`DELETE /firms/${id}`)).status, 404);
      for (const query of ['', '?name=Gone', '?q=Gone', '?trashed=false'])
        assert.ok(!(await idsOf(`GET /firms${query}`)).includes(id), query);
      const counted = await succeeds('GET /firms?name=Gone', { headers: { prefer: 'count=exact' } });
      assert.equal(counted.headers.get('x-total-count'), '0');
      const batch = await succeeds('PATCH /firms/batch', {
        body: { records: [{ id, size: 3 }], on_error: 'continue' },
      });
      assert.deepEqual(
        (batch.json.results as { status: number }[]).map(({ status }) => status),
        [404],
      );
      const [trashed] = (await succeeds('GET /firms?trashed=true&name=Gone')).json.data as {
        id: number;
        trashed_at: string;
      }[];
      assert.equal(trashed?.id, id);
      assert.match(trashed?.trashed_at ?? '', /^\d{4}-/);
      const restored = await succeeds(`POST /firms/${id}/restore`);
      assert.deepEqual([restored.json.id, restored.json.name], [id, 'Gone']);
      assert.equal('trashed_at' in restored.json, false);
      assert.equal((await succeeds(`GET /firms/${id}`)).headers.get('etag'), restored.headers.get('etag'));
      assert.equal((await call(`POST /firms/${id}/restore`)).status, 404);
      assert.deepEqual(await idsOf('GET /firms?trashed=true&name=Gone'), []);
    });

    test('a restored record is a changed one', async () => {
      const id = await create('/firms', { name: 'Changed' });
      await succeeds(`DELETE /firms/${id}`);
      await rows(
        `update "firms" set "updated_at" = '2020-01-01', "last_modified_by_id" = null where "id" = ${id}`,
      );
      const { json } = await succeeds(`POST /firms/${id}/restore`);
      assert.equal(json.last_modified_by_id, Number(alpha.user));
      assert.doesNotMatch(String(json.updated_at), /^2020/);
    });

    test('a restore obeys preconditions', async () => {
      const id = await create('/firms', { name: 'Conditional' });
      const etag = String((await succeeds(`GET /firms/${id}`)).headers.get('etag'));
      await succeeds(`DELETE /firms/${id}`);
      const restore = `POST /firms/${id}/restore`;
      // The move to the trash is a new version.
      for (const headers of [{ 'if-match': etag }, { 'if-none-match': '*' }])
        assert.equal((await call(restore, { headers })).status, 412);
      await succeeds(restore, { headers: { 'if-match': '*' } });
    });

    test('a batch moves records to the trash', async () => {
      const ids = [await create('/firms', { name: 'B1' }), await create('/firms', { name: 'B2' })];
      await succeeds('DELETE /firms/batch', { body: { ids } });
      assert.deepEqual(await idsOf('GET /firms?trashed=true&sort=id&name[in]=B1&name[in]=B2'), ids);
    });

    test('the trash starts with the record that was deleted last, unless another order is requested', async () => {
      const ids: number[] = [];
      for (const name of ['O1', 'O2', 'O3']) ids.push(await create('/firms', { name }));
      const [first, second, third] = ids;
      for (const id of [second, third, first]) await succeeds(`DELETE /firms/${id}`);
      const list = 'GET /firms?trashed=true&name[in]=O1&name[in]=O2&name[in]=O3';
      for (const [query, expected] of [
        ['', [first, third, second]],
        ['&dir=asc', [second, third, first]],
        ['&sort=trashed_at', [first, third, second]],
        ['&sort=-trashed_at,name', [first, third, second]],
        ['&sort=name', [first, second, third]],
      ] as const)
        assert.deepEqual(await idsOf(`${list}${query}`), expected, query);
    });

    test('the trash has the parameters, counts and formats of lists', async () => {
      const firm = await create('/firms', { name: 'Kept firm' });
      const ids: number[] = [];
      for (const note of ['red', 'green', 'red'])
        ids.push(await create('/visits', { firm_id: firm, firm_ids: [firm], note }));
      for (const id of ids) await succeeds(`DELETE /visits/${id}`);
      const [first, second, third] = ids;
      const list = `GET /visits?trashed=true&firm_id=${firm}`;
      const { data } = (await succeeds(`${list}&sort=note,-id&expand=firm_id,firm_ids&fields=note`)).json;
      const record = (await succeeds(`GET /firms/${firm}`)).json;
      const expanded = { firm_id: record, firm_ids: [record] };
      assert.deepEqual(data, [
        { id: second, note: 'green', expanded },
        { id: third, note: 'red', expanded },
        { id: first, note: 'red', expanded },
      ]);
      for (const count of ['exact', 'estimated']) {
        const prefer = `handling=strict, count=${count}`;
        const { headers } = await succeeds(list, { headers: { prefer } });
        assert.equal(headers.get('x-total-count'), '3', prefer);
      }
      const body = { where: { field: 'firm_id', op: 'eq', value: firm }, fields: ['note', 'trashed_at'] };
      for (const [request, options] of [
        [`${list}&fields=note,trashed_at`, {}],
        ['POST /visits/query?trashed=true', { body }],
      ] as const) {
        const headers = { accept: 'text/csv' };
        const csv = (await succeeds(request, { ...options, headers })).text.split('\r\n');
        assert.deepEqual(
          csv.map((line) => line.replace(/,\d{4}-.*/, ',time')),
          ['id,note,trashed_at', `${third},red,time`, `${second},green,time`, `${first},red,time`, ''],
          request,
        );
      }
    });

    test('references to a trashed record keep their value, and can be sent back but not assigned', async () => {
      const firm = await create('/firms', { name: 'Referred' });
      const visit = await create('/visits', { firm_id: firm, firm_ids: [firm], note: 'a' });
      const other = await create('/visits', {});
      const etag = (await succeeds(`GET /visits/${visit}`)).headers.get('etag');
      await succeeds(`DELETE /firms/${firm}`);
      const read = await succeeds(`GET /visits/${visit}?expand=firm_id,firm_ids`);
      const { firm_id, firm_name, firm_ids, expanded } = read.json;
      assert.deepEqual([firm_id, firm_name, firm_ids], [firm, '', [firm]]);
      assert.deepEqual(expanded, { firm_id: null, firm_ids: [] });
      assert.notEqual((await succeeds(`GET /visits/${visit}`)).headers.get('etag'), etag);
      assert.deepEqual(await idsOf(`GET /visits?firm_id=${firm}`), [visit]);
      await succeeds(`PUT /visits/${visit}`, { body: { firm_id: firm, firm_ids: [firm], note: 'b' } });
      for (const body of [{ firm_id: firm }, { firm_ids: [firm] }]) {
        const answer = await call(`PATCH /visits/${other}`, { body });
        assert.deepEqual([answer.status, answer.json.code], [400, 'missing_reference'], answer.text);
      }
      assert.equal((await call('POST /visits', { body: { firm_id: firm } })).status, 400);
      // The same applies to many records in one request.
      for (const value of [{ firm_id: firm }, { firm_ids: [firm] }]) {
        const lines = JSON.stringify(value);
        const imported = await succeeds('POST /visits/import', {
          body: lines,
          headers: { 'content-type': 'application/x-ndjson' },
        });
        assert.deepEqual([imported.json.created, imported.json.failed], [0, 1], imported.text);
        for (const [request, records, statuses] of [
          ['POST /visits/batch', [value, {}], [400, 201]],
          ['PATCH /visits/batch', [visit, other].map((id) => ({ id, ...value })), [200, 400]],
        ] as const) {
          const { json, text } = await succeeds(request, { body: { records, on_error: 'continue' } });
          const results = json.results as { status: number }[];
          assert.deepEqual(
            results.map(({ status }) => status),
            statuses,
            text,
          );
        }
      }
      await succeeds(`POST /firms/${firm}/restore`);
      assert.equal((await succeeds(`GET /visits/${visit}`)).json.firm_name, 'Referred');
    });

    test('modules find the newest record that is not in the trash', async () => {
      const later = await create('/visits', { note: 'later' });
      const ids: number[] = [];
      for (let count = 0; count < 3; count++) ids.push(await create('/visits', { note: 'sought' }));
      // Of records that were created at the same time, the newest has the highest ID.
      await rows(`update "visits" set "created_at" = now() where "id" in (${ids.join()})`);
      await succeeds(`DELETE /visits/${ids[2]}`);
      const { database, resources } = instance();
      const find = (organization: string, ...parameters: Parameters<ExistingRecords['find']>) =>
        changingRecords(database, resources, commandCaller(organization), (records) =>
          records.find(...parameters),
        );
      assert.equal(await find(alpha.id, 'visits', ['note', 'sought']), String(ids[1]));
      const both = ['note', ['sought', 'later']] as const;
      assert.equal(await find(alpha.id, 'visits', both), String(ids[1]));
      assert.equal(await find(alpha.id, 'visits', both, ['note', ['sought']]), String(later));
      assert.equal(await find(beta.id, 'visits', both), undefined);
    });

    test('lists of children and expansions do not contain trashed records', async () => {
      const firm = await create('/firms', { name: 'Parent' });
      const visit = await create('/visits', { firm_id: firm });
      await succeeds(`DELETE /visits/${visit}`);
      const { expanded } = (await succeeds(`GET /firms/${firm}?expand=visits`)).json as {
        expanded: { visits: { data: unknown[] } };
      };
      assert.deepEqual(expanded.visits.data, []);
    });

    test('unique values are free while a record is in the trash; restoring into a taken value is a conflict', async () => {
      const first = await create('/firms', { name: 'Unique' });
      await succeeds(`DELETE /firms/${first}`);
      await create('/firms', { name: 'Taken' });
      const records = [{ name: 'Unique' }, { name: 'Taken' }];
      const lines = records.map((record) => JSON.stringify(record)).join('\n');
      const dryRun = await succeeds('POST /firms/import?dry_run=true', {
        body: lines,
        headers: { 'content-type': 'application/x-ndjson' },
      });
      assert.deepEqual([dryRun.json.created, dryRun.json.failed], [1, 1]);
      const batch = await succeeds('POST /firms/batch', { body: { records, on_error: 'continue' } });
      const results = batch.json.results as { status: number; id: number }[];
      assert.deepEqual(
        results.map(({ status }) => status),
        [201, 409],
      );
      const second = results[0]?.id;
      const conflict = await call(`POST /firms/${first}/restore`);
      assert.deepEqual(
        [conflict.status, conflict.json.code, conflict.json.existing_id],
        [409, 'duplicate', second],
      );
      const upsert = await succeeds('POST /firms/batch', {
        body: { match: ['name'], records: [{ name: 'Unique', size: 5 }] },
      });
      assert.deepEqual(upsert.json.results, [{ status: 200, id: second }]);
      await succeeds(`DELETE /firms/${second}`);
      await succeeds(`POST /firms/${first}/restore`);
    });

    test('the conflict of a restore does not reveal who has a value that the caller cannot read', async () => {
      const first = await create('/firms', { name: 'first', code: 'hidden' });
      await succeeds(`DELETE /firms/${first}`);
      const second = await create('/firms', { name: 'second', code: 'hidden', size: 100 });
      for (const [grants, existing] of [
        [['firms:read', 'firms.codes:read'], second],
        [['firms:read'], undefined],
        [['firms.codes:read'], undefined],
        [['firms:read:small', 'firms.codes:read'], undefined],
      ] as const) {
        const { key } = await limitedKey(instance(), alpha, ['firms:restore', ...grants]);
        const { status, json } = await call(`POST /firms/${first}/restore`, { key });
        assert.deepEqual([status, json.code, json.existing_id], [409, 'duplicate', existing], String(grants));
      }
    });

    test('on_delete: restrict applies, except to records in the trash', async () => {
      const firm = await create('/firms', { name: 'Restricted' });
      const visit = await create('/visits', { kept_firm_id: firm });
      const rejected = await call(`DELETE /firms/${firm}`);
      assert.deepEqual([rejected.status, rejected.json.code], [409, 'referenced']);
      await succeeds(`DELETE /visits/${visit}`);
      await succeeds(`DELETE /firms/${firm}`);
    });

    test('listing the trash and restoring require the grant, and scopes limit both', async () => {
      const [small, large] = [
        await create('/firms', { name: 'Small', size: 1 }),
        await create('/firms', { name: 'Large', size: 100 }),
      ];
      await succeeds('DELETE /firms/batch', { body: { ids: [small, large] } });
      const path = '/firms?trashed=true&name[in]=Small&name[in]=Large';
      const { key: reader } = await limitedKey(instance(), alpha, [
        'firms:list',
        'firms:read',
        'firms:delete',
      ]);
      for (const accept of ['application/json', 'text/csv'])
        assert.equal((await call(`GET ${path}`, { key: reader, headers: { accept } })).status, 403, accept);
      assert.equal((await call(`POST /firms/${small}/restore`, { key: reader })).status, 403);
      const { key } = await limitedKey(instance(), alpha, [
        'firms:list',
        'firms:read',
        'firms:restore:small',
      ]);
      const listed = (await succeeds(`GET ${path}`, { key })).json.data as { id: number }[];
      assert.deepEqual(
        listed.map(({ id }) => id),
        [small],
      );
      assert.equal((await call(`POST /firms/${large}/restore`, { key })).status, 404);
      // A grant to restore all records does not include records that the caller cannot read.
      const partial = ['firms:list', 'firms:read:small', 'firms:restore', 'firms:update'];
      const { key: partialReader } = await limitedKey(instance(), alpha, partial);
      assert.equal((await call(`POST /firms/${large}/restore`, { key: partialReader })).status, 404);
      await succeeds(`POST /firms/${small}/restore`, { key: partialReader });
      await succeeds(`DELETE /firms/${small}`);
      await succeeds(`POST /firms/${small}/restore`, { key });
      // An export of the trash ends when its caller can no longer restore records.
      const { operations } = instance().resources.find(({ name }) => name === 'firms') ?? assert.fail();
      const exporter = operations.list.export ?? assert.fail();
      const caller = commandCaller(alpha.id);
      const continues = (query: Readonly<Record<string, string>>, grants: readonly string[]) => {
        const stored = grants.map((grant) => ({ object: 'firms', action: grant }));
        const principal = { ...caller.principal, grants: compileGrants(stored) };
        try {
          exporter.authorizeRelated(exporter.plan({ caller, query }), principal);
          return true;
        } catch (cause) {
          assert.equal((cause as { status?: number }).status, 403);
          return false;
        }
      };
      assert.deepEqual(
        [
          continues({ trashed: 'true' }, ['list', 'restore']),
          continues({ trashed: 'true' }, ['list']),
          continues({}, ['list']),
        ],
        [true, false, true],
      );
    });

    test('the trash is paginated with cursors that are not valid for the list, and exported', async () => {
      await rows(
        `insert into "firms" ("organization_id", "name", "created_at", "updated_at", "_trashed_at") select ${alpha.id}, 'Page ' || n, now(), now(), now() from generate_series(1, 25) n`,
      );
      const page = await succeeds('GET /firms?trashed=true&sort=id');
      const [, next = ''] =
        /<[^>]*\/firms\?([^>]*)>; rel="next"/.exec(String(page.headers.get('link'))) ?? [];
      assert.match(next, /trashed=true/);
      const more = (await succeeds(`GET /firms?${next}`)).json.data as { id: number }[];
      const seen = new Set((page.json.data as { id: number }[]).map(({ id }) => id));
      assert.ok(more.length > 0 && more.every(({ id }) => !seen.has(id)));
      assert.equal((await call(`GET /firms?${next.replace('trashed=true&', '')}`)).status, 400);
      assert.equal((await call('GET /firms?trashed=maybe')).status, 400);
      const csv = await succeeds('GET /firms?trashed=true&name=Page%207', {
        headers: { accept: 'text/csv' },
      });
      assert.match(csv.text, /trashed_at/);
      assert.match(csv.text, /Page 7/);
    });

    test('the history says trash, restore and purge', async () => {
      const id = await create('/firms', { name: 'History' });
      await succeeds(`DELETE /firms/${id}`);
      await succeeds(`POST /firms/${id}/restore`);
      await succeeds(`DELETE /firms/${id}`);
      await rows(`update "firms" set "_trashed_at" = now() - interval '31 days' where "id" = ${id}`);
      await purge('firms');
      const { data } = (await succeeds(`GET /firms/${id}/history`)).json as {
        data: { action: string; before: { name: string } | null; after: { name: string } | null }[];
      };
      assert.deepEqual(
        data.map(({ action, before, after }) => [action, before?.name, after?.name]),
        [
          ['purge', 'History', undefined],
          ['trash', 'History', undefined],
          ['restore', undefined, 'History'],
          ['trash', 'History', undefined],
          ['create', undefined, 'History'],
        ],
      );
      assert.equal((await call(`POST /firms/${id}/restore`)).status, 404);
    });

    test('the change feed and subscriptions contain the actions of the trash', async () => {
      const everything = [
        { object: 'events', actions: ['*'] },
        { object: '*', actions: ['*'] },
      ] as const;
      const key = await alpha.keyWith(everything);
      const feed = (query: string) => instance().call(`GET /events?${query}`, { key });
      const subscribe = async (path: string, actions?: readonly string[], as = key) => {
        const body = { url: receiver.url + path, resources: ['firms'], ...(actions && { actions }) };
        await settledFeed(instance());
        const answer = await instance().call('POST /events/subscriptions', { key: as, body });
        assert.equal(answer.status, 201, answer.text);
      };
      // Both drivers share the receiver.
      const paths = ['all', 'deletions', 'creations', 'limited'].map(
        (name) => `/${instance().driver}-${name}`,
      );
      const [all = '', deletions = '', creations = '', limited = ''] = paths;
      await subscribe(all);
      await subscribe(deletions, ['delete']);
      await subscribe(creations, ['create']);
      const small = await limitedKey(instance(), alpha, ['events:create', 'firms:read:small']);
      await subscribe(limited, ['delete'], small.key);
      let cursor = String((await feed('after=now')).json.next);
      const id = await create('/firms', { name: 'Event' });
      await succeeds(`DELETE /firms/${id}`);
      await succeeds(`POST /firms/${id}/restore`);
      await succeeds(`DELETE /firms/${id}`);
      await rows(`update "firms" set "_trashed_at" = now() - interval '31 days' where "id" = ${id}`);
      await purge('firms');
      const changes: Change[] = [];
      await until(async () => {
        const { json } = await feed(`after=${encodeURIComponent(cursor)}&resources=firms`);
        cursor = String(json.next);
        changes.push(...(json.data as Change[]).filter((change) => change.id === id));
        return changes.length >= 5;
      }, 'the changes');
      assert.deepEqual(
        changes.map(({ action, before, after }) => [action, before !== null, after !== null]),
        [
          ['create', false, true],
          ['trash', true, false],
          ['restore', false, true],
          ['trash', true, false],
          ['purge', true, false],
        ],
      );
      /** Returns the types of the events about the record, in the order of its changes. */
      const typesAt = (path: string) =>
        receiver
          .at(path)
          .map(({ event }) => event)
          .filter(({ data }) => data.id === id)
          .sort((a, b) => a.data.version - b.data.version)
          .map(({ type }) => type.replace('firms.', ''));
      await until(async () => typesAt(all).length >= 5, 'all events');
      assert.deepEqual(typesAt(all), ['created', 'trashed', 'restored', 'trashed', 'purged']);
      await until(async () => typesAt(deletions).length >= 3, 'the deletions');
      assert.deepEqual(typesAt(deletions), ['trashed', 'trashed', 'purged']);
      await until(async () => typesAt(limited).length >= 3, 'the deletions in the scope');
      assert.deepEqual(typesAt(limited), ['trashed', 'trashed', 'purged']);
      await until(async () => typesAt(creations).length >= 2, 'the creations');
      assert.deepEqual(typesAt(creations), ['created', 'restored']);
      for (const { event } of receiver.at(all).filter(({ event }) => /trashed|purged/.test(event.type)))
        assert.equal(event.data.record, null);
    });

    test('an erasure deletes records in the trash and their values in the history', async () => {
      const id = await create('/firms', { name: 'Quillfeather' });
      await succeeds(`DELETE /firms/${id}`);
      const erase = ['person', 'forget', '--org', alpha.slug, '--records', 'firms?name=Quillfeather'];
      const preview = await runCommand(instance(), erase);
      assert.deepEqual((preview.json as { records: unknown }).records, { firms: [String(id)] });
      await runCommand(instance(), [...erase, '--erase']);
      assert.deepEqual(await idsOf('GET /firms?trashed=true&name=Quillfeather'), []);
      assert.equal((await call(`POST /firms/${id}/restore`)).status, 404);
      const history = await succeeds(`GET /firms/${id}/history`);
      assert.doesNotMatch(history.text, /Quillfeather/);
      assert.equal((history.json.data as Change[]).length, 3);
    });

    test('quotas count records in the trash', async () => {
      const small = await instance().organization('small');
      const options = { key: small.key };
      const send = (request: string, body?: object) => call(request, { ...options, ...(body && { body }) });
      const { id } = (await send('POST /firms', { name: 'First' })).json;
      assert.equal((await send(`DELETE /firms/${id}`)).status, 200);
      await file.apply(instance(), { ...settings, quotas: { organizations: { small: { records: 1 } } } });
      const rejected = await send('POST /firms', { name: 'Second' });
      assert.deepEqual([rejected.status, rejected.json.code], [403, 'quota_exceeded']);
      assert.equal((await send(`POST /firms/${id}/restore`)).status, 200, 'restoring creates no record');
      await file.apply(instance(), settings);
    });

    test('the API description contains the trash', async () => {
      const { json } = await instance().call('GET /docs/openapi.json', {});
      const { paths, components } = json as {
        paths: Record<string, Record<string, { parameters: { $ref: string }[] }>>;
        components: { schemas: Record<string, { properties: Record<string, Described> }> };
      };
      interface Described {
        readonly description?: string;
        readonly properties?: Readonly<Record<string, unknown>>;
      }
      const property = (schema: string, name: string) => components.schemas[schema]?.properties[name];
      assert.ok(paths['/api/v1/firms/{id}/restore']?.post);
      assert.ok(paths['/api/v1/firms']?.get?.parameters.some(({ $ref }) => $ref.endsWith('/firms.trashed')));
      assert.match(property('FirmProjection', 'trashed_at')?.description ?? '', /moved to the trash/);
      for (const schema of ['Firm', 'LeadProjection'])
        assert.equal(property(schema, 'trashed_at'), undefined);
      assert.match(property('Change', 'action')?.description ?? '', /`trash`, `restore` or `purge`/);
      assert.ok(property('ResourcePermissions', 'actions')?.properties?.restore);
      const permissions = await instance().call('GET /auth/permissions?resource=firms', { key: alpha.key });
      const { firms } = permissions.json.resources as Record<string, { actions: Record<string, unknown> }>;
      assert.deepEqual(firms?.actions.restore, { allowed: true });
    });

    test('prune deletes expired records, and --dry-run only counts them', async () => {
      const id = await create('/firms', { name: 'Pruned' });
      await succeeds(`DELETE /firms/${id}`);
      await purge('firms');
      const prune = async (...options: string[]) => {
        const { json } = await runCommand(instance(), ['prune', ...options]);
        return (json as { removed: Record<string, number> }).removed['records in the trash'];
      };
      const isInTrash = async () => (await idsOf('GET /firms?trashed=true&name=Pruned')).length === 1;
      const before = await prune('--dry-run');
      await rows(`update "firms" set "_trashed_at" = now() - interval '31 days' where "id" = ${id}`);
      assert.deepEqual([await prune('--dry-run'), await isInTrash()], [Number(before) + 1, true]);
      assert.deepEqual([await prune(), await isInTrash()], [Number(before) + 1, false]);
    });

    test('purging applies on_delete, and restrict postpones it', async () => {
      const [cleared, kept, recent] = [
        await create('/firms', { name: 'Cleared' }),
        await create('/firms', { name: 'Kept' }),
        await create('/firms', { name: 'Recent' }),
      ];
      const referring = await create('/visits', { firm_id: cleared, firm_ids: [cleared, recent] });
      await succeeds('DELETE /firms/batch', { body: { ids: [cleared, kept, recent] } });
      await rows(
        `update "firms" set "_trashed_at" = now() - interval '31 days' where "id" in (${cleared}, ${kept})`,
      );
      await rows(
        `insert into "visits" ("organization_id", "created_at", "updated_at", "kept_firm_id", "firm_ids", "note") values (${alpha.id}, now(), now(), ${kept}, '{}', '')`,
      );
      await purge('firms');
      const visit = (await succeeds(`GET /visits/${referring}`)).json;
      assert.deepEqual([visit.firm_id, visit.firm_ids], [null, [recent]]);
      assert.deepEqual(
        await idsOf('GET /firms?trashed=true&sort=id&name[in]=Cleared&name[in]=Kept&name[in]=Recent'),
        [kept, recent],
      );
    });

    test('a purge deletes the records of all organizations whose period is over, and no others', async () => {
      const ids: number[] = [];
      for (const { key } of [alpha, beta, beta]) {
        const { json } = await call('POST /firms', { key, body: { name: 'Expires somewhere' } });
        await succeeds(`DELETE /firms/${json.id}`, { key });
        ids.push(Number(json.id));
      }
      const [own, foreign, recent] = ids;
      await rows(
        `update "firms" set "_trashed_at" = now() - interval '31 days' where "id" in (${own}, ${foreign})`,
      );
      await rows(`update "firms" set "_trashed_at" = now() - interval '29 days' where "id" = ${recent}`);
      await purge('firms');
      const left = await rows(`select "id"::text from "firms" where "id" in (${ids.join()})`);
      assert.deepEqual(
        left.map(([id]) => Number(String(id))),
        [recent],
      );
    });

    test('a run of the purge deletes all expired records, however many there are', async () => {
      const many = await instance().organization('many');
      await rows(
        `insert into "firms" ("organization_id", "created_at", "updated_at", "name", "code", "_trashed_at")
         select ${many.id}, now(), now(), 'Many ' || n, 'many ' || n, now() - interval '31 days' from generate_series(1, 1001) n`,
      );
      const resource = instance().resources.find(({ name }) => name === 'firms') ?? assert.fail();
      const step = purgeStep(instance().database, resource);
      const left = async () => {
        for (let batches = 1; (await step(tablesOf(instance().database))) === retentionBatch; batches++)
          assert.ok(batches < 10, 'the purge does not end');
        const kept = `select "id"::text from "firms" where "organization_id" = ${many.id}`;
        return (await rows(kept)).length;
      };
      // As many records as a batch has cannot be deleted, and precede the others.
      await rows(
        `insert into "visits" ("organization_id", "created_at", "updated_at", "firm_ids", "note", "kept_firm_id")
         select ${many.id}, now(), now(), '{}', '', "id" from "firms" where "organization_id" = ${many.id} order by "id" limit ${retentionBatch}`,
      );
      assert.equal(await left(), retentionBatch);
      await rows(`delete from "visits" where "organization_id" = ${many.id}`);
      assert.equal(await left(), 0);
    });

    test('a record in the trash postpones the purge of the record to which it refers, but not of others', async () => {
      const [kept, other] = [
        await create('/firms', { name: 'Referred from the trash' }),
        await create('/firms', { name: 'Not referred' }),
      ];
      const visit = await create('/visits', { kept_firm_id: kept });
      await succeeds(`DELETE /visits/${visit}`);
      await succeeds('DELETE /firms/batch', { body: { ids: [kept, other] } });
      await rows(
        `update "firms" set "_trashed_at" = now() - interval '31 days' where "id" in (${kept}, ${other})`,
      );
      const inTrash = () =>
        idsOf('GET /firms?trashed=true&name[in]=Referred%20from%20the%20trash&name[in]=Not%20referred');
      await purge('firms');
      assert.deepEqual(await inTrash(), [kept]);
      await succeeds(`POST /visits/${visit}/restore`);
      assert.equal((await succeeds(`GET /visits/${visit}`)).json.kept_firm_id, kept);
      await succeeds(`PATCH /visits/${visit}`, { body: { kept_firm_id: null } });
      await purge('firms');
      assert.deepEqual(await inTrash(), []);
    });

    test('a later purge deletes records that precede those of an earlier one', async () => {
      const [first, second] = [
        await create('/firms', { name: 'Expires later' }),
        await create('/firms', { name: 'Expires first' }),
      ];
      await succeeds('DELETE /firms/batch', { body: { ids: [first, second] } });
      const resource = instance().resources.find(({ name }) => name === 'firms') ?? assert.fail();
      const step = purgeStep(instance().database, resource);
      const kept = async (expired: number) => {
        await rows(`update "firms" set "_trashed_at" = now() - interval '31 days' where "id" = ${expired}`);
        await step(tablesOf(instance().database));
        return idsOf('GET /firms?trashed=true&sort=id&name[in]=Expires%20later&name[in]=Expires%20first');
      };
      assert.deepEqual(await kept(second), [first]);
      assert.deepEqual(await kept(first), []);
    });
  },
  { sources, environment: file.environment },
);
