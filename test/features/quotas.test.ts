// Quotas in config.yaml: creates beyond the limit are rejected wherever records and keys are created, and
// nothing else is rejected.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Database } from '../../engine/database/database.ts';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { listRows } from '../../engine/tables/rows.ts';
import { assertKeyQuota, keyRows, revokeKey } from '../../plugins/access/api-keys/keys.ts';
import { ownWords } from '../../plugins/admin-ui/shell/index.ts';
import { type QuotaSettings, quotaExcess, quotaLine, quotaOf } from '../../plugins/tenants/quotas/quota.ts';
import { recordQuotas } from '../../plugins/tenants/quotas/record-quotas.ts';
import { leadgenBody } from '../support/channels.ts';
import { administratorOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Call, type Instance, type Organization, onBothDrivers } from '../support/instance.ts';
import { deliver, integrate, settingsFile } from '../support/partners.ts';
import { customers, entries, newSecret, organization, variables } from '../support/payments.ts';
import { command } from '../support/people.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';
import { whileUncommitted } from '../support/uncommitted.ts';
import { people } from '../support/unique-people.ts';

const partners = {
  inbound_leads: { secrets: ['the-secret-of-inbound-leads'] },
  payments: Object.fromEntries(
    Object.entries(entries).map(([name, entry]) => [name, { ...entry, organization: 'acme' }]),
  ),
};
const file = settingsFile({ partners }, variables);

onBothDrivers(
  'quotas',
  (instance) => {
    let acme: Organization;
    let other: Organization;
    let admin: Visitor;
    const set = (quotas: Partial<QuotaSettings>) => file.apply(instance(), { partners, quotas });
    before(async () => {
      await instance().organization(organization);
      acme = await instance().organization('acme');
      other = await instance().organization('other');
      admin = await signIn(instance(), administratorOf(acme));
      for (const name of ['A', 'B', 'C']) await ask('POST', 'leads', { last_name: name });
    });
    const ask = (method: string, path: string, body?: unknown, call: Call = {}) =>
      instance().call(`${method} /api/v1/${path}`, { key: acme.key, body, ...call });
    const assertRejected = ({ status, json }: Awaited<ReturnType<Instance['call']>>) => {
      assert.deepEqual([status, json.code], [403, 'quota_exceeded'], JSON.stringify(json));
      assert.match(
        String(json.error),
        /The organization has reached its limit of \d+ (?:records|MB of records)\. Delete some/,
      );
    };
    const home = async () => readable((await admin.get('/setup/o/acme')).text);
    const count = async () => {
      const headers = { prefer: 'count=exact' };
      const response = await ask('GET', 'leads', undefined, { headers });
      return Number(response.headers.get('x-total-count'));
    };

    describe('records', () => {
      before(() => set({ organizations: { acme: { records: 5 } } }));

      test('rejects creates, batches, imports and forms once the quota is used up, and nothing else', async () => {
        const batch = { records: [{ last_name: 'D' }, { last_name: 'E' }, { last_name: 'F' }] };
        assertRejected(await ask('POST', 'leads/batch', batch));
        assert.equal(await count(), 3, 'a batch that does not fit writes nothing');
        assert.match(await home(), /Records: 3 of 5\./);
        const keyed = { headers: { 'idempotency-key': 'one' } };
        assert.equal(
          (await ask('POST', 'accounts', { name: 'D' }, keyed)).status,
          201,
          'creates of any resource are allowed',
        );
        const headers = { 'content-type': 'application/x-ndjson' };
        const lines = '{"last_name":"E"}\n';
        // A record created during a count can be counted twice until the next count.
        await until(async () => {
          const imported = await ask('POST', 'leads/import', undefined, { body: lines, headers });
          return imported.json.created === 1;
        }, 'import a line');
        for (const each of [undefined, { 'idempotency-key': 'two' }])
          assertRejected(await ask('POST', 'cases', { subject: 'F' }, each && { headers: each }));
        assertRejected(await ask('POST', 'leads/import', undefined, { body: lines, headers }));
        const form = await admin.submit('/setup/o/acme/data/leads/new', '/setup/o/acme/data/leads/new', {
          last_name: 'F',
        });
        assert.equal(form.status, 403);
        assert.match(readable(form.text), /The organization has reached its limit of 5 records/);
        await until(
          async () => /Records: 5 of 5\. You cannot create more\./.test(await home()),
          'show the used quota',
        );
        assert.equal((await ask('PATCH', 'leads/1', { last_name: 'G' })).status, 200);
        assert.equal((await ask('GET', 'leads/1')).status, 200);
        const elsewhere = await ask('POST', 'leads', { last_name: 'F' }, { key: other.key });
        assert.equal(elsewhere.status, 201, 'another organization has no quota');
      });

      test('rejects partners, and lead ads wait', async () => {
        const inbound = (slug: string) =>
          instance().call('POST /webhooks/inbound-leads', {
            headers: { 'x-inbound-secret': 'the-secret-of-inbound-leads', 'x-org-slug': slug },
            body: { email: 'f@people.example' },
          });
        assertRejected(await inbound('acme'));
        assert.equal((await inbound('other')).status, 201);
        const [customer] = customers;
        assert.ok(customer);
        const paid = JSON.stringify(
          customer.payload({ event: 'quota', email: 'f@people.example', phone: '1' }),
        );
        const payment = await instance().call(`POST /webhooks/${customer.name}-payment`, {
          headers: {
            ...customer.headers(paid, newSecret(customer.name), 'quota'),
            'content-type': 'application/json',
          },
          body: paid,
        });
        assertRejected(payment);
        const page = await integrate(instance(), acme, 'meta-lead-ads');
        await deliver(instance(), page, leadgenBody({ leadgen: '"123456789"' }));
        const item = () =>
          tablesOf(instance().database)
            .selectFrom('crm_inbox')
            .select(['status', 'error'])
            .executeTakeFirst();
        await until(async () => (await item())?.error !== '', 'try it');
        const waiting = await item();
        assert.equal(waiting?.status, 'waiting');
        assert.match(waiting?.error ?? '', /has reached its limit of 5 records/);
      });

      test('deletes free quota immediately, and a new quota applies immediately', async () => {
        assert.equal((await ask('DELETE', 'leads/3')).status, 200);
        await until(async () => (await ask('POST', 'leads', { last_name: 'H' })).status === 201, 'have room');
        assertRejected(await ask('POST', 'leads', { last_name: 'I' }));
        await set({ records: 2, organizations: { acme: { records: 0 } } });
        assert.equal((await ask('POST', 'leads', { last_name: 'I' })).status, 201);
        assert.doesNotMatch(await home(), /Records: /);
      });

      test('a batch counts the records it can create: valid ones, and those that match none', async () => {
        const counted = await instance().organization('counted');
        const batch = (body: object) =>
          ask('POST', 'contacts/batch', { on_error: 'continue', ...body }, { key: counted.key });
        const named = (...names: unknown[]) => names.map((last_name) => ({ last_name }));
        await set({ organizations: { counted: { records: 3 } } });
        const four = await batch({ records: named('A', 1, 'B', 2, 'C', 3) });
        assert.equal(four.status, 200, 'three invalid records need no quota');
        assertRejected(await batch({ records: named('D') }));
        assert.equal((await batch({ records: named(1, 2) })).status, 200, 'nothing to create');
        const upsert = (body: object) => ask('POST', 'people/batch', body, { key: counted.key });
        const matched = { match: ['email'], records: [{ email: 'a@people.example' }] };
        assertRejected(await upsert(matched));
        await set({ organizations: { counted: { records: 4 } } });
        await until(async () => (await upsert(matched)).status === 200, 'have room for one');
        assertRejected(await upsert(matched));
      });

      test('undoing a merge needs room for the other record', async () => {
        const { key } = await instance().organization('merging');
        const send = (method: string, path: string, body?: object) => ask(method, path, body, { key });
        await set({ organizations: { merging: { records: 2 } } });
        const [id, from] = [
          (await send('POST', 'people', {})).json.id,
          (await send('POST', 'people', {})).json.id,
        ];
        assert.equal((await send('POST', `people/${id}/merge`, { from })).status, 200);
        let third: unknown;
        await until(async () => {
          const answer = await send('POST', 'people', {});
          third = answer.json.id;
          return answer.status === 201;
        }, 'have room for one');
        assertRejected(await send('POST', `people/${id}/unmerge`, { from }));
        assert.equal((await send('GET', `people/${from}`)).status, 404);
        assert.equal((await send('DELETE', `people/${third}`)).status, 200);
        const undo = async () => (await send('POST', `people/${id}/unmerge`, { from })).status === 200;
        await until(undo, 'have room for the other record');
      });

      test('rejected creates use no quota once the records are counted again', async () => {
        const { key } = await instance().organization('failing');
        const send = (path: string, body: object) => ask('POST', path, body, { key });
        await set({ organizations: { failing: { records: 7 } } });
        await instance().database.run({
          name: '',
          text: `alter table leads add constraint wanted check (email <> 'rejected@people.example')`,
          values: [],
        });
        const email = 'taken@people.example';
        const created = await send('people', { email });
        assert.equal(created.status, 201);
        const rejected = [
          await send('people', { email }),
          await send('people', { account_id: 987654321 }),
          await send('people/batch', { records: [{ email: 'new@people.example' }, { email }] }),
          // A transaction of several statements reserves room for the other record.
          await send(`people/${created.json.id}/unmerge`, { from: 987654321 }),
          await instance().call('POST /webhooks/inbound-leads', {
            headers: { 'x-inbound-secret': 'the-secret-of-inbound-leads', 'x-org-slug': 'failing' },
            body: { email: 'rejected@people.example' },
          }),
        ];
        assert.deepEqual(
          rejected.map(({ status }) => status),
          [409, 400, 400, 409, 400],
        );
        const batch = { records: Array.from({ length: 6 }, () => ({})) };
        await until(async () => (await send('people/batch', batch)).status === 200, 'have room for six');
        assertRejected(await send('people', {}));
      });

      test('records admitted during a count are added to it', async () => {
        const { database, resources } = instance();
        const busy = await instance().organization('busy');
        const quotas: QuotaSettings = { records: 10, storage_mb: 0, keys: 0, organizations: {} };
        let gate = Promise.resolve();
        let counts = 0;
        // The count waits at the gate, as it would wait for a slot on a busy instance.
        const schedule: Database['schedule'] = async (...given) => {
          counts++;
          await gate;
          return database.schedule(...given);
        };
        const { reserve: admit } = recordQuotas(
          { database: { ...database, schedule }, resources, settings: { current: { quotas } } },
          (cause) => assert.fail(String(cause)),
        );
        const passes = async (count: number) => {
          try {
            (await admit(busy.id, count))?.();
            return true;
          } catch (cause) {
            assert.equal((cause as { code?: string }).code, 'quota_exceeded');
            return false;
          }
        };
        assert.ok(await passes(2), 'two of ten');
        let open = () => {};
        gate = new Promise<void>((resolve) => {
          open = resolve;
        });
        // Rejected because of the last count. Once that count is old enough, a new one starts and waits at
        // the gate.
        const before = counts;
        let late: Promise<boolean> | undefined;
        await until(() => {
          late = counts === before ? passes(11) : late;
          return counts > before;
        }, 'count again');
        assert.ok(await passes(4), 'four during the count');
        open();
        assert.equal(await late, false);
        // Admitted records are created eventually, so a later count includes them.
        const create = (count: number) =>
          database.run({
            name: '',
            text: `insert into leads (organization_id, created_at, updated_at)
              select $1::bigint, now(), now() from generate_series(1, $2::int)`,
            values: [busy.id, String(count)],
          });
        await create(4);
        assert.ok(!(await passes(7)), 'seven and four exceed ten');
        assert.ok(await passes(6), 'six and four make ten');
        await create(6);
        assert.ok(!(await passes(1)));
      });

      test('records whose writes are still running are added to a count', async () => {
        const { database, resources } = instance();
        const busy = await instance().organization('busy-writes');
        const quotas: QuotaSettings = { records: 10, storage_mb: 0, keys: 0, organizations: {} };
        const { reserve: admit, usage } = recordQuotas(
          { database, resources, settings: { current: { quotas } } },
          (cause) => assert.fail(String(cause)),
        );
        const finish = await admit(busy.id, 6);
        // The first attempt after the count has expired starts a new count, which finds no records.
        const tooMany = { code: 'quota_exceeded' };
        const start = performance.now();
        await until(async () => {
          await assert.rejects(async () => admit(busy.id, 5), tooMany);
          return performance.now() - start > 1500;
        }, 'count several times');
        assert.equal((await usage(busy.id))?.records, 6);
        finish?.();
        await until(async () => {
          const isAdmitted = await Promise.resolve(admit(busy.id, 5)).then(
            () => true,
            () => false,
          );
          return isAdmitted;
        }, 'count without the ended write');
      });

      test('more records than one statement counts are counted completely', async () => {
        const { database, resources } = instance();
        const large = await instance().organization('large');
        await database.run({
          name: '',
          text: `insert into leads (organization_id, created_at, updated_at)
            select $1::bigint, now(), now() from generate_series(1, 40001)`,
          values: [large.id],
        });
        const quotas: QuotaSettings = { records: 1, storage_mb: 0, keys: 0, organizations: {} };
        const { usage } = recordQuotas({ database, resources, settings: { current: { quotas } } }, (cause) =>
          assert.fail(String(cause)),
        );
        assert.equal((await usage(large.id))?.records, 40_001);
        // What other processes write is counted after a while.
        await database.run({
          name: '',
          text: 'delete from leads where organization_id = $1::bigint',
          values: [large.id],
        });
        await until(async () => (await usage(large.id))?.records === 0, 'count again');
      });

      test('if records cannot be counted, the last count applies, and without one nothing is rejected', async () => {
        const { database, resources } = instance();
        const blind = await instance().organization('blind');
        const quotas: QuotaSettings = { records: 1, storage_mb: 0, keys: 0, organizations: {} };
        let isFailing = true;
        let failures = 0;
        const schedule: Database['schedule'] = async (...given) => {
          if (isFailing) throw new Error('the database does not respond');
          return database.schedule(...given);
        };
        const { reserve: admit, usage } = recordQuotas(
          { database: { ...database, schedule }, resources, settings: { current: { quotas } } },
          () => failures++,
        );
        await admit(blind.id, 5);
        assert.deepEqual([await usage(blind.id), failures], [undefined, 2]);
        isFailing = false;
        assert.equal((await usage(blind.id))?.records, 0);
        isFailing = true;
        const tooMany = { code: 'quota_exceeded' };
        await until(async () => {
          await assert.rejects(async () => admit(blind.id, 2), tooMany);
          return failures > 2;
        }, 'count again');
      });

      test('concurrent creates cannot exceed the quota', async () => {
        await set({ records: 20 });
        const bodies = Array.from({ length: 40 }, (_, index) => ({ last_name: `P${index}` }));
        const all = await Promise.all(bodies.map((body) => ask('POST', 'leads', body)));
        const passed = all.filter(({ status }) => status === 201).length;
        // Records created during a count can be counted twice until the next count.
        assert.ok(passed > 0 && passed <= 14, String(passed));
        await until(async () => {
          await ask('POST', 'leads', { last_name: 'Q' });
          return (await count()) + 1 === 20;
        }, 'use up the quota');
        await until(async () => (await ask('POST', 'leads', {})).status === 403, 'exceed the quota');
        assert.equal((await count()) + 1, 20);
      });
    });

    test('storage counts the size of the values', async () => {
      // A dropped column remains in the catalog.
      for (const change of ['add column dropped text', 'drop column dropped'])
        await instance().database.run({ name: '', text: `alter table leads ${change}`, values: [] });
      await set({ storage_mb: 1 });
      assert.equal((await ask('POST', 'leads', { last_name: 'S' })).status, 201);
      // Random, because the database compresses values.
      const description = Buffer.from(crypto.getRandomValues(new Uint8Array(60_000))).toString('base64');
      const records = Array.from({ length: 14 }, () => ({ last_name: 'Long', description }));
      assert.equal((await ask('POST', 'leads/batch', { records })).status, 200);
      await until(async () => {
        const { status } = await ask('POST', 'leads', { last_name: 'S' });
        return status === 403;
      }, 'count the written values');
      assertRejected(await ask('POST', 'leads', { last_name: 'S' }));
      assert.match(await home(), /Storage in MB: 1 of 1\. You cannot create more\./);
    });

    test('a quota is exceeded by one record more or by the next record after the last byte', () => {
      const quota = { records: 10, storage_mb: 2, keys: 0 };
      const isRejected = (records: number, bytes: number, newRecords: number) =>
        quotaExcess(quota, { records, bytes }, newRecords) !== undefined;
      const limit = 2 * 1024 * 1024;
      assert.deepEqual(
        [isRejected(8, 0, 2), isRejected(8, 0, 3), isRejected(0, limit - 1, 1), isRejected(0, limit, 1)],
        [false, true, false, true],
      );
      assert.equal(
        quotaExcess({ records: 0, storage_mb: 0, keys: 0 }, { records: 9, bytes: limit }, 1),
        undefined,
      );
    });

    test('the home page warns of a quota from 80 percent', () => {
      const stateOf = (used: number, quota: number) =>
        quotaLine(ownWords('Records'), { used, quota }, 'en')[0]?.state;
      assert.deepEqual(
        [
          stateOf(79, 100),
          stateOf(80, 100),
          stateOf(99, 100),
          stateOf(100, 100),
          stateOf(101, 100),
          stateOf(5, 0),
        ],
        ['good', 'warn', 'warn', 'bad', 'bad', undefined],
      );
      const textsOf = (used: number) =>
        (['en', 'de'] as const).map((language) =>
          String(quotaLine(ownWords('X'), { used, quota: 20_000 }, language)[0]?.text),
        );
      assert.deepEqual(textsOf(12_345), ['X: 12,345 of 20,000.', 'X: 12.345 von 20.000.']);
      assert.match(textsOf(20_000)[1] ?? '', /^X: 20\.000 von 20\.000\. /);
    });

    test('the quota of the current slug precedes those of former slugs, and defaults fill the rest', () => {
      const settings = {
        ...{ records: 1, storage_mb: 2, keys: 3 },
        organizations: { current: { records: 10 }, former: { records: 20, keys: 30 } },
      };
      const of = (...slugs: string[]) => quotaOf(settings, slugs);
      assert.deepEqual(of('current', 'former'), { records: 10, storage_mb: 2, keys: 3 });
      assert.deepEqual(of('unknown', 'former'), { records: 20, storage_mb: 2, keys: 30 });
      assert.deepEqual(of('toString'), { records: 1, storage_mb: 2, keys: 3 });
    });

    test('keys are counted on creation, and can still be rotated', async () => {
      await set({ organizations: { acme: { keys: 2 } } });
      const create = '/setup/o/acme/keys/create';
      const page = await admin.get(create);
      const profile = /<option value="(\d+)">/.exec(page.text)?.[1] ?? '';
      const createKey = () => admin.submit(create, create, { name: 'K', profile, expires: '30' });
      const createBoth = () => Promise.all([createKey(), createKey()]);
      const both =
        instance().driver === 'embedded'
          ? await createBoth()
          : await whileUncommitted(
              instance(),
              [`select from crm_organizations where id = ${acme.id} for update`],
              createBoth,
              2,
            );
      assert.deepEqual(both.map(({ status }) => status).sort(), [200, 400], 'one of two concurrent requests');
      const again = await createKey();
      assert.equal(again.status, 400);
      assert.match(problemOf(again), /has reached its limit of 2 API keys/);
      assert.match(await home(), /API keys: 2 of 2\. You cannot create more\./);
      const [{ id } = assert.fail()] = await listRows(tablesOf(instance().database), keyRows, acme.id);
      const form = '/setup/o/acme/keys/rotate';
      const rotated = await admin.submit(`${form}?id=${id}`, form, { id, overlap: '1h' });
      assert.equal(rotated.status, 200, problemOf(rotated));
    });

    test('revoked and expired keys do not count, but keys that expire later do', async () => {
      await acme.makeKey({ expiresAt: new Date(Date.now() - 1) });
      const { id: revoked } = await acme.makeKey();
      await transaction(instance().database, (tables) =>
        revokeKey(tables, command(instance()), acme.id, revoked),
      );
      await acme.makeKey({ expiresAt: new Date(Date.now() + 3_600_000) });
      const keys = await listRows(tablesOf(instance().database), keyRows, acme.id);
      const live = keys.filter(
        ({ revoked_at, expires_at }) =>
          revoked_at === null && (expires_at === null || expires_at.getTime() > Date.now()),
      ).length;
      assert.ok(live < keys.length - 1);
      const rooms = [];
      for (const [quota, line] of [
        [live, 'You cannot create more.'],
        [live + 1, ''],
      ] as const) {
        await set({ organizations: { acme: { keys: quota } } });
        assert.match(await home(), new RegExp(`>API keys: ${live} of ${quota}\\. ?${line}<`));
        const room = transaction(instance().database, (tables) => assertKeyQuota(tables, acme.id, quota));
        rooms.push(
          await room.then(
            () => true,
            () => false,
          ),
        );
      }
      assert.deepEqual(rooms, [false, true], `${live} of ${keys.length} count`);
    });
  },
  { environment: file.environment, sources: await sourcesWith(people) },
);
