// The change log contains one row for every change to a record, regardless of the route, with the caller, the
// time and the previous record.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { noGrants } from '../../engine/records/index.ts';
import { creatingRecords } from '../../engine/records/record-resource.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { changeLogRetention } from '../../plugins/change-log/retention.ts';
import type { Change } from '../support/changes.ts';
import { type Answer, type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

/** A resource with a secret field and two references to the same resource. */
const family = {
  file: 'family.yaml',
  text: `
singular: relative
description: Somebody of a family.
common: all
fields:
  name: { type: string, description: The name. }
  big: { type: int64, description: A large number. }
  pin: { type: string, sensitive: true, description: A secret. }
  mother_id: { type: reference, to: family, nullable: true, description: The mother. }
  father_id: { type: reference, to: family, nullable: true, description: The father. }
  guardian_id: { type: reference, to: family, nullable: true, on_delete: restrict, retired: true }
  sitter_ids: { type: references, to: family, on_delete: restrict, retired: true }
  mother_name: { type: joined, through: mother_id, show: [name], description: The mother's name. }
sort: { by: created_at, direction: desc }
unique: [name]
`,
};

/** A resource with a secret field and no joined field, so the JSON of a record needs no other table. */
const vaults = {
  file: 'vaults.yaml',
  text: `
singular: vault
description: A safe place.
common: all
fields:
  name: { type: string, description: The name. }
  pin: { type: string, sensitive: true, description: A secret. }
sort: { by: created_at, direction: desc }
unique: [name]
`,
};

onBothDrivers(
  'the ledger',
  (instance, driver) => {
    let acme: Organization;
    let other: Organization;
    before(async () => {
      acme = await instance().organization('acme');
      other = await instance().organization('other');
    });
    const call = async (
      request: string,
      body?: unknown,
      options: Call = { key: acme.key },
    ): Promise<Answer> => {
      const answer = await instance().call(`${request.replace(' ', ' /api/v1/')}`, {
        ...options,
        ...(body === undefined ? {} : { body }),
      });
      assert.ok(answer.status < 300, answer.text);
      return answer;
    };
    const make = async (resource: string, body: unknown) =>
      Number((await call(`POST ${resource}`, body)).json.id);
    const changesOf = async (resource: string, id: number): Promise<readonly Change[]> =>
      (await call(`GET ${resource}/${id}/history`)).json.data as Change[];
    const summaries = (changes: readonly Change[]) =>
      changes.map(({ action, version, before, after }) => [
        action,
        version,
        before?.name ?? null,
        after?.name ?? null,
      ]);

    test('one request returns who deleted a record and its last values', async () => {
      const ann = await makePerson(instance(), [{ organization: acme }]);
      const { byToken } = await logIn(instance(), ann);
      const id = await make('family', { name: 'Ada', big: 1, pin: 'hunter2' });
      await call(`PUT family/${id}`, { name: 'Ada L.', big: 1, pin: 'hunter3' });
      const deletion = await call(`DELETE family/${id}`, undefined, { headers: byToken });
      const answer = await call(`GET family/${id}/history`);
      const [last, changed, first] = answer.json.data as Change[];
      assert.ok(last && changed && first);
      assert.equal(last.action, 'delete');
      assert.deepEqual(last.actor, { kind: 'user', id: Number(ann.id), name: ann.email });
      assert.equal(last.request_id, deletion.headers.get('x-request-id'));
      assert.equal(last.after, null);
      assert.equal(last.before?.name, 'Ada L.');
      assert.deepEqual([last.version, changed.version, first.version], [3, 2, 1]);
      assert.equal(changed.actor.kind, 'key');
      assert.deepEqual(changed.changed, ['updated_at', 'name'], 'in the order of the fields');
      assert.equal(first.before, null);
      assert.ok(first.changed.includes('big'));
      for (const text of ['hunter', 'pin', 'mother_name']) assert.ok(!answer.text.includes(text), text);
    });

    for (const resource of ['family', 'vaults']) {
      test(`no kind of write adds a sensitive value of ${resource} to the change log`, async () => {
        const headers = { authorization: `Bearer ${acme.key}` };
        const record = (name: string) => ({ name, pin: `secret of ${name}` });
        const results = async (request: string, body: unknown) =>
          (await call(request, body)).json.results as { id: number }[];
        const one = await make(resource, record('one'));
        const { json: once } = await call(`POST ${resource}`, record('once'), {
          headers: { ...headers, 'idempotency-key': `secret-${resource}` },
        });
        const replaced = await call(`PUT ${resource}/${one}`, { ...record('one'), pin: 'secret of PUT' });
        assert.equal(replaced.json.pin, 'secret of PUT', 'the response contains the value');
        await call(`PATCH ${resource}/${one}`, { pin: 'secret of PATCH' });
        const tag = (await call(`GET ${resource}/${one}`)).headers.get('etag') ?? '';
        await call(
          `PATCH ${resource}/${one}`,
          { name: 'one+', pin: 'secret of If-Match' },
          { headers: { ...headers, 'if-match': tag } },
        );
        const concurrent = await Promise.all(
          Array.from({ length: 20 }, (_, index) => make(resource, record(`many ${index}`))),
        );
        await Promise.all(
          concurrent.map((id) => call(`PATCH ${resource}/${id}`, { pin: `secret of PATCH ${id}` })),
        );
        await Promise.all(concurrent.map((id) => call(`DELETE ${resource}/${id}`)));
        const batch = await results(`POST ${resource}/batch`, { records: [record('b1'), record('b2')] });
        const ids = batch.map(({ id }) => id);
        await results(`POST ${resource}/batch`, {
          records: [{ name: 'b1', pin: 'secret of an upsert' }],
          match: ['name'],
        });
        await results(`PATCH ${resource}/batch`, {
          records: ids.map((id) => ({ id, pin: `secret of batch ${id}` })),
        });
        await call(`POST ${resource}/import`, 'name,pin\nimported,secret of an import\n', {
          headers: { ...headers, 'content-type': 'text/csv' },
        });
        await results(`DELETE ${resource}/batch`, { ids });
        await call(`DELETE ${resource}/${one}`);

        for (const id of [one, Number(once.id), ...concurrent, ...ids]) {
          const { json, text } = await call(`GET ${resource}/${id}/history`);
          assert.ok((json.data as Change[]).length > 0);
          assert.ok(!/pin|secret/.test(text), text);
        }
        // The change feed returns these entries, too.
        const entries = await instance().database.run({
          name: '',
          text: 'select to_jsonb(l)::text from crm_ledger l where object = $1',
          values: [resource],
        });
        assert.ok(entries.length > 70);
        const stored = entries.map(([entry]) => String(entry)).filter((entry) => /pin|secret/.test(entry));
        assert.deepEqual(stored, []);
      });
    }

    test('returns values exactly as they were sent', async () => {
      const { json, text } = await call('POST family', '{"name":"Big","big":9007199254740993}');
      assert.match(text, /9007199254740993/);
      const history = await call(`GET family/${json.id}/history`);
      assert.match(history.text, /"after":\{"id":\d+,.*"big":9007199254740993/);
    });

    test('times are in UTC', async () => {
      const id = await make('vaults', { name: 'Timed' });
      await instance().database.run({
        name: '',
        text: `update crm_ledger set at = '2026-03-01T00:30:00.120000+02:00' where object = 'vaults' and object_id = $1::bigint`,
        values: [String(id)],
      });
      const { data } = (await call(`GET vaults/${id}/history`)).json;
      assert.deepEqual(
        (data as { at: string }[]).map(({ at }) => at),
        ['2026-02-28T22:30:00.12Z'],
      );
    });

    test('values logged before their field became sensitive are not returned', async () => {
      const id = await make('vaults', { name: 'Open' });
      await call(`PATCH vaults/${id}`, { name: 'Closed' });
      const text = `update crm_ledger set record = (record::jsonb || jsonb_build_object('pin', 'hunter' || version))::text
        where object = 'vaults' and object_id = $1::bigint`;
      await instance().database.run({ name: '', text, values: [String(id)] });
      const { json, text: history } = await call(`GET vaults/${id}/history`);
      assert.deepEqual(
        (json.data as Change[]).map(({ changed }) => changed.includes('name')),
        [true, true],
      );
      assert.doesNotMatch(history, /"pin"|hunter/);
    });

    test('a field that only one of two versions contains has not changed', async () => {
      const changedBy = async (version: number) => {
        const name = `without version ${version}`;
        const id = await make('family', { name, big: 1 });
        await call(`PATCH family/${id}`, { name: `${name}+`, big: 2 });
        const text = `update crm_ledger set record = (record::jsonb - 'big')::text
          where object = 'family' and object_id = $1::bigint and version = $2::bigint`;
        await instance().database.run({ name: '', text, values: [String(id), String(version)] });
        const [update, creation] = await changesOf('family', id);
        assert.equal(creation?.changed.includes('big'), version === 2);
        return update?.changed.toSorted();
      };
      for (const version of [1, 2]) assert.deepEqual(await changedBy(version), ['name', 'updated_at']);
    });

    test('rejects other organizations, unknown IDs and callers without the read grant', async () => {
      const id = await make('family', { name: 'Hidden' });
      const get = (path: string, key: string) =>
        instance().call(`GET /api/v1/family/${path}/history`, { key });
      for (const [path, key] of [
        [String(id), other.key],
        ['999999', acme.key],
        ['x', acme.key],
      ] as const) {
        const answer = await get(path, key);
        assert.equal(answer.status, 404);
        assert.ok(!answer.text.includes('Hidden'));
      }
      const writer = await acme.keyWith([{ object: 'family', actions: ['update'] }]);
      assert.equal((await get(String(id), writer)).status, 403);
      assert.equal((await instance().call(`GET /api/v1/family/${id}/history`)).status, 401);
    });

    test('returns pages of twenty, newest first, with cursors valid for one record only', async () => {
      const id = await make('family', { name: 'n1' });
      for (let number = 2; number <= 45; number++) await call(`PATCH family/${id}`, { name: `n${number}` });
      const names: unknown[] = [];
      let pages = 0;
      let next: string | undefined = `/api/v1/family/${id}/history`;
      let cursor = '';
      while (next !== undefined) {
        const answer: Answer = await instance().call(`GET ${next}`, { key: acme.key });
        assert.equal(answer.status, 200);
        pages++;
        names.push(...(answer.json.data as Change[]).map(({ after }) => after?.name));
        next = /<(.*)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
        cursor = next === undefined ? cursor : (next.split('cursor=')[1] ?? '');
      }
      assert.equal(pages, 3);
      assert.deepEqual(
        names,
        Array.from({ length: 45 }, (_, index) => `n${45 - index}`),
      );
      const elsewhere = await make('family', { name: 'elsewhere' });
      for (const [path, key] of [
        [`family/${elsewhere}/history?cursor=${cursor}`, acme.key],
        [`vaults/${id}/history?cursor=${cursor}`, acme.key],
        [`family/${id}/history?cursor=${cursor}`, other.key],
        [`family/${id}/history?cursor=${cursor}x`, acme.key],
        [`family/${id}/history?cursor=?`, acme.key],
        [`family/${id}/history?cursor=${cursor}&cursor=${cursor}`, acme.key],
      ] as const) {
        const answer = await instance().call(`GET /api/v1/${path}`, { key });
        assert.equal(answer.status, 400, path);
      }
      const strict = (query: string) =>
        instance().call(`GET /api/v1/family/${id}/history?${query}`, {
          headers: { authorization: `Bearer ${acme.key}`, prefer: 'handling=strict' },
        });
      assert.equal((await strict(`cursor=${cursor}`)).status, 200);
      const unknown = await strict('page=2');
      assert.deepEqual(
        [unknown.status, unknown.json.error],
        [400, 'page is not a parameter of this operation'],
      );
    });

    test('the page after the last change to a deleted record is empty', async () => {
      const id = await make('family', { name: 'm1' });
      for (let number = 2; number <= 19; number++) await call(`PATCH family/${id}`, { name: `m${number}` });
      await call(`DELETE family/${id}`);
      const first = await call(`GET family/${id}/history`);
      assert.equal((first.json.data as Change[]).length, 20);
      const [, next] = /<(.*)>; rel="next"/.exec(first.headers.get('link') ?? '') ?? [];
      const { status, json, headers } = await instance().call(`GET ${next}`, { key: acme.key });
      assert.deepEqual([status, json, headers.get('link')], [200, { data: [] }, null]);
    });

    describe('every kind of write adds one row per change', () => {
      test('idempotent creates, patches and concurrent writes', async () => {
        const headers = { authorization: `Bearer ${acme.key}`, 'idempotency-key': 'once-1' };
        const once = () => call('POST family', { name: 'Once' }, { headers });
        const id = Number((await once()).json.id);
        await once();
        await call(`PATCH family/${id}`, { name: 'Twice' });
        assert.deepEqual(summaries(await changesOf('family', id)), [
          ['update', 2, 'Once', 'Twice'],
          ['create', 1, null, 'Once'],
        ]);
        const ids = await Promise.all(
          Array.from({ length: 20 }, (_, index) => make('family', { name: `many ${index}` })),
        );
        await Promise.all(ids.map((each) => call(`PUT family/${each}`, { name: `done ${each}` })));
        await Promise.all(ids.map((each) => call(`DELETE family/${each}`)));
        for (const [index, each] of ids.entries()) {
          assert.deepEqual(summaries(await changesOf('family', each)), [
            ['delete', 3, `done ${each}`, null],
            ['update', 2, `many ${index}`, `done ${each}`],
            ['create', 1, null, `many ${index}`],
          ]);
        }
      });

      test('batches', async () => {
        const results = async (request: string, body: unknown) =>
          (await call(request, body)).json.results as { id: number; status: number }[];
        const [first, second] = await results('POST family/batch', {
          records: [{ name: 'b1' }, { name: 'b2' }],
        });
        assert.ok(first && second);
        await results('POST family/batch', { records: [{ name: 'b1', big: 7 }], match: ['name'] });
        await results('PATCH family/batch', {
          records: [{ id: second.id, name: 'b2+', mother_id: first.id }],
        });
        await results('DELETE family/batch', { ids: [first.id] });
        assert.deepEqual(summaries(await changesOf('family', first.id)), [
          ['delete', 3, 'b1', null],
          ['update', 2, 'b1', 'b1'],
          ['create', 1, null, 'b1'],
        ]);
        const [nulled, ...rest] = await changesOf('family', second.id);
        assert.equal(nulled?.before?.mother_id, first.id);
        assert.equal(nulled?.after?.mother_id, null);
        assert.deepEqual(summaries(rest), [
          ['update', 2, 'b2', 'b2+'],
          ['create', 1, null, 'b2'],
        ]);
      });

      test('imports', async () => {
        const answer = await instance().call('POST /api/v1/family/import', {
          headers: { authorization: `Bearer ${acme.key}`, 'content-type': 'text/csv' },
          body: 'name\nimported\n',
        });
        assert.equal(answer.status, 200, answer.text);
        const { json } = await call('GET family');
        const record = (json.data as { id: number; name: string }[]).find(({ name }) => name === 'imported');
        assert.deepEqual(summaries(await changesOf('family', Number(record?.id))), [
          ['create', 1, null, 'imported'],
        ]);
      });

      test('references set to null by a delete are attributed to its caller', async () => {
        const parent = await make('family', { name: 'parent' });
        const both = await make('family', { name: 'both', mother_id: parent, father_id: parent });
        const self = await make('family', { name: 'self' });
        await call(`PATCH family/${self}`, { mother_id: self, father_id: parent });
        const account = await make('accounts', { name: 'A' });
        const contact = await make('contacts', { last_name: 'C', account_id: account });
        await call(`DELETE family/${parent}`);
        await call(`DELETE accounts/${account}`);
        for (const [resource, id, fields] of [
          ['family', both, ['mother_id', 'father_id']],
          ['family', self, ['father_id']],
          ['contacts', contact, ['account_id']],
        ] as const) {
          const [last] = await changesOf(resource, id);
          assert.equal(last?.action, 'update');
          assert.equal(last.actor.kind, 'key');
          for (const field of fields) {
            assert.ok(last.changed.includes(field), field);
            assert.notEqual(last.before?.[field], null);
            assert.equal(last.after?.[field], null);
          }
        }
        await call(`DELETE family/${self}`);
        assert.equal((await changesOf('family', self))[0]?.action, 'delete');
        const relatives = [await make('family', { name: 'r1' })];
        relatives.push(await make('family', { name: 'r2', mother_id: relatives[0] }));
        await call('DELETE family/batch', { ids: relatives });
        for (const id of relatives) assert.equal((await changesOf('family', id))[0]?.action, 'delete');
      });
    });

    for (const many of [false, true]) {
      test(`a ${many ? 'batch delete' : 'delete'} keeps references to other records`, async () => {
        const name = (what: string) => `${what} of ${many ? 'a batch' : 'one'}`;
        const parent = await make('family', { name: name('parent') });
        const kept = await make('family', { name: name('kept') });
        const children = [
          [parent, kept],
          [kept, parent],
        ] as const;
        const made: number[] = [];
        for (const [mother_id, father_id] of children)
          made.push(await make('family', { name: name(`child ${made.length}`), mother_id, father_id }));
        const apart = await make('family', { name: name('apart'), mother_id: kept, father_id: kept });
        await (many ? call('DELETE family/batch', { ids: [parent] }) : call(`DELETE family/${parent}`));
        for (const [index, cleared] of (['mother_id', 'father_id'] as const).entries()) {
          const other = cleared === 'mother_id' ? 'father_id' : 'mother_id';
          const { json } = await call(`GET family/${made[index]}`);
          assert.deepEqual([json[cleared], json[other]], [null, kept]);
          const [last] = await changesOf('family', made[index] ?? 0);
          assert.ok(last?.changed.includes(cleared) && !last.changed.includes(other), String(last?.changed));
        }
        assert.equal(
          (await changesOf('family', apart)).length,
          1,
          'a record without such references is kept',
        );
        if (!many) return;
        const other = await make('family', { name: name('other parent') });
        const orphan = await make('family', { name: name('orphan'), mother_id: kept, father_id: other });
        await call('DELETE family/batch', { ids: [kept, other] });
        const { mother_id, father_id } = (await call(`GET family/${orphan}`)).json;
        assert.deepEqual([mother_id, father_id], [null, null]);
        assert.equal((await changesOf('family', orphan)).length, 2, 'one change clears both references');
      });
    }

    // The embedded database has one connection, so nothing is deleted while a transaction is open.
    for (const many of driver === 'embedded' ? [] : [false, true]) {
      test(`a reference written while its record is deleted${many ? ' with others' : ''} is recorded as a change`, async () => {
        const account = await make('accounts', { name: 'Concurrent' });
        const { database, resources } = instance();
        const { id: organization } = acme;
        const principal = {
          kind: 'partner',
          actor: null,
          name: 'test',
          organization,
          user: null,
          grants: noGrants,
        } as const;
        let deletion: Promise<Answer> | undefined;
        const contact = await creatingRecords(
          database,
          resources,
          { principal, requestId: 'r' },
          async (write) => {
            const id = await write.create('contacts', { last_name: 'C', account_id: account });
            // The deletion waits for this transaction and does not see its writes.
            deletion = many
              ? call('DELETE accounts/batch', { ids: [account] })
              : call(`DELETE accounts/${account}`);
            await until(async () => {
              const text = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
              return (await database.run({ name: '', text, values: [] })).length > 0;
            }, 'the deletion to wait');
            return id;
          },
        );
        await deletion;
        const [nulled] = await changesOf('contacts', Number(contact));
        assert.equal(nulled?.before?.account_id, account);
        assert.equal(nulled?.after?.account_id, null);
        assert.equal(nulled?.actor.kind, 'key');
      });
    }

    for (const [column, value, cleared] of [
      ['guardian_id', '$1::bigint', null],
      ['sitter_ids', 'array[$1::bigint]', '{}'],
    ] as const)
      test(`a reference in the retired field ${column} does not block a delete`, async () => {
        const guardian = await make('family', { name: `guardian in ${column}` });
        const name = `ward with ${column}`;
        const ward = await make('family', { name });
        const run = (text: string, ...values: readonly number[]) =>
          instance().database.run({ name: '', text, values: values.map(String) });
        await run(`update family set ${column} = ${value} where id = $2::bigint returning 1`, guardian, ward);
        await call(`DELETE family/${guardian}`);
        assert.deepEqual(await run(`select ${column}::text from family where id = $1::bigint`, ward), [
          [cleared],
        ]);
        assert.deepEqual(summaries(await changesOf('family', ward)), [
          ['update', 3, name, name],
          ['create', 1, null, name],
        ]);
      });

    test('retention deletes old changes and keeps the previous record of each remaining change', async () => {
      const id = await make('family', { name: 'v1' });
      for (const name of ['v2', 'v3', 'v4']) await call(`PATCH family/${id}`, { name });
      const { database } = instance();
      await database.run({
        name: '',
        text: `update crm_ledger set at = now() - interval '31 days' where object_id < $1::bigint or version < 3`,
        values: [String(id)],
      });
      assert.ok((await changeLogRetention(tablesOf(database), 30)) > 2);
      assert.equal(await changeLogRetention(tablesOf(database), 30), 0);
      assert.deepEqual(summaries(await changesOf('family', id)), [
        ['update', 4, 'v3', 'v4'],
        ['update', 3, 'v2', 'v3'],
      ]);
    });

    for (const [expired, previousId] of [
      ['family', 5000],
      ['accounts', 6000],
    ] as const) {
      test(`retention of ${expired} does not change the history of a record of another resource with the same ID`, async () => {
        const { database } = instance();
        // Both resources continue with the same ID.
        for (const resource of ['family', 'accounts']) {
          const text = `select setval(pg_get_serial_sequence('${resource}', 'id'), ${previousId})::text`;
          await database.run({ name: '', text, values: [] });
        }
        const id = await make('family', { name: `${expired} v1` });
        assert.equal(await make('accounts', { name: 'A1' }), id);
        await call(`PATCH family/${id}`, { name: `${expired} v2` });
        await call(`PATCH accounts/${id}`, { name: 'A2' });
        const complete = {
          family: [
            ['update', 2, `${expired} v1`, `${expired} v2`],
            ['create', 1, null, `${expired} v1`],
          ],
          accounts: [
            ['update', 2, 'A1', 'A2'],
            ['create', 1, null, 'A1'],
          ],
        };
        const both = async () => ({
          family: summaries(await changesOf('family', id)),
          accounts: summaries(await changesOf('accounts', id)),
        });
        assert.deepEqual(await both(), complete);
        await database.run({
          name: '',
          text: `update crm_ledger set at = now() - interval '31 days' where object = $1 and object_id = $2::bigint and version = 1`,
          values: [expired, String(id)],
        });
        assert.equal(await changeLogRetention(tablesOf(database), 30), 1);
        assert.deepEqual(await both(), { ...complete, [expired]: complete[expired].slice(0, 1) });
      });
    }

    test('the first change to a record without entries contains its previous values', async () => {
      const id = await make('family', { name: 'old', pin: 'hunter2' });
      const { database } = instance();
      await database.run({
        name: '',
        text: `delete from crm_ledger where object = 'family' and object_id = $1::bigint`,
        values: [String(id)],
      });
      assert.deepEqual((await call(`GET family/${id}/history`)).json.data, []);
      await call(`PATCH family/${id}`, { name: 'new' });
      await call(`PATCH family/${id}`, { name: 'newer' });
      const changes = await changesOf('family', id);
      assert.deepEqual(summaries(changes), [
        ['update', 3, 'new', 'newer'],
        ['update', 2, 'old', 'new'],
      ]);
      assert.ok(!JSON.stringify(changes).includes('hunter'));
    });
  },
  { sources: await sourcesWith(family, vaults) },
);
