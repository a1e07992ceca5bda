// Event subscriptions: changes are delivered signed and in order for each record, despite failing receivers.
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { Webhook } from 'standardwebhooks';
import { InvalidEventError, readEvent } from '../../client/src/index.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { runCommand } from '../support/command-line.ts';
import { type Call, type Organization, onBothDrivers, startInstance } from '../support/instance.ts';
import { startMailServer } from '../support/mail.ts';
import { settingsFile } from '../support/partners.ts';
import { activityOf, fresh, logIn, makePerson, secondNode } from '../support/people.ts';
import { until } from '../support/process.ts';
import { eventsTo, type Received, settledFeed, startReceiver } from '../support/receiver.ts';

const receiver = await startReceiver();
after(() => receiver.close());
const mail = await startMailServer();
const file = settingsFile({
  ...eventsTo(receiver.port),
  mail: { url: mail.url, from: 'crm@crm.example' },
});

const all = ['list', 'read', 'create', 'update', 'delete'] as const;
const events = { object: 'events', actions: all };
const path = '/events/subscriptions';

onBothDrivers(
  'event subscriptions',
  (instance) => {
    let acme: Organization;
    let key: string;
    before(async () => {
      acme = await instance().organization('acme');
      key = await acme.keyWith([events, { object: '*', actions: ['*'] }]);
    });
    const call = (request: string, more: Call = {}) => instance().call(request, { key, ...more });
    const write = async (request: string, body?: object, as = acme.key) => {
      const answer = await instance().call(request, { key: as, ...(body && { body }) });
      assert.ok(answer.status < 300, answer.text);
      return Number(answer.json.id);
    };
    /** Creates a subscription for a path of the receiver. */
    const subscribe = async (body: object = {}, as = key) => {
      const at = `/${fresh('hook')}`;
      const input = { url: receiver.url + at, resources: ['leads'], ...body };
      await settledFeed(instance());
      const answer = await instance().call(`POST ${path}`, { key: as, body: input });
      assert.equal(answer.status, 201, answer.text);
      const { id, secret } = answer.json as { id: number; secret: string };
      return { at, id, secret, received: () => receiver.at(at), url: `${path}/${id}` };
    };
    const arrive = (received: () => readonly Received[], count: number) =>
      until(async () => received().length >= count, `${count} events, not ${received().length}`);
    const summarize = (events: readonly Received[]) =>
      events.map(({ event: { type, data } }) => `${type} ${data.id} v${data.version}`);
    const deliveries = async (url: string) =>
      (await call(`GET ${url}/deliveries`)).json.data as Readonly<Record<string, unknown>>[];
    /**
     * Makes early retries due now. Deliveries in progress are excluded, because they are leased for 20 s. Locked rows are
     * skipped, because waiting for one while holding others can cause a deadlock with the service.
     */
    const hurry = (seconds = 9) =>
      sql`update crm_event_deliveries set next_at = now() where (organization_id, id) in (
        select organization_id, id from crm_event_deliveries
        where status = 'waiting' and next_at < now() + ${seconds}::int * interval '1 second' for update skip locked)`.execute(
        tablesOf(instance().database),
      );

    test('grants required by each operation', async () => {
      const { url } = await subscribe();
      const keyWithoutEvents = await acme.keyWith([{ object: '*', actions: ['*'] }]);
      const keyWith = (actions: readonly (typeof all)[number][]) =>
        acme.keyWith([
          { object: 'events', actions },
          { object: '*', actions: ['*'] },
        ]);
      const keysFor: Record<string, { readonly only: string; readonly others: string }> = {};
      for (const action of all)
        keysFor[action] = {
          only: await keyWith([action]),
          others: await keyWith(all.filter((other) => other !== action)),
        };
      const { byToken } = await logIn(instance(), await makePerson(instance(), [{ organization: acme }]));
      const silent = await secondNode(instance(), { audit: false });
      after(() => silent.close());
      for (const [actions, pathOfOperation] of [
        [{ GET: 'list', HEAD: 'list', POST: 'create' }, path],
        [{ GET: 'read', HEAD: 'read', PATCH: 'update', DELETE: 'delete' }, url],
        [{ GET: 'read', HEAD: 'read' }, `${url}/deliveries`],
        [{ POST: 'update' }, `${url}/secrets`],
        [{ POST: 'update' }, `${url}/test`],
        [{ POST: 'update' }, `${url}/replay`],
      ] as const) {
        for (const [method, action] of Object.entries(actions)) {
          const operation = `${method} ${pathOfOperation}`;
          const body = method === 'POST' || method === 'PATCH' ? { body: {} } : {};
          const status = async (request: string, more: Call = {}) =>
            (await call(request, { ...body, ...more })).status;
          assert.equal(await status(operation, { key: keyWithoutEvents }), 403, operation);
          const twice = { headers: byToken, ...body };
          assert.equal((await instance().call(`${operation}?org=a&org=b`, twice)).status, 400, operation);
          assert.equal((await silent.call(operation, { key, ...body })).status, 501, operation);
          const unknown = operation.replace(url, `${path}/999999999`);
          if (pathOfOperation !== path) assert.equal(await status(unknown), 404, operation);
          const { only, others } = keysFor[action] ?? assert.fail(action);
          assert.equal(await status(operation, { key: others }), 403, `${operation} without ${action}`);
          assert.notEqual(await status(unknown, { key: only }), 403, `${operation} with only ${action}`);
          if (method === 'HEAD') assert.equal(await status(operation), 200, operation);
        }
      }
    });

    test('create, update and delete, signed according to Standard Webhooks', async () => {
      const { received, secret } = await subscribe();
      const id = await write('POST /api/v1/leads', { last_name: 'Ames', lead_score: 7 });
      await write(`PATCH /api/v1/leads/${id}`, { last_name: 'Bond' });
      await arrive(received, 2);
      const { text } = await call(`GET /api/v1/leads/${id}`);
      await write(`DELETE /api/v1/leads/${id}`);
      await arrive(received, 3);
      assert.deepEqual(summarize(received()), [
        `leads.created ${id} v1`,
        `leads.updated ${id} v2`,
        `leads.deleted ${id} v3`,
      ]);
      const [created, updated, deleted] = received();
      assert.ok(created && updated && deleted);
      assert.deepEqual(updated.event.data.changed.toSorted(), ['last_name', 'updated_at']);
      assert.ok(updated.text.endsWith(`"record":${text}}}`), 'identical to the GET response');
      assert.deepEqual([deleted.event.data.action, deleted.event.data.record], ['delete', null]);
      assert.ok(created.event.data.changed.includes('lead_score'));
      for (const { text, headers } of received()) {
        const verified = new Webhook(secret).verify(text, headers as Record<string, string>);
        assert.deepEqual(verified, JSON.parse(text));
        const event = await readEvent(text, headers, ['whsec_b3RoZXI=', secret]);
        if (event.type === 'test') assert.fail();
        assert.equal(event.data.id, BigInt(id));
        await assert.rejects(readEvent(`${text} `, headers, secret), InvalidEventError);
        await assert.rejects(
          readEvent(text, { ...headers, 'webhook-timestamp': '1' }, secret),
          InvalidEventError,
        );
        assert.throws(() => new Webhook(secret).verify(`${text} `, headers as Record<string, string>));
      }
      assert.equal(new Set(received().map(({ headers }) => headers['webhook-id'])).size, 3);
      assert.match(String(created.headers['content-type']), /^application\/json/);
    });

    test('events are signed with both secrets during rotation, then only with the new one', async () => {
      const { id, received, secret, url } = await subscribe();
      const answer = await call(`POST ${url}/secrets`);
      assert.equal(answer.headers.get('cache-control'), 'no-store');
      const next = String(answer.json.secret);
      assert.match(next, /^whsec_/);
      await write('POST /api/v1/leads', { last_name: 'Twice' });
      await arrive(received, 1);
      const verify = (secret: string, { text, headers } = received().at(-1) ?? assert.fail()) =>
        new Webhook(secret).verify(text, headers as Record<string, string>);
      verify(secret);
      verify(next);
      const { rows } =
        await sql`select previous_until > now() + interval '23 hours' and previous_until <= now() + interval '24 hours' as "isADay"
        from crm_event_subscriptions where id = ${id}::bigint`.execute(tablesOf(instance().database));
      assert.deepEqual(rows, [{ isADay: true }]);
      await sql`update crm_event_subscriptions set previous_until = now()`.execute(
        tablesOf(instance().database),
      );
      await write('POST /api/v1/leads', { last_name: 'Once' });
      await arrive(received, 2);
      verify(next);
      assert.throws(() => verify(secret));
      assert.match(String(received().at(-1)?.headers['webhook-signature']), /^v1,[^ ]+$/);
    });

    test('only the subscribed resources, actions, records and organization', async () => {
      const other = await instance().organization(fresh('other'));
      const some = await subscribe({ resources: ['accounts'], actions: ['delete'] });
      const hot = await subscribe({ filter: 'rating=Mild&rating=Warm&rating=Hot' });
      await write('POST /api/v1/leads', { last_name: 'Theirs', rating: 'Hot' }, other.key);
      const account = await write('POST /api/v1/accounts', { name: 'Gone' });
      await write(`DELETE /api/v1/accounts/${account}`);
      await write('POST /api/v1/leads', { last_name: 'Cold', rating: 'Cold' });
      const id = await write('POST /api/v1/leads', { last_name: 'Hot', rating: 'Hot' });
      await arrive(some.received, 1);
      await arrive(hot.received, 1);
      assert.deepEqual(summarize(some.received()), [`accounts.deleted ${account} v2`]);
      assert.deepEqual(summarize(hot.received()), [`leads.created ${id} v1`]);
    });

    test('a filter applies to the record at delivery time; deletions are always sent', async () => {
      const { received, url } = await subscribe({ filter: 'rating=Hot' });
      const id = await write('POST /api/v1/leads', { last_name: 'x', rating: 'Cold' });
      const settled = async (count: number) => {
        const all = await deliveries(url);
        return all.length === count && all.every(({ status }) => status === 'done');
      };
      for (const [count, rating] of ['Cold', 'Hot', 'Cold'].entries()) {
        if (count > 0) await write(`PATCH /api/v1/leads/${id}`, { rating });
        await until(() => settled(count + 1), `settle ${count + 1}`);
      }
      await write(`DELETE /api/v1/leads/${id}`);
      await until(() => settled(4), 'settle all');
      assert.deepEqual(summarize(received()), [`leads.updated ${id} v2`, `leads.deleted ${id} v4`]);
    });

    test('at most 5,000 deliveries wait, the rest stays in the change log; other subscriptions are not delayed', async () => {
      const { at, id, received } = await subscribe();
      const fine = await subscribe();
      receiver.behave(at, 503);
      const tables = tablesOf(instance().database);
      await sql`insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, action, next_at)
        select ${acme.id}::bigint, ${id}::bigint, 'full ' || n, '', 'test', now() + interval '1 hour'
        from generate_series(1, 5001) n`.execute(tables);
      const lead = await write('POST /api/v1/leads', { last_name: 'late' });
      await arrive(fine.received, 1);
      assert.deepEqual(received(), []);
      await sql`delete from crm_event_deliveries where subscription_id = ${id}::bigint and event_id like 'full %'`.execute(
        tables,
      );
      await arrive(received, 1);
      // The receiver fails, so the event might already have been sent again.
      assert.deepEqual([...new Set(summarize(received()))], [`leads.created ${lead} v1`]);
    });

    test("events contain what the profile can read at delivery time, and never more than the URL's author can read", async () => {
      const clerk = await acme.keyWith([events, { object: 'leads', actions: ['read'] }]);
      const { received, url } = await subscribe({ resources: ['leads', 'accounts'] }, clerk);
      await write('POST /api/v1/accounts', { name: 'Hidden' });
      const id = await write('POST /api/v1/leads', { last_name: 'Seen' });
      await arrive(received, 1);
      assert.deepEqual(summarize(received()), [`leads.created ${id} v1`]);
      await until(async () => (await deliveries(url)).some(({ status }) => status === 'dead'), 'be withheld');
      const [, withheld] = await deliveries(url);
      assert.equal(withheld?.error, "the subscription's profile does not grant read on accounts");
      assert.equal(withheld?.request, '', 'nothing was sent');
      const keyWithoutRecords = await acme.keyWith([events]);
      const moved = await instance().call(`PATCH ${url}`, {
        key: keyWithoutRecords,
        body: { url: `${receiver.url}/elsewhere` },
      });
      assert.equal(moved.status, 200);
      await write('POST /api/v1/leads', { last_name: 'Not for them' });
      await until(async () => (await deliveries(url))[0]?.status === 'dead', 'withhold from another');
      assert.deepEqual(receiver.at('/elsewhere'), []);
    });

    test('an editor with fewer grants receives no additional data, and grants no additional data to others', async () => {
      const clerk = await acme.keyWith([events, { object: 'leads', actions: ['read'] }]);
      const wide = await subscribe();
      const widened = await instance().call(`PATCH ${wide.url}`, {
        key: clerk,
        body: { resources: ['leads', 'accounts'] },
      });
      assert.equal(widened.status, 200, widened.text);
      await write('POST /api/v1/accounts', { name: 'Hidden' });
      await until(async () => (await deliveries(wide.url))[0]?.status === 'dead', 'be withheld');
      assert.deepEqual(wide.received(), []);
      const narrow = await subscribe({ resources: ['leads'] }, clerk);
      await call(`PATCH ${narrow.url}`, { body: { resources: ['leads', 'accounts'] } });
      await write('POST /api/v1/accounts', { name: 'Hidden' });
      await until(async () => (await deliveries(narrow.url))[0]?.status === 'dead', 'stay as narrow');
      assert.deepEqual(narrow.received(), []);
    });

    test('an editor who can read less than the profile replaces it with any change except to the state', async () => {
      const clerk = await acme.keyWith([events, { object: 'leads', actions: ['read'] }]);
      const profileOf = async (url: string) => (await call(`GET ${url}`)).json.profile;
      const own = await profileOf((await subscribe({}, clerk)).url);
      const changes: Readonly<Record<string, unknown>> = {
        url: `${receiver.url}/${fresh('elsewhere')}`,
        resources: ['leads'],
        actions: ['create'],
        filter: '',
        filter_when: 'matches',
        transitions: {},
        format: 'standard',
        batch: null,
        state: 'off',
      };
      for (const [name, value] of Object.entries(changes)) {
        const { url } = await subscribe();
        const before = await profileOf(url);
        assert.notEqual(before, own);
        const answer = await instance().call(`PATCH ${url}`, { key: clerk, body: { [name]: value } });
        assert.equal(answer.status, 200, answer.text);
        assert.equal(await profileOf(url), name === 'state' ? before : own, name);
      }
    });

    test('changing and deleting a subscription leaves the others and their events unchanged', async () => {
      const [one, other] = [await subscribe(), await subscribe()];
      const tables = tablesOf(instance().database);
      await sql`update crm_event_subscriptions set paused_until = 'infinity' where id = ${other.id}::bigint`.execute(
        tables,
      );
      const before = (await call(`GET ${other.url}`)).json;
      const lead = await write('POST /api/v1/leads', {});
      await until(async () => (await deliveries(other.url)).length === 1, 'queue the event');
      for (const body of [{ resources: ['accounts'] }, { batch: {} }, { filter: 'website=x', state: 'off' }])
        assert.equal((await call(`PATCH ${one.url}`, { body })).status, 200);
      await call(`POST ${one.url}/secrets`);
      assert.equal((await call(`DELETE ${one.url}`)).status, 200);
      assert.deepEqual((await call(`GET ${other.url}`)).json, before);
      await sql`update crm_event_subscriptions set paused_until = now() where id = ${other.id}::bigint`.execute(
        tables,
      );
      await arrive(other.received, 1);
      assert.deepEqual(summarize(other.received()), [`leads.created ${lead} v1`]);
      const [sent] = other.received();
      new Webhook(other.secret).verify(sent?.text ?? '', sent?.headers as Record<string, string>);
    });

    test("for a member of several organizations, the profile is from the subscription's organization", async () => {
      const other = await instance().organization(fresh('first'));
      const own = [events, { object: 'leads', actions: ['read'] }] as const;
      const person = await makePerson(instance(), [
        { organization: other },
        { organization: acme, grants: own },
      ]);
      const { byToken } = await logIn(instance(), person);
      const body = { url: `${receiver.url}/${fresh('hook')}`, resources: ['leads'] };
      const answer = await instance().call(`POST ${path}?org=acme`, { headers: byToken, body });
      assert.equal(answer.status, 201, answer.text);
      assert.match(String(answer.json.profile), /^profile-/);
    });

    test('an organization has at most 100 subscriptions', async () => {
      const crowded = await instance().organization(fresh('crowded'));
      const as = await crowded.keyWith([events, { object: '*', actions: ['*'] }]);
      const { id } = await subscribe({}, as);
      await sql`insert into crm_event_subscriptions
        (organization_id, profile_id, url, actions, filter, secret, epoch, transaction, ledger_id, state)
        select organization_id, profile_id, url, actions, filter, secret, epoch, transaction, ledger_id, 'off'
        from crm_event_subscriptions, generate_series(1, 98) where id = ${id}::bigint`.execute(
        tablesOf(instance().database),
      );
      const create = () =>
        instance().call(`POST ${path}`, { key: as, body: { url: receiver.url, resources: ['leads'] } });
      const last = await create();
      assert.deepEqual(
        [last.status, last.headers.get('location'), last.headers.get('cache-control')],
        [201, `${path}/${last.json.id}`, 'no-store'],
      );
      const rejected = await create();
      assert.equal(rejected.status, 400, rejected.text);
      assert.match(String(rejected.json.error), /100/);
      const { json } = await instance().call(`GET ${path}`, { key: as });
      const ids = (json.data as readonly { id: number }[]).map((subscription) => subscription.id);
      assert.deepEqual([ids[0], ids.length], [id, 100]);
      assert.deepEqual(
        ids,
        ids.toSorted((a, b) => a - b),
      );
    });

    test('nothing is sent if the filter is no longer valid', async () => {
      const { received, url, id } = await subscribe({ filter: 'rating=Hot' });
      await sql`update crm_event_subscriptions set filter = 'colour=red' where id = ${id}::bigint`.execute(
        tablesOf(instance().database),
      );
      await write('POST /api/v1/leads', { rating: 'Cold' });
      await until(async () => (await deliveries(url))[0]?.status === 'dead', 'be withheld');
      assert.match(String((await deliveries(url))[0]?.error), /^filter: cannot filter leads by colour/);
      assert.deepEqual(received(), []);
    });

    test('an event about a resource that no longer exists is not sent, and does not delay others', async () => {
      const { id, received } = await subscribe();
      await sql`insert into crm_event_deliveries
          (organization_id, subscription_id, event_id, position, object, object_id, version, action)
        values (${acme.id}::bigint, ${id}::bigint, 'ghost', '1-1', 'ghosts', 1, 1, 'update')`.execute(
        tablesOf(instance().database),
      );
      const lead = await write('POST /api/v1/leads', {});
      await arrive(received, 1);
      // Callers do not see it, because they cannot read the resource.
      const ghost = sql<{ status: string; error: string }>`select status, error from crm_event_deliveries
        where subscription_id = ${id}::bigint and event_id = 'ghost'`;
      const withheld = async () => (await ghost.execute(tablesOf(instance().database))).rows[0];
      await until(async () => (await withheld())?.status === 'dead', 'be withheld');
      assert.equal((await withheld())?.error, 'the resource ghosts no longer exists');
      assert.deepEqual(summarize(received()), [`leads.created ${lead} v1`]);
    });

    test('events that cannot be signed become dead, so that nothing waits for them forever', async () => {
      const { received, url, id } = await subscribe();
      await sql`update crm_event_subscriptions set secret = 'of a lost key' where id = ${id}::bigint`.execute(
        tablesOf(instance().database),
      );
      await write('POST /api/v1/leads', {});
      await until(async () => ((await deliveries(url))[0]?.error ?? '') !== '', 'fail');
      const [unsigned] = await deliveries(url);
      assert.equal(unsigned?.status, 'waiting');
      assert.match(String(unsigned?.error), /^a stored secret cannot be decrypted because AUTH_SECRETS has/);
      await sql`update crm_event_deliveries set attempts = 12, next_at = now(), received_at = now() - interval '4 days'
        where subscription_id = ${id}::bigint`.execute(tablesOf(instance().database));
      await until(async () => (await deliveries(url))[0]?.status === 'dead', 'become dead');
      assert.deepEqual(received(), []);
    });

    test('* does not grant events', async () => {
      const everything = await acme.keyWith([{ object: '*', actions: ['*'] }]);
      for (const request of [`GET ${path}`, `POST ${path}`, `GET ${path}/1`, `DELETE ${path}/1`]) {
        const answer = await instance().call(request, {
          key: everything,
          ...(request[0] === 'P' && { body: {} }),
        });
        assert.equal(answer.status, 403, request);
      }
    });

    test('in order for each record, without delaying other records', async () => {
      const { received, at } = await subscribe();
      const [slow, quick] = [await write('POST /api/v1/leads', {}), await write('POST /api/v1/leads', {})];
      await arrive(received, 2);
      let failures = 0;
      receiver.behave(at, (response, { event }) => {
        const fails = event.data.id === slow && failures++ < 2;
        response.writeHead(fails ? 500 : 204).end();
      });
      for (const last_name of ['a', 'b', 'c']) {
        await write(`PATCH /api/v1/leads/${slow}`, { last_name });
        await write(`PATCH /api/v1/leads/${quick}`, { last_name });
      }
      await arrive(() => received().filter(({ event }) => event.data.id === quick), 4);
      await until(async () => {
        await hurry();
        return received().length >= 10;
      }, 'retry');
      const versions = (id: number) =>
        received().flatMap(({ event: { data } }) => (data.id === id ? [data.version] : []));
      assert.deepEqual(versions(quick), [1, 2, 3, 4]);
      assert.deepEqual(versions(slow), [1, 2, 2, 2, 3, 4]);
      const ids = received().filter(({ event: { data } }) => data.id === slow && data.version === 2);
      assert.equal(new Set(ids.map(({ headers }) => headers['webhook-id'])).size, 1, 'the same event');
    });

    test('in order for a record whose changes are far apart in the change log, in the wrong order', async () => {
      // An organization of its own, because its changes are moved.
      const alone = await instance().organization(fresh('apart'));
      const as = await alone.keyWith([events, { object: '*', actions: ['*'] }]);
      const { received, url } = await subscribe({}, as);
      const change = (request: string, body: object) => instance().call(request, { key: as, body });
      await change(`PATCH ${url}`, { state: 'off' });
      const id = await write('POST /api/v1/leads', { last_name: 'First' }, as);
      await write(`PATCH /api/v1/leads/${id}`, { last_name: 'Second' }, as);
      // More changes to another resource than are read at a time.
      await change('POST /api/v1/accounts/batch', {
        records: Array.from({ length: 600 }, (_, index) => ({ name: `Account ${index}` })),
      });
      const last = await write('POST /api/v1/leads', { last_name: 'Last' }, as);
      await settledFeed(instance());
      // A transaction that started later has created the lead.
      await sql`update crm_ledger set transaction = (select max(transaction::text::bigint) from crm_ledger
          where organization_id = ${alone.id}::bigint and object = 'leads' and object_id = ${last}::bigint)::text::xid8
        where organization_id = ${alone.id}::bigint and object = 'leads' and object_id = ${id}::bigint and version = 1`.execute(
        tablesOf(instance().database),
      );
      await change(`PATCH ${url}`, { state: 'on' });
      await arrive(received, 3);
      const ofRecord = summarize(received()).filter((event) => event.includes(` ${id} `));
      assert.deepEqual(ofRecord, [`leads.created ${id} v1`, `leads.updated ${id} v2`]);
      assert.equal(received().length, 3);
    });

    test('Retry-After is respected as a date or seconds; 410 disables the subscription', async () => {
      const { received, at, url, id } = await subscribe();
      /** Returns whether the latest delivery has failed, and the time until its retry, from its receipt and from now, in seconds. */
      const due = async () => {
        const { rows } = await sql<{
          failed: boolean;
          total: number;
          left: number;
        }>`select d.error <> '' as failed, extract(epoch from d.next_at - d.received_at)::float8 as total,
            extract(epoch from d.next_at - now())::float8 as left
          from crm_event_deliveries d where subscription_id = ${id}::bigint order by id desc limit 1`.execute(
          tablesOf(instance().database),
        );
        return rows[0] ?? { failed: false, total: 0, left: 0 };
      };
      for (const value of [() => '300', () => new Date(Date.now() + 301_000).toUTCString()]) {
        receiver.behave(at, (response) => response.writeHead(429, { 'retry-after': value() }).end());
        const count = received().length;
        await write('POST /api/v1/leads', {});
        await arrive(received, count + 1);
        await until(async () => (await due()).failed, 'fail');
        const { total, left } = await due();
        assert.ok(total > 280 && left < 302, `wait as ${value()} says`);
        await sql`update crm_event_subscriptions set paused_until = now() where id = ${id}::bigint`.execute(
          tablesOf(instance().database),
        );
      }
      receiver.behave(at, 410);
      await until(async () => {
        await hurry(400);
        return (await call(`GET ${url}`)).json.state === 'gone';
      }, 'end');
      const isAbout = (text = '') =>
        text.includes(`subscription ${id} was disabled`) && text.includes('the receiver responded with 410');
      await until(async () => mail.arrived.some(({ text }) => isAbout(text)), 'notify administrators');
      assert.equal((await call(`POST ${url}/test`)).status, 400);
      receiver.behave(at, 204);
      const on = await call(`PATCH ${url}`, { body: { state: 'on' } });
      assert.deepEqual([on.status, on.json.state, on.json.failing_since], [200, 'on', null]);
    });

    test('enabling a subscription ends its pause after failures', async () => {
      const { received, url, id } = await subscribe();
      const tables = tablesOf(instance().database);
      for (const state of ['failed', 'on']) {
        await sql`update crm_event_subscriptions set state = ${state}, failures = 9, failing_since = now(),
          paused_until = 'infinity' where id = ${id}::bigint`.execute(tables);
        assert.equal((await call(`PATCH ${url}`, { body: { state: 'on' } })).status, 200);
        const { rows } =
          await sql`select paused_until <= now() as "isOver", failures from crm_event_subscriptions
          where id = ${id}::bigint`.execute(tables);
        assert.deepEqual(rows, [{ isOver: true, failures: 0 }], state);
        const count = received().length;
        await write('POST /api/v1/leads', {});
        await arrive(received, count + 1);
      }
    });

    test('disabled after five days of failures; continues where it stopped', async () => {
      const { received, at, url, id } = await subscribe();
      const administrator = await makePerson(instance(), [{ organization: acme }]);
      const member = await makePerson(instance(), [
        { organization: acme, grants: [{ object: 'leads', actions: ['read'] }] },
      ]);
      receiver.behave(at, 500);
      const lead = await write('POST /api/v1/leads', {});
      await arrive(received, 1);
      const since = async () => (await call(`GET ${url}`)).json.failing_since;
      await until(async () => (await since()) !== null, 'say since when');
      await sql`update crm_event_subscriptions set failing_since = now() - interval '121 hours' where id = ${id}::bigint`.execute(
        tablesOf(instance().database),
      );
      await until(async () => {
        await hurry();
        return (await call(`GET ${url}`)).json.state === 'failed';
      }, 'be disabled');
      const emailsTo = (email: string) => mail.arrived.filter(({ to }) => to === email);
      await until(async () => emailsTo(administrator.email).length === 1, 'notify administrators');
      assert.match(
        emailsTo(administrator.email)[0]?.text ?? '',
        new RegExp(`subscription ${id} was disabled[\\s\\S]*under "Webhooks"`),
      );
      assert.deepEqual(emailsTo(member.email), []);
      await write(`PATCH /api/v1/leads/${lead}`, { last_name: 'later' });
      receiver.behave(at, 204);
      const count = received().length;
      await call(`PATCH ${url}`, { body: { state: 'on' } });
      const [created, updated] = [`leads.created ${lead} v1`, `leads.updated ${lead} v2`];
      const since204 = () => summarize(received().slice(count));
      await until(async () => {
        await hurry();
        return since204().includes(updated);
      }, 'continue');
      // A last failing attempt might have been in progress.
      assert.deepEqual([...new Set(since204())], [created, updated]);
      const { rows } = await sql<{
        action: string;
        by: string;
        isRequested: boolean;
      }>`select action, actor_name as by, request_id is not null as "isRequested" from crm_ledger
        where object = 'event subscription' and object_id = ${id}::bigint order by id`.execute(
        tablesOf(instance().database),
      );
      assert.deepEqual(
        rows.map(({ action, isRequested }) => [action, isRequested]),
        [
          ['create', true],
          ['switch off', false],
          ['update', true],
        ],
      );
      assert.equal(rows[1]?.by, 'event receiver');
    });

    test('replay of one delivery, a range, and everything after a cursor, in order', async () => {
      await settledFeed(instance());
      const start = String((await call('GET /events?after=now')).json.next);
      const { id, received, url } = await subscribe();
      const tables = tablesOf(instance().database);
      const lead = await write('POST /api/v1/leads', {});
      for (const last_name of ['a', 'b']) await write(`PATCH /api/v1/leads/${lead}`, { last_name });
      await arrive(received, 3);
      const [third, second, first] = (await deliveries(url)).map((delivery) => Number(delivery.id));
      const replayed = async (body: object, count: number, queued: number) => {
        await until(async () => (await deliveries(url)).every(({ status }) => status === 'done'), 'be done');
        const before = received().length;
        const answer = await call(`POST ${url}/replay`, { body });
        assert.deepEqual([answer.status, answer.json], [200, { queued }], answer.text);
        await arrive(received, before + count);
        return received()
          .slice(before)
          .map(({ event }) => event.data.version);
      };
      assert.deepEqual(await replayed({ from: second }, 1, 1), [2]);
      assert.deepEqual(await replayed({ from: first, to: third }, 3, 3), [1, 2, 3]);
      // In a new epoch, only changes from this time on would be sent. The events were dead letters before.
      await sql`update crm_event_subscriptions set since = now() + interval '1 day' where id = ${id}::bigint`.execute(
        tables,
      );
      await sql`update crm_event_deliveries set attempts = 99 where subscription_id = ${id}::bigint`.execute(
        tables,
      );
      assert.deepEqual(await replayed({ after: start }, 3, 0), [1, 2, 3]);
      await until(
        async () => (await deliveries(url)).every(({ status }) => status === 'done'),
        'be done again',
      );
      assert.deepEqual(
        (await deliveries(url)).map(({ attempts }) => attempts),
        [1, 1, 1],
      );
      const ids = received().map(({ headers }) => headers['webhook-id']);
      assert.equal(new Set(ids).size, 3, 'a replayed event keeps its ID');
      for (const body of [{}, { from: 'x' }, { after: 'x' }, { after: 7 }, { from: 1, to: 'x' }])
        assert.equal((await call(`POST ${url}/replay`, { body })).status, 400, JSON.stringify(body));
    });

    test('in a new epoch, cursors are expired and delivered events are not sent again', async () => {
      const { received, url } = await subscribe();
      const id = await write('POST /api/v1/leads', {});
      await arrive(received, 1);
      const cursor = String((await call('GET /events?after=now')).json.next);
      await sql`update crm_ledger_epochs set epoch = 'another'`.execute(tablesOf(instance().database));
      const gone = await call(`POST ${url}/replay`, { body: { after: cursor } });
      assert.deepEqual([gone.status, gone.json.code], [410, 'cursor_expired']);
      await write(`PATCH /api/v1/leads/${id}`, { last_name: 'in another epoch' });
      await arrive(received, 2);
      assert.deepEqual(summarize(received()), [`leads.created ${id} v1`, `leads.updated ${id} v2`]);
    });

    test('in a new epoch, changes that were not read before it are sent, however long ago they were made', async () => {
      // An organization of its own, because all of its changes are read again.
      const alone = await instance().organization(fresh('alone'));
      const all = await alone.keyWith([events, { object: '*', actions: ['*'] }]);
      const { id, received } = await subscribe({}, all);
      const first = await write('POST /api/v1/leads', {}, all);
      await arrive(received, 1);
      const execute = (text: string) => sql.raw(text).execute(tablesOf(instance().database));
      // No process runs for hours after the second lead is created, until the database is restored elsewhere.
      await execute(`update crm_event_subscriptions set state = 'off' where id = ${id}`);
      const second = await write('POST /api/v1/leads', {}, all);
      await execute(
        `update crm_ledger set at = at - interval '5 hours' where object = 'leads' and object_id = ${second}`,
      );
      await execute(
        `update crm_event_subscriptions set read_at = now() - interval '270 minutes', created_at = now() - interval '1 day' where id = ${id}`,
      );
      await execute(`update crm_ledger_epochs set epoch = 'restored elsewhere'`);
      await execute(`update crm_event_subscriptions set state = 'on' where id = ${id}`);
      const third = await write('POST /api/v1/leads', {}, all);
      await arrive(received, 3);
      const created = [first, second, third].map((lead) => `leads.created ${lead} v1`);
      assert.deepEqual(summarize(received()).sort(), created.sort());
    });

    test('a replay requested before a new epoch continues in it, including changes that precede the subscription', async () => {
      const alone = await instance().organization(fresh('alone'));
      const as = await alone.keyWith([events, { object: '*', actions: ['*'] }]);
      const lead = await write('POST /api/v1/leads', {}, as);
      const { id, received } = await subscribe({}, as);
      const execute = (text: string) => sql.raw(text).execute(tablesOf(instance().database));
      await execute(`update crm_event_subscriptions set state = 'off', generation = 1 where id = ${id}`);
      await execute(`update crm_ledger_epochs set epoch = 'restored again'`);
      await execute(`update crm_event_subscriptions set state = 'on' where id = ${id}`);
      await arrive(received, 1);
      assert.deepEqual(summarize(received()), [`leads.created ${lead} v1`]);
    });

    test('a test event, stored headers without secrets, and pages of deliveries', async () => {
      const { received, at, url, id: subscription, secret } = await subscribe();
      receiver.behave(at, (response) =>
        response
          .writeHead(200, {
            ...Object.fromEntries(
              ['set-cookie', 'authorization', 'proxy-authenticate', 'www-authenticate'].map((name) => [
                name,
                'session=secret',
              ]),
            ),
            'x-answer': 'yes',
          })
          .end('thanks'),
      );
      const answer = await call(`POST ${url}/test`);
      await arrive(received, 1);
      const event = received().find(({ event }) => event.type === 'test');
      assert.deepEqual([event?.event.type, event?.event.data], ['test', {}]);
      new Webhook(secret).verify(event?.text ?? '', event?.headers as Record<string, string>);
      const delivery = async () => (await deliveries(url)).find(({ id }) => id === answer.json.delivery);
      await until(async () => (await delivery())?.status === 'done', 'be done');
      const delivered = await delivery();
      assert.match(String(delivered?.response), /^HTTP 200\n.*x-answer: yes/s);
      assert.match(String(delivered?.request), /^POST\n.*webhook-id: evt_/s);
      assert.doesNotMatch(JSON.stringify(delivered), /session=|v1,|whsec_/);
      const listed = `${url}/deliveries?status=dead`;
      assert.equal((await call(`GET ${listed}`)).json.next, null);
      await sql`insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, action, status, done_at)
        select ${acme.id}::bigint, ${subscription}::bigint, 'many ' || n, '', 'test', 'dead', now()
        from generate_series(1, 99) n`.execute(tablesOf(instance().database));
      const first = (await call(`GET ${listed}`)).json;
      const last = (await call(`GET ${listed}&before=${first.next}`)).json;
      const pages = [first, last].map(({ data }) => (data as { id: number }[]).map(({ id }) => id));
      assert.deepEqual([pages.map(({ length }) => length), last.next], [[50, 49], null]);
      assert.equal(new Set(pages.flat()).size, 99);
      for (const query of ['status=x', 'before=x'])
        assert.equal((await call(`GET ${url}/deliveries?${query}`)).status, 400);
      const { rows } = await sql<{ secret: string }>`select secret from crm_event_subscriptions`.execute(
        tablesOf(instance().database),
      );
      assert.ok(rows.every((row) => !row.secret.includes(secret.slice(6))));
      assert.ok(!(await call(`GET ${url}`)).text.includes(secret));
    });

    test('a failing receiver does not delay others, not even in the same organization', async () => {
      const busy = await instance().organization(fresh('busy'));
      const as = await busy.keyWith([events, { object: '*', actions: ['*'] }]);
      const hanging = await subscribe({}, as);
      const fine = await subscribe({}, as);
      const held = new Set<ServerResponse>();
      let most = 0;
      receiver.behave(hanging.at, (response) => {
        held.add(response);
        response.once('close', () => held.delete(response));
        most = Math.max(most, held.size);
      });
      const records = Array.from({ length: 100 }, () => ({ last_name: 'many' }));
      await instance().call('POST /api/v1/leads/batch', { key: as, body: { records } });
      await arrive(fine.received, 100);
      // Out of 128 slots.
      assert.ok(most < 64, `${most} wait`);
      assert.equal((await instance().call(`DELETE ${hanging.url}`, { key: as })).status, 200);
      assert.equal((await instance().call(`GET ${hanging.url}`, { key: as })).status, 404);
      for (const response of held) response.destroy();
    });

    test('commands: create, test, disable, enable, rotate, replay, delete', async () => {
      const own = await instance().organization(fresh('commanded'));
      const organizationOption = ['--org', own.slug];
      const run = async (...args: string[]) =>
        (await runCommand(instance(), [...args, ...organizationOption])).json;
      const at = `/${fresh('hook')}`;
      const received = () => receiver.at(at);
      const options = ['--resources', 'leads', '--profile', 'administrator', '--filter', 'rating=Hot'];
      const created = await run('subscription', 'create', receiver.url + at, ...options);
      const { id, secret } = created as { id: string; secret: string };
      await run('subscription', 'test', id);
      await arrive(received, 1);
      new Webhook(secret).verify(received()[0]?.text ?? '', received()[0]?.headers as Record<string, string>);
      await run('subscription', 'off', id);
      const listStates = async () => {
        const { subscriptions } = (await run('subscription', 'list')) as {
          subscriptions: { state: string }[];
        };
        return subscriptions.map(({ state }) => state);
      };
      assert.deepEqual(await listStates(), ['off']);
      await write('POST /api/v1/leads', { last_name: 'x', rating: 'Hot' }, own.key);
      await run('subscription', 'on', id);
      await arrive(received, 2);
      const rotated = (await run('subscription', 'rotate', id)) as { secret: string };
      assert.notEqual(rotated.secret, secret);
      const listDeliveries = async () =>
        ((await run('delivery', 'list')) as { items: { id: string; status: string }[] }).items;
      await until(async () => (await listDeliveries()).every(({ status }) => status === 'done'), 'be done');
      const [last, first] = await listDeliveries();
      const detail = JSON.stringify(await run('delivery', 'show', String(last?.id)));
      assert.match(detail, /webhook-id/);
      await run('delivery', 'replay', String(last?.id));
      await arrive(received, 3);
      const range = ['--from', String(first?.id), '--to', String(last?.id)];
      await until(
        async () => (await listDeliveries()).every(({ status }) => status === 'done'),
        'be done again',
      );
      const { queued } = (await run('subscription', 'replay', id, ...range)) as { queued: string };
      assert.equal(Number(queued), 2);
      await arrive(received, 5);
      for (const [args, message] of [
        [['off', 'x'], /"x" is not an event subscription ID\. List IDs with "crm subscription list"/],
        [['replay', id, '--from', 'x'], /"x" is not a delivery ID/],
        [['replay', id, '--from', '1', '--to', '-2'], /"-2" is not a delivery ID/],
        [['replay', '999999999', '--from', '1'], /event subscription 999999999 does not exist/],
      ] as const)
        await assert.rejects(run('subscription', ...args), message);
      await run('subscription', 'delete', id);
      assert.deepEqual(await listStates(), []);
      const changes = (await activityOf(instance(), own.id)).filter(({ did }) =>
        did.endsWith(` event subscription ${id}`),
      );
      assert.deepEqual(
        changes.map(({ actor, did }) => `${actor}: ${did.split(' ')[0]}`),
        ['create', 'update', 'update', 'rotate', 'replay', 'delete'].map((did) => `command null: ${did}`),
      );
      await assert.rejects(run('subscription', 'off', id), /event subscription \d+ does not exist/);
    });

    test('values that are repeated in a list are stored once', async () => {
      const lists = (resources: readonly string[], actions: readonly string[]) => ({ resources, actions });
      const body = lists(['leads', 'contacts', 'leads'], ['create', 'delete', 'create']);
      const made = await call(`POST ${path}`, { body: { url: `${receiver.url}/${fresh('hook')}`, ...body } });
      assert.equal(made.status, 201, made.text);
      const stored = async () => {
        const { resources, actions } = (await call(`GET ${path}/${made.json.id}`)).json;
        return lists(resources as string[], [...(actions as string[])].sort());
      };
      // Resources are listed by name.
      assert.deepEqual(await stored(), lists(['contacts', 'leads'], ['create', 'delete']));
      const change = lists(['cases', 'cases'], ['update', 'update']);
      const changed = await call(`PATCH ${path}/${made.json.id}`, { body: change });
      assert.equal(changed.status, 200, changed.text);
      assert.deepEqual(await stored(), lists(['cases'], ['update']));
    });

    test("errors are reported; another organization's subscription is not found", async () => {
      const url = `${receiver.url}/x`;
      const wrong: readonly (readonly [object, RegExp])[] = [
        [{}, /url is required; resources is required/],
        [{ url: 7, resources: ['leads'] }, /url must be a string/],
        [{ url: 'nowhere', resources: ['leads'] }, /url must be an absolute URL/],
        [{ url, resources: [] }, /resources must be an array of these values: accounts/],
        [{ url, resources: ['leeds'] }, /resources must be an array of these values: accounts/],
        [
          { url, resources: ['leads'], actions: ['read'] },
          /actions must be an array of these values: create, update, delete/,
        ],
        [{ url, resources: ['leads'], filter: 'colour=red' }, /cannot filter leads by colour\. Available: /],
        [{ url, resources: ['leads'], filter: 'created_at[gte]=x' }, /filter: created_at\[gte\] must be/],
        [{ url, resources: ['leads'], filter: 7 }, /filter must be a string with list parameters/],
        [
          { url, resources: ['leads'], filter: `last_name=${'x'.repeat(1991)}` },
          /filter must be a string with list parameters/,
        ],
        [{ url, resources: ['leads'], filter: '__proto__=x' }, /cannot filter leads by __proto__/],
        [{ url, resources: ['leads', 'accounts'], filter: 'website=x' }, /cannot filter leads by website/],
        [{ url, resources: ['accounts', 'leads'], filter: 'rating=Hot' }, /cannot filter accounts by rating/],
        [
          { url, resources: ['accounts', 'leads'], transitions: { website: {} } },
          /changes to leads do not contain website/,
        ],
      ];
      for (const [body, message] of wrong) {
        const answer = await call(`POST ${path}`, { body });
        assert.equal(answer.status, 400, answer.text);
        assert.match(String(answer.json.error), message);
      }
      await subscribe({ filter: `company[starts_with]=${'x'.repeat(1979)}` });
      const size = JSON.stringify({ url, resources: ['leads'], filter: '' }).length;
      for (const [bytes, status] of [
        [16_384, 400],
        [16_385, 413],
      ] as const) {
        const body = { url, resources: ['leads'], filter: 'x'.repeat(bytes - size) };
        assert.equal((await call(`POST ${path}`, { body })).status, status, `${bytes} bytes`);
      }
      const { url: ours } = await subscribe({ filter: 'rating=Hot' });
      for (const [body, message] of [
        [{ state: 'maybe' }, /state must be "on" or "off"/],
        [{ resources: ['accounts'] }, /cannot filter accounts by rating/],
        [{ filter: '', filter_when: 'enters' }, /filter_when can only be enters with a filter/],
      ] as const) {
        const answer = await call(`PATCH ${ours}`, { body });
        assert.equal(answer.status, 400, answer.text);
        assert.match(String(answer.json.error), message);
      }
      const other = await instance().organization(fresh('stranger'));
      const stranger = await other.keyWith([events, { object: '*', actions: ['*'] }]);
      for (const [request, body] of [
        [`GET ${ours}`],
        [`PATCH ${ours}`, { state: 'off' }],
        [`DELETE ${ours}`],
        [`GET ${ours}/deliveries`],
        [`POST ${ours}/secrets`, {}],
        [`POST ${ours}/test`, {}],
        [`POST ${ours}/replay`, { from: 1 }],
      ] as const) {
        const answer = await instance().call(request, { key: stranger, ...(body && { body }) });
        assert.equal(answer.status, 404, request);
      }
      const { next: theirs } = (await instance().call('GET /events?after=now', { key: stranger })).json;
      const foreign = await call(`POST ${ours}/replay`, { body: { after: theirs } });
      assert.equal(foreign.status, 400, foreign.text);
      assert.match(
        String(foreign.json.error),
        /after must be a cursor from GET \/events of this organization/,
      );
      assert.equal((await call(`PATCH ${ours}`, { body: { state: 'off' } })).status, 200);
      for (const [request, body] of [
        [`POST ${ours}/test`, {}],
        [`POST ${ours}/replay`, { from: 1 }],
      ] as const) {
        const answer = await call(request, { body });
        assert.equal(answer.status, 400, request);
        assert.match(String(answer.json.error), /enable/i, request);
      }
      const listStates = await instance().call(`GET ${path}`, { key: stranger });
      assert.deepEqual(listStates.json.data, []);
    });
  },
  { environment: file.environment },
);

test('a stopping service does not wait for receivers, and sends unanswered events again', async () => {
  const instance = await startInstance('embedded', { environment: file.environment });
  const acme = await instance.organization('acme');
  const key = await acme.keyWith([events, { object: '*', actions: ['*'] }]);
  const at = `/${fresh('hook')}`;
  receiver.behave(at, () => undefined);
  const body = { url: receiver.url + at, resources: ['leads'] };
  assert.equal((await instance.call(`POST ${path}`, { key, body })).status, 201);
  assert.equal((await instance.call('POST /api/v1/leads', { key, body: { last_name: 'x' } })).status, 201);
  await until(() => receiver.at(at).length === 1, 'the event to be sent');
  await instance.app.close();
  const { rows } = await sql`select status, error from crm_event_deliveries where next_at <= now()`.execute(
    tablesOf(instance.database),
  );
  // If the service had waited for the request's time limit, the error would be different.
  assert.deepEqual(rows, [{ status: 'waiting', error: 'the service stopped before the receiver responded' }]);
  await instance.close();
});
