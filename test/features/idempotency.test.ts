// Idempotency-Key: a create can be sent repeatedly, and the record is created once.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { entitiesFor } from '../../app/instance.ts';
import { buildService } from '../../app/serve/build.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { idempotencyRetention } from '../../plugins/api/idempotency/index.ts';
import { describeLike } from '../support/described.ts';
import { alignIds } from '../support/ids.ts';
import { type Answer, type Organization, onBothDrivers, send } from '../support/instance.ts';
import { activityOf, logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { definitions, fullBody, missing, oneOfEach, pathOf } from '../support/records.ts';
import { assertErrorShape } from '../support/scenario.ts';
import { whileUncommitted } from '../support/uncommitted.ts';

const leads = '/api/v1/leads';

onBothDrivers('Idempotency-Key', (instance, driver) => {
  let organization: Organization;
  let key: string;
  before(async () => {
    organization = await instance().organization('alpha');
    ({ key } = organization);
  });
  const post = (once: string, body: unknown, path = leads, as = key, url = instance().url) =>
    send(url, `POST ${path}`, { key: as, body, headers: { 'idempotency-key': once } });
  const countOf = async (company: string, as = key) => {
    const { json } = await instance().call(`GET ${leads}?sort=company&dir=desc`, { key: as });
    return (json.data as { company: string }[]).filter((lead) => lead.company === company).length;
  };
  const replayed = ({ headers }: Answer) => headers.get('idempotency-replayed');

  for (const definition of definitions) {
    test(`${definition.name}: a repeated request returns the same response without writing, even after a change`, async () => {
      const ids = await oneOfEach(instance(), key, `once ${definition.name}`);
      const body = fullBody(definition, 'once', ids);
      const first = await post('again', body, pathOf(definition));
      assert.deepEqual([first.status, replayed(first)], [201, null], first.text);
      const path = first.headers.get('location') ?? '';
      assert.equal(first.text, (await instance().call(`GET ${path}`, { key })).text);
      assert.equal(
        first.headers.get('etag'),
        (await instance().call(`GET ${path}`, { key })).headers.get('etag'),
      );
      const activity = (await activityOf(instance(), organization.id)).length;
      for (const method of ['PUT', 'DELETE']) {
        const again = await post('again', body, pathOf(definition));
        assert.deepEqual([again.status, replayed(again), again.text], [201, 'true', first.text]);
        for (const name of ['location', 'etag', 'content-type']) {
          assert.equal(again.headers.get(name), first.headers.get(name), name);
        }
        await instance().call(`${method} ${path}`, { key, body: {} });
      }
      // Only the two writes above.
      assert.equal((await activityOf(instance(), organization.id)).length, activity + 2);
    });
  }

  test('requests without the header or with different keys each create a record', async () => {
    const body = { company: 'each' };
    for (const once of ['each 1', 'each 2']) await post(once.replace(' ', '-'), body);
    for (const _ of [1, 2]) await instance().call(`POST ${leads}`, { key, body });
    assert.equal(await countOf('each'), 4);
  });

  test('another body returns 422 and writes nothing, even if only its bytes differ', async () => {
    assert.equal((await post('bytes', '{"company":"bytes"}')).status, 201);
    for (const body of ['{"company": "bytes"}', '{"company":"others"}', '{}']) {
      const answer = await post('bytes', body);
      assert.equal(answer.status, 422, answer.text);
      assertErrorShape(answer);
    }
    assert.deepEqual([await countOf('bytes'), await countOf('others')], [1, 0]);
  });

  test('a key is scoped to its organization, caller and path', async () => {
    const body = { description: 'scope' };
    const beta = await instance().organization('beta');
    const colleague = await organization.makeKey();
    const first = await post('scope', body);
    for (const other of [
      await post('scope', body, leads, colleague.key),
      await post('scope', body, leads, beta.key),
      await post('scope', body, '/api/v1/accounts'),
    ]) {
      assert.deepEqual([other.status, replayed(other)], [201, null], other.text);
      assert.notEqual(other.text, first.text);
    }
    assert.equal(replayed(await post('scope', body)), 'true');
  });

  test('a user can use the same key in each of their organizations', async () => {
    const gamma = await instance().organization('gamma');
    const person = await makePerson(instance(), [{ organization }, { organization: gamma }]);
    const { token } = await logIn(instance(), person);
    const answers = [];
    for (const path of ['alpha', 'gamma', 'alpha', 'gamma'].map((slug) => `${leads}?org=${slug}`))
      answers.push(await post('two-organizations', { description: 'each' }, path, token));
    assert.deepEqual(
      answers.map((answer) => [answer.status, replayed(answer), answer.json.organization_id]),
      [
        [201, null, Number(organization.id)],
        [201, null, Number(gamma.id)],
        [201, 'true', Number(organization.id)],
        [201, 'true', Number(gamma.id)],
      ],
    );
  });

  test('a key belongs to a user or to an API key, even if both have the same ID', async () => {
    const number = await alignIds(instance(), ['crm_users', 'crm_api_keys']);
    const person = await makePerson(instance(), [{ organization }]);
    const machine = await organization.makeKey();
    assert.deepEqual([person.id, machine.id], [number, number]);
    const { token } = await logIn(instance(), person);
    const body = { description: 'the same number' };
    const first = await post('same-number', body, leads, token);
    const second = await post('same-number', body, leads, machine.key);
    assert.deepEqual([first.status, second.status, replayed(second)], [201, 201, null], second.text);
    assert.notEqual(second.json.id, first.json.id);
    for (const [as, made] of [
      [token, first],
      [machine.key, second],
    ] as const) {
      const again = await post('same-number', body, leads, as);
      assert.deepEqual([replayed(again), again.text], ['true', made.text]);
    }
  });

  test('401 and 403 take precedence over a replay', async () => {
    const body = { company: 'allowed' };
    assert.equal((await post('allowed', body)).status, 201);
    assert.equal((await post('allowed', body, leads, 'crm_wrong')).status, 401);
    const viewer = await organization.keyWith([{ object: '*', actions: ['read', 'list'] }]);
    assert.equal((await post('allowed', body, leads, viewer)).status, 403);
  });

  test('rejected requests are not stored, so the same key can be used again', async () => {
    for (const wrong of ['{"company":', '{"company":7}', `{"email":"x","company":[]}`]) {
      assert.equal((await post('refused', wrong)).status, 400);
    }
    assert.equal((await post('refused', { account_id: Number(missing) }, '/api/v1/contacts')).status, 400);
    const { status, headers } = await post('refused', { email: 'x' }, '/api/v1/contacts');
    assert.deepEqual([status, headers.get('idempotency-replayed')], [201, null]);
    assert.equal((await post('refused', { company: 'taken' })).status, 201);
  });

  for (const once of ['', ' ', 'two words', 'x'.repeat(256), 'caf\u00e9', 'a, b']) {
    test(`"${once.slice(0, 20)}" is malformed`, async () => {
      const answer = await post(once, { company: 'malformed' });
      assert.equal(answer.status, 400);
      assertErrorShape(answer);
      assert.equal(await countOf('malformed'), 0);
    });
  }
  for (const once of [
    'x',
    'x'.repeat(255),
    '"8e03978e-40d5-43dd-bc93-6894a57f9324"',
    "'; drop table leads; --'".replaceAll(' ', ''),
  ]) {
    test(`${once.slice(0, 40)} is accepted`, async () => {
      assert.equal((await post(once, {})).status, 201);
      assert.equal(replayed(await post(once, {})), 'true');
    });
  }

  test('keys expire after a day', async () => {
    const tables = tablesOf(instance().database);
    const age = (hours: number) =>
      sql`update crm_idempotency set created_at = now() - ${hours}::int * interval '1 hour' where key = 'day'`.execute(
        tables,
      );
    const body = { company: 'day' };
    await post('day', body);
    await age(23);
    await idempotencyRetention(tables);
    assert.equal(replayed(await post('day', body)), 'true');
    await age(25);
    assert.equal(await idempotencyRetention(tables), 1);
    assert.equal(replayed(await post('day', body)), null);
    assert.equal(await countOf('day'), 2);
  });

  describe('concurrent requests', () => {
    let second: { url: string; close: () => Promise<void> };
    before(async () => {
      const { driver, config, resources, database } = instance();
      const own = driver === 'postgresql' ? await openDatabase(config, entitiesFor(resources)) : undefined;
      const app = await buildService({
        config,
        resources,
        database: own ?? database,
        secrets: instanceSecrets(config),
      });
      const url = await app.listen({ host: '127.0.0.1', port: 0 });
      describeLike(url, instance().url);
      second = {
        url,
        close: async () => {
          await app.close();
          await own?.close();
        },
      };
    });
    after(() => second.close());

    test('two nodes create one record, and both return it or ask to retry', async () => {
      for (let round = 0; round < 10; round++) {
        const company = `nodes ${round}`;
        const answers = await Promise.all(
          Array.from({ length: 8 }, (_, index) =>
            post(`nodes-${round}`, { company }, leads, key, index % 2 === 0 ? instance().url : second.url),
          ),
        );
        const created = answers.filter((answer) => answer.status === 201);
        assert.equal(created.filter((answer) => replayed(answer) === null).length, 1);
        assert.equal(new Set(created.map(({ text }) => text)).size, 1);
        for (const answer of answers.filter(({ status }) => status !== 201)) {
          assert.deepEqual([answer.status, answer.headers.get('retry-after')], [409, '1'], answer.text);
          assertErrorShape(answer);
        }
        assert.equal(await countOf(company), 1);
      }
    });

    // The embedded database runs statements one after another.
    if (driver === 'postgresql') {
      const made = (account: unknown) => ({ account_id: account });
      for (const [path, bodyOf, done] of [
        ['/api/v1/contacts', made, 201],
        ['/api/v1/contacts/batch', (account: unknown) => ({ records: [made(account)] }), 200],
      ] as const)
        test(`${path} returns 409 while the first request is running, then its response`, async () => {
          const { database, url } = instance();
          const colleague = await organization.makeKey();
          const delta = await instance().organization(`delta-${done}`);
          const person = await makePerson(instance(), [{ organization }, { organization: delta }]);
          const { token } = await logIn(instance(), person);
          const own = `${path}?org=alpha`;
          const account = await instance().call('POST /api/v1/accounts', { key, body: {} });
          const body = bodyOf(account.json.id);
          const contact = (node: string) => post(`running-${done}`, body, own, token, node);
          let first: Promise<Answer> | undefined;
          await transaction(database, async (tables) => {
            await sql`select from accounts where id = ${account.json.id}::bigint for update`.execute(tables);
            first = contact(url);
            // The create waits for the locked account.
            await until(async () => {
              // Not in the transaction, which would not see connections opened after its first look.
              const text = `select 1 from pg_locks where locktype = 'advisory' and granted and objid <> 0 and database = (select oid from pg_database where datname = current_database()) and pid in (select pid from pg_stat_activity where wait_event_type = 'Lock')`;
              return (await database.run({ name: '', text, values: [] })).length > 0;
            }, 'wait for the account');
            assert.equal((await contact(second.url)).status, 409);
            // Requests of other callers, to other paths and in other organizations are independent.
            for (const [other, as] of [
              [path, colleague.key],
              [own.replace('contacts', 'cases'), token],
              [own.replace('alpha', delta.slug), token],
            ] as const)
              assert.equal((await post(`running-${done}`, bodyOf(null), other, as, second.url)).status, done);
            // A node runs only one of an organization's batches at a time, so a second batch would wait
            // there.
            if (done === 201) assert.equal((await contact(url)).status, 409);
          });
          const answer = await first;
          assert.equal(answer?.status, done);
          const again = await contact(second.url);
          assert.deepEqual([again.status, replayed(again), again.text], [done, 'true', answer?.text]);
        });

      for (const [path, body, done] of [
        [leads, { company: 'late' }, 201],
        [`${leads}/batch`, { records: [{ company: 'late' }] }, 200],
      ] as const)
        test(`${path} returns a response that another request stores while this one is running`, async () => {
          const { database } = instance();
          const once = `late-${done}`;
          const first = await post(once, body, path);
          const count = await countOf('late');
          const [[row] = []] = await database.run({
            ...{ name: '', values: [once] },
            text: 'delete from crm_idempotency k where key = $1 returning quote_literal(to_jsonb(k))',
          });
          const again = await whileUncommitted(
            instance(),
            [
              `insert into crm_idempotency select * from jsonb_populate_record(null::crm_idempotency, ${row})`,
            ],
            () => post(once, body, path),
          );
          assert.deepEqual([again.status, replayed(again), again.text], [done, 'true', first.text]);
          assert.equal(await countOf('late'), count);
        });
    }
  });
});
