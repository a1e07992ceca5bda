// Imports that match records by unique fields: reimporting a file changes nothing, and later lines update the
// records of earlier lines.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { before, test } from 'node:test';
import { allows } from '../../engine/records/access.ts';
import { transaction } from '../../engine/tables/handle.ts';
import { changeProfile, createProfile } from '../../plugins/access/profiles/profiles.ts';
import { problemOf, signIn } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey, setGrants } from '../support/limited.ts';
import { command, makePerson } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';
import { people } from '../support/unique-people.ts';

const adults = {
  file: 'resources/adult-people.yaml',
  text: 'extends: people\nscopes:\n  adult: age >= 18\n',
};

/** Unique fields whose values are compared by their meaning. */
const cards = {
  file: 'resources/cards.yaml',
  text: `
singular: card
common: all
fields:
  name: { type: string }
  mail: { type: string, format: email, unique: true }
  iban: { type: string, format: iban, unique: true }
  phone: { type: string, format: phone, unique: true }
`,
};

onBothDrivers(
  'imports with unique fields',
  (instance, driver) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const load = (query: string, ...bodies: readonly object[]) => loadInto('people', query, ...bodies);
    const loadInto = async (resource: string, query: string, ...bodies: readonly object[]) => {
      const body = bodies.map((each) => `${JSON.stringify(each)}\n`).join('');
      const headers = { 'content-type': 'application/x-ndjson' };
      const { status, json } = await instance().call(`POST /api/v1/${resource}/import${query}`, {
        key: acme.key,
        body,
        headers,
      });
      assert.equal(status, 200, JSON.stringify(json));
      const lines = json.lines as { line: number; code: string; existing_id?: number }[];
      return { counts: [json.created, json.updated, json.failed], lines };
    };
    const emails = (from: number, count: number) =>
      Array.from({ length: count }, (_, index) => ({ email: `e${from + index}@x` }));

    test('a file can be imported again with match', async () => {
      const file = emails(0, 1200);
      assert.deepEqual((await load('?match=email', ...file)).counts, [1200, 0, 0]);
      assert.deepEqual((await load('?match=email', ...file)).counts, [0, 1200, 0]);
      const more = [...file.slice(0, 3), ...emails(1200, 2)];
      assert.deepEqual((await load('?match=email', ...more)).counts, [2, 3, 0]);
    });

    test('a later line with the same key updates the record of the earlier line', async () => {
      const twice = [{ email: 'twice@x' }, { email: 'other@x' }, { email: 'twice@x' }];
      assert.deepEqual((await load('?match=email', ...twice)).counts, [2, 1, 0]);
    });

    for (const [field, first, same, other] of [
      ['mail', 'Ann@example.com', 'ann@EXAMPLE.com', 'ann2@example.com'],
      ['iban', 'DE89370400440532013000', 'DE89 3704 0044 0532 0130 00', 'GB82WEST12345698765432'],
      ['phone', '+49 171 1234567', '0049 (171) 12345-67', '+49 171 1234568'],
    ] as const) {
      test(`${field}: a later line with another notation of the same key is the same record`, async () => {
        const lines = [first, other, same].map((value, index) => ({ name: `line ${index}`, [field]: value }));
        assert.deepEqual((await loadInto('cards', `?match=${field}`, ...lines)).counts, [2, 1, 0]);
        const { json } = await instance().call('GET /api/v1/cards', { key: acme.key });
        const cards = json.data as Readonly<Record<string, unknown>>[];
        assert.deepEqual(
          cards
            .filter((card) => card[field] !== '')
            .map((card) => `${card.name}: ${card[field]}`)
            .sort(),
          [`line 1: ${other}`, `line 2: ${same}`],
        );
        assert.deepEqual((await loadInto('cards', '', ...lines)).counts, [0, 0, 3]);
      });
    }

    test('without match, duplicates are reported with the existing record', async () => {
      const { counts, lines } = await load(
        '',
        { email: 'd@x' },
        { email: 'e0@x' },
        { email: 'd@x' },
        { email: 'f@x' },
      );
      assert.deepEqual(counts, [2, 0, 2]);
      assert.deepEqual(
        lines.map(({ line, code }) => [line, code]),
        [
          [2, 'duplicate'],
          [3, 'duplicate'],
        ],
      );
      assert.ok(lines.every(({ existing_id: id }) => typeof id === 'number'));
      // The same applies to each of the other unique fields, alone and together.
      const account = await instance().call('POST /api/v1/accounts', { key: acme.key, body: {} });
      const account_id = account.json.id;
      for (const values of [{ code: 900 }, { account_id, since: '2026-03-01' }]) {
        const start = JSON.stringify(values).length;
        const twice = [1, 2].map((number) => ({ email: `${start}-${number}@x`, ...values }));
        const second = await load('', ...twice);
        assert.deepEqual(
          [second.counts, second.lines.map(({ line, code }) => [line, code])],
          [[1, 0, 1], [[2, 'duplicate']]],
        );
      }
    });

    test('dry runs and on_error=stop detect duplicates', async () => {
      const file = [{ email: 'g@x' }, { email: 'e1@x' }, { email: 'h@x' }];
      assert.deepEqual((await load('?dry_run=true', ...file)).counts, [2, 0, 1]);
      assert.deepEqual((await load('?on_error=stop', ...file)).counts, [1, 0, 1]);
      assert.deepEqual(
        (await load('?match=email', ...file)).counts,
        [1, 2, 0],
        'the first record exists by now',
      );
    });

    test("an import ends if its caller's grant is limited while it is running", async () => {
      const { call, url } = instance();
      const { key, profile } = await limitedKey(instance(), acme, ['people:list', 'people:create']);
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/x-ndjson' };
      const sending = request(`${url}/api/v1/people/import`, { method: 'POST', headers, agent: false });
      const responded = once(sending, 'response');
      const batch = (from: number) =>
        emails(from, 1000)
          .map((each) => `${JSON.stringify({ ...each, name: 'limited' })}\n`)
          .join('');
      sending.write(batch(5000));
      const listed = async (caller: string) =>
        (await call('GET /api/v1/people?sort=name&dir=asc', { key: caller })).json.data as { name: string }[];
      await until(async () => (await listed(acme.key))[0]?.name === 'limited', 'write the first batch');
      await setGrants(instance(), acme, profile, ['people:list:adult', 'people:create']);
      await until(async () => (await listed(key)).length === 0, 'know the limit');
      sending.end(batch(6000));
      const [response] = await responded;
      const { code, error, report } = JSON.parse(await text(response));
      assert.deepEqual([response.statusCode, code, report.created], [403, 'forbidden', 1000]);
      assert.match(error, /have changed during the request/);
    });

    for (const [revoked, left] of [
      ['create', 'update'],
      ['update', 'create'],
    ] as const) {
      const without = [{ object: 'people', actions: ['list', left] }] as const;
      /** Counts the people of this age whose email address starts with a string. */
      const ages = async (start: string, age: number) => {
        const rows = await instance().database.run({
          name: '',
          text: `select count(*)::text from people where email like $1::text || '%' and age = $2::text::int`,
          values: [start, String(age)],
        });
        return Number(rows[0]?.[0]);
      };

      test(`the grant to ${revoked}, revoked in the middle, ends it with a report of what is written`, async () => {
        const { database, call, url } = instance();
        const actor = command(instance());
        const profile = await transaction(database, (tables) =>
          createProfile(tables, actor, acme.id, `without ${revoked}`, [
            { object: 'people', actions: ['list', 'create', 'update'] },
          ]),
        );
        const { key } = await acme.makeKey({ profile: `without ${revoked}` });
        // Half of each batch already exists.
        const email = (index: number) => `${revoked}-${index}@x`;
        const existing = Array.from({ length: 1000 }, (_, index) => ({ email: email(2 * index), age: 2 }));
        assert.deepEqual((await load('', ...existing)).counts, [1000, 0, 0]);
        const age = 3;
        const batch = (first: number) =>
          Array.from(
            { length: 1000 },
            (_, index) => `${JSON.stringify({ email: email(first + index), age })}\n`,
          ).join('');
        const importUrl = '/api/v1/people/import?match=email';
        const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/x-ndjson' };
        const sending = request(`${url}${importUrl}`, { method: 'POST', headers, agent: false });
        const responded = once(sending, 'response');
        sending.write(batch(0));
        await until(async () => (await ages(revoked, age)) === 1000, 'write the first batch');
        await transaction(database, (tables) => changeProfile(tables, actor, acme.id, profile, without));
        // The key's grants are cached for a moment.
        await until(
          async () => (await call(`POST ${importUrl}`, { key, body: '', headers })).status === 403,
          'reject another import',
        );
        sending.end(batch(1000));
        const [response] = await responded;
        const { code, error, grant, report } = JSON.parse(await text(response));
        assert.deepEqual([response.statusCode, code], [403, 'forbidden'], error);
        // The limits of a resource with scopes change, too, but without scopes only the missing grant ends an import.
        assert.equal(grant, `people:${revoked}`, error);
        assert.deepEqual([report.created, report.updated, report.failed], [500, 500, 0]);
        assert.equal(await ages(revoked, age), 1000, 'nothing of the second batch is written');
        assert.equal(await ages(revoked, 2), 500);
      });

      if (driver === 'postgresql') {
        test(`the grant to ${revoked}, revoked in the middle, ends an import in the browser`, async () => {
          const { database, config } = instance();
          const grants = [{ object: 'people', actions: ['list', 'create', 'update'] }] as const;
          const person = await makePerson(instance(), [{ organization: acme, grants }]);
          const browser = await signIn(instance(), person);
          const page = '/setup/o/acme/data/people/import';
          const update = /Update the record with the same Email/;
          assert.match((await browser.get(page)).text, update);
          const start = `browser-${revoked}`;
          const file = `email,age\n${Array.from({ length: 2000 }, (_, index) => `${start}-${index}@x,3\n`).join('')}`;
          const fields = {
            _csrf: await browser.token(page),
            content: Buffer.from(file).toString('base64'),
            key: start,
            step: 'import',
            match: 'email',
          };
          const sent = await connected(String(config.environment.DATABASE_URL), async (client) => {
            await client.query('begin; lock table people in share row exclusive mode');
            const answer = browser.post(page, fields);
            await until(async () => {
              const waiting = `select from pg_locks where not granted and relation = 'people'::regclass`;
              return (await client.query(waiting)).rows.length > 0;
            }, 'write the first batch');
            await transaction(database, async (tables) => {
              const { profile_id } = await tables
                .selectFrom('crm_memberships')
                .select('profile_id')
                .where('user_id', '=', person.id)
                .executeTakeFirstOrThrow();
              await changeProfile(tables, command(instance()), acme.id, profile_id, without);
            });
            const caller = { kind: 'user', actor: person.id, organization: acme.id } as const;
            await until(async () => {
              const member = await instance().app.principalAgain(caller);
              return member !== undefined && !allows(member.grants, 'people', revoked);
            }, 'know the new grants');
            await client.query('rollback');
            return answer;
          });
          const job = sent.headers.get('location') ?? assert.fail(problemOf(sent));
          const admin = await signIn(instance(), await makePerson(instance(), [{ organization: acme }]));
          await until(async () => /Failed/.test((await admin.get(job)).text), 'end the import');
          assert.match(problemOf(await admin.get(job)), /Your profile does not grant/);
          assert.doesNotMatch((await browser.get(page)).text, update, 'needs both grants');
          // A batch that waits too long for a lock is not written.
          assert.ok([0, 1000].includes(await ages(start, 3)), 'nothing of the second batch is written');
        });
      }
    }
  },
  { sources: await sourcesWith(people, adults, cards) },
);
