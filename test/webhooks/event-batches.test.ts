// Event subscriptions with batches: several events in one request, with the same ID and events in every attempt.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RawBuilder, sql } from 'kysely';
import { Webhook } from 'standardwebhooks';
import { InvalidEventError, readEvent, readEvents } from '../../client/src/index.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { administratorOf, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { eventsTo, type Received, settledFeed, startReceiver } from '../support/receiver.ts';

const receiver = await startReceiver();
after(() => receiver.close());
const file = settingsFile(eventsTo(receiver.port));
const path = '/events/subscriptions';
const all = ['list', 'read', 'create', 'update', 'delete'] as const;

type BatchElement = Received['event'] & { readonly id: string };
const elementsOf = ({ text }: Received) => JSON.parse(text) as BatchElement[];
const idOf = ({ headers }: Received) => String(headers['webhook-id']);
const summaries = (request: Received) =>
  elementsOf(request).map(({ type, data }) => `${type} ${data.id} v${data.version}`);

onBothDrivers(
  'batches of events',
  (instance, driver) => {
    let acme: Organization;
    let key: string;
    before(async () => {
      acme = await instance().organization('acme');
      key = await acme.keyWith([
        { object: 'events', actions: all },
        { object: '*', actions: ['*'] },
      ]);
    });
    const call = (request: string, more: Call = {}) => instance().call(request, { key, ...more });
    const execute = async <Row>(statement: RawBuilder<Row>) =>
      (await statement.execute(tablesOf(instance().database))).rows;
    const lead = async (body: object = {}) => {
      const answer = await instance().call('POST /api/v1/leads', {
        key: acme.key,
        body: { last_name: 'Lead', ...body },
      });
      assert.equal(answer.status, 201, answer.text);
      return Number(answer.json.id);
    };
    const change = async (id: number, body: object) => {
      const answer = await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body });
      assert.equal(answer.status, 200, answer.text);
    };
    const batch = { max_events: 3, max_wait_seconds: 300 };
    const subscribe = async (body: object = {}, as = key) => {
      const at = `/${fresh('batch')}`;
      const input = { url: receiver.url + at, resources: ['leads'], batch, ...body };
      await settledFeed(instance());
      const answer = await instance().call(`POST ${path}`, { key: as, body: input });
      assert.equal(answer.status, 201, answer.text);
      const { id, secret } = answer.json as { id: number; secret: string };
      return { at, id, secret, received: () => receiver.at(at), url: `${path}/${id}` };
    };
    const arrive = (received: () => readonly Received[], count: number) =>
      until(async () => received().length >= count, `${count} requests, not ${received().length}`);
    const deliveries = async (url: string) =>
      (await call(`GET ${url}/deliveries`)).json.data as {
        readonly id: number;
        readonly event: string;
        readonly status: string;
        readonly error: string;
        readonly request: string;
        readonly events?: readonly string[];
      }[];
    const settle = (url: string, status: string, count = 1) =>
      until(
        async () => (await deliveries(url)).filter((delivery) => delivery.status === status).length >= count,
        `${count} ${status}`,
      );
    /** Makes the collected events of a subscription old enough for an incomplete batch. */
    const age = (id: number) =>
      execute(
        sql`update crm_event_deliveries set received_at = now() - interval '1 day' where subscription_id = ${id}::bigint and status = 'waiting'`,
      );
    const collected = async (id: number) =>
      (
        await execute(
          sql`select from crm_event_deliveries where subscription_id = ${id}::bigint and status = 'waiting' and next_at = 'infinity'`,
        )
      ).length;
    const collect = (id: number, count: number) =>
      until(async () => (await collected(id)) === count, `${count} collected events`);
    /** SQL condition that no attempt is in progress, because each one is in the log. */
    const hasNoAttempt = sql`attempts = cardinality(string_to_array(attempt_log, E'\\n'))`;
    /**
     * Makes a subscription's retries due. These are two statements, because one that holds a lock on the subscription
     * while it waits for deliveries, or the reverse, can cause a deadlock with the service. A batch with an attempt in
     * progress is not claimed a second time, because its duplicate could arrive after later batches.
     */
    const retry = async (id: number) => {
      await execute(sql`update crm_event_subscriptions set paused_until = now() where id = ${id}::bigint`);
      await execute(sql`update crm_event_deliveries set next_at = now() where (organization_id, id) in (
        select organization_id, id from crm_event_deliveries where subscription_id = ${id}::bigint and status = 'waiting'
          and action = 'batch' and ${hasNoAttempt} for update skip locked)`);
    };

    test('a complete batch is one signed request in the order of the change log', async () => {
      const { received, secret, url } = await subscribe();
      const first = await lead();
      const second = await lead();
      await change(first, { last_name: 'Changed' });
      await arrive(received, 1);
      const [request] = received();
      assert.ok(request);
      assert.deepEqual(summaries(request), [
        `leads.created ${first} v1`,
        `leads.created ${second} v1`,
        `leads.updated ${first} v2`,
      ]);
      assert.match(String(request.headers['content-type']), /^application\/json/);
      assert.match(idOf(request), /^batch_/);
      assert.equal(new Set(elementsOf(request).map(({ id }) => id)).size, 3);
      new Webhook(secret).verify(request.text, request.headers as Record<string, string>);
      const events = await readEvents(request.text, request.headers, secret);
      assert.deepEqual(
        events.map(({ type }) => type),
        ['leads.created', 'leads.created', 'leads.updated'],
      );
      await assert.rejects(readEvent(request.text, request.headers, secret), InvalidEventError);
      await settle(url, 'done');
      const [delivery, ...others] = await deliveries(url);
      assert.equal(others.length, 0, 'a batch is one delivery');
      assert.match(
        String(delivery?.event),
        /^batch of 3 events: create leads \d+ v1, create leads \d+ v1, update leads \d+ v2$/,
      );
      assert.deepEqual(delivery?.events, [
        `create leads ${first} v1`,
        `create leads ${second} v1`,
        `update leads ${first} v2`,
      ]);
    });

    test('a replay of a range that contains a batch and its events sends each batch once', async () => {
      const { received, url } = await subscribe();
      const test = (await call(`POST ${url}/test`)).json.delivery;
      for (let count = 0; count < 3; count++) await lead();
      await settle(url, 'done', 2);
      const [delivery] = await deliveries(url);
      const replayed = await call(`POST ${url}/replay`, { body: { from: test, to: delivery?.id } });
      assert.equal(replayed.json.queued, 2, replayed.text);
      await arrive(received, 4);
      await settle(url, 'done', 2);
      assert.deepEqual(
        received()
          .map((request) => elementsOf(request).length)
          .toSorted(),
        [1, 1, 3, 3],
      );
    });

    test('at most four complete batches wait, and an incomplete one is not created before they are sent', async () => {
      const { at, id, received, url } = await subscribe();
      const witness = await subscribe({ resources: ['contacts'] });
      /** Creates a batch of another subscription, after which this one has been considered, too. */
      const considered = async (count: number) => {
        for (let contact = 0; contact < 3; contact++)
          await instance().call('POST /api/v1/contacts', { key: acme.key, body: { last_name: 'Witness' } });
        await settle(witness.url, 'done', count);
      };
      const events = sql`select from crm_event_deliveries where subscription_id = ${id}::bigint and object_id is not null`;
      const queue = async (count: number, total: number) => {
        for (let number = 0; number < count; number++) await lead();
        await until(async () => (await execute(events)).length === total, `${total} events`);
      };
      receiver.behave(at, 500);
      await queue(4, 4);
      await collect(id, 1);
      await age(id);
      await considered(1);
      assert.equal(await collected(id), 1);
      await queue(12, 16);
      await collect(id, 4);
      await considered(2);
      assert.equal(await collected(id), 4);
      receiver.behave(at, 204);
      await age(id);
      await until(async () => {
        await retry(id);
        return (await deliveries(url)).filter(({ status }) => status === 'done').length === 6;
      }, 'all batches');
      assert.deepEqual(
        [...new Map(received().map((request) => [idOf(request), elementsOf(request).length])).values()],
        [3, 3, 3, 3, 3, 1],
      );
      // No batch is created during a pause, so that the next one can contain more events.
      await execute(
        sql`update crm_event_subscriptions set paused_until = 'infinity' where id = ${id}::bigint`,
      );
      await queue(1, 17);
      await collect(id, 1);
      await age(id);
      await considered(3);
      assert.equal(await collected(id), 1);
    });

    if (driver === 'postgresql')
      test('a node whose batch another node has claimed does not send it', async () => {
        const { at, id, received, url } = await subscribe();
        receiver.behave(at, 500);
        for (let count = 0; count < 3; count++) await lead();
        const batchOf = sql`subscription_id = ${id}::bigint and action = 'batch'`;
        const postpone = sql`update crm_event_deliveries set next_at = '3000-01-01T00:00:00Z'
          where ${batchOf} and ${hasNoAttempt} returning id`;
        await until(async () => (await execute(postpone)).length === 1, 'the failure');
        receiver.behave(at, 204);
        const sent = received().length;
        await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
          await client.query(`begin; select from crm_event_subscriptions where id = ${id} for update`);
          await execute(
            sql`update crm_event_deliveries set sealed_at = null, next_at = now() where ${batchOf}`,
          );
          const waiting = sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
            and query like 'select from crm_event_subscriptions%for share'`;
          await until(async () => (await execute(waiting)).length === 1, 'the events to be rendered');
          await execute(sql`update crm_event_deliveries set attempts = attempts + 1 where ${batchOf}`);
          await client.query('rollback');
        });
        await execute(sql`update crm_event_subscriptions set paused_until = now() where id = ${id}::bigint`);
        await execute(sql`update crm_event_deliveries set next_at = now() where ${batchOf}`);
        await settle(url, 'done');
        assert.equal(received().length, sent + 1);
      });

    test('an incomplete batch is sent after the maximum wait', async () => {
      const { id, received, url } = await subscribe();
      const only = await lead();
      await collect(id, 1);
      assert.equal(received().length, 0);
      await age(id);
      await arrive(received, 1);
      assert.deepEqual(received().map(summaries), [[`leads.created ${only} v1`]]);
      assert.equal((await deliveries(url))[0]?.event, `batch of 1 event: create leads ${only} v1`);
    });

    test('with the format cloudevents, in the JSON batch format', async () => {
      const { received, secret, url } = await subscribe({ format: 'cloudevents' });
      for (let count = 0; count < 3; count++) await lead();
      await arrive(received, 1);
      const [request] = received();
      assert.ok(request);
      assert.match(String(request.headers['content-type']), /^application\/cloudevents-batch\+json/);
      for (const event of JSON.parse(request.text))
        assert.deepEqual([event.specversion, event.source], ['1.0', url]);
      assert.equal((await readEvents(request.text, request.headers, secret)).length, 3);
    });

    test('a retry and a replay have the same ID and events; later batches wait', async () => {
      const { at, id, received, url } = await subscribe();
      receiver.behave(at, 500);
      const ids = [await lead(), await lead(), await lead()];
      await arrive(received, 1);
      for (let count = 0; count < 4; count++) await lead();
      await until(
        async () => (await deliveries(url)).some(({ error }) => error !== ''),
        'the first failure is recorded',
      );
      receiver.behave(at, 204);
      await retry(id);
      // On a busy machine, the first batch is also retried automatically.
      const isLater = (request: Received) => idOf(request) !== idOf(received()[0] as Received);
      await until(async () => received().some(isLater), 'the later batch');
      const laterAt = received().findIndex(isLater);
      const [first, ...retries] = received().slice(0, laterAt);
      assert.ok(first && retries.length > 0);
      assert.deepEqual(
        summaries(first),
        ids.map((lead) => `leads.created ${lead} v1`),
      );
      for (const retried of retries)
        assert.deepEqual([idOf(retried), retried.text], [idOf(first), first.text]);
      await collect(id, 1);
      await settle(url, 'done', 2);
      assert.equal(await collected(id), 1);
      const oldest = (await deliveries(url)).at(-1);
      const replayed = await call(`POST ${url}/replay`, { body: { from: oldest?.id } });
      assert.equal(replayed.json.queued, 1, replayed.text);
      await arrive(received, laterAt + 2);
      const again = received()[laterAt + 1];
      assert.ok(again);
      assert.deepEqual([idOf(again), again.text], [idOf(first), first.text]);
    });

    test('a replay after a cursor puts delivered events in new batches', async () => {
      await settledFeed(instance());
      const start = (await call('GET /events?after=now')).json.next;
      const { received, url } = await subscribe();
      const ids = [await lead(), await lead(), await lead()];
      await arrive(received, 1);
      await settle(url, 'done');
      const answer = await call(`POST ${url}/replay`, { body: { after: start } });
      assert.equal(answer.status, 200, answer.text);
      const isRepeated = () =>
        ids.every(
          (lead) =>
            received().filter((request) => summaries(request).includes(`leads.created ${lead} v1`)).length ===
            2,
        );
      await until(async () => isRepeated(), 'all events again');
    });

    test('a replay after a cursor leaves the events of a waiting batch in it', async () => {
      await settledFeed(instance());
      const start = (await call('GET /events?after=now')).json.next;
      const { at, id, received, url } = await subscribe();
      receiver.behave(at, 500);
      for (let count = 0; count < 3; count++) await lead();
      await arrive(received, 1);
      await until(async () => (await deliveries(url)).some(({ error }) => error !== ''), 'the failure');
      const answer = await call(`POST ${url}/replay`, { body: { after: start } });
      assert.equal(answer.status, 200, answer.text);
      // A test event does not wait for the batch.
      assert.equal((await call(`POST ${url}/test`)).status, 200);
      const isTest = (request: Received) => elementsOf(request)[0]?.type === 'test';
      await until(async () => received().some(isTest), 'the test event');
      // The changes have been read again as soon as a later one is collected.
      await lead();
      await until(async () => (await collected(id)) > 0, 'a collected event');
      receiver.behave(at, 204);
      await until(async () => {
        await retry(id);
        return (await deliveries(url)).some(({ event, status }) => event !== 'test' && status === 'done');
      }, 'the retry');
      const [first, ...retries] = received().filter((request) => !isTest(request));
      assert.ok(first && retries.length > 0);
      for (const retried of retries)
        assert.deepEqual([idOf(retried), retried.text], [idOf(first), first.text]);
    });

    test('a replayed event waits for an earlier event about its record that is still collected', async () => {
      const { id, received, url } = await subscribe();
      const one = await lead();
      await change(one, { last_name: 'Changed' });
      await collect(id, 2);
      const [updated] = await deliveries(url);
      const replayed = await call(`POST ${url}/replay`, { body: { from: updated?.id } });
      assert.equal(replayed.json.queued, 1, replayed.text);
      await age(id);
      await arrive(received, 2);
      assert.deepEqual(received().map(summaries), [[`leads.created ${one} v1`], [`leads.updated ${one} v2`]]);
    });

    test('collected events stay collected while the receiver fails and recovers', async () => {
      const { at, id, received, url } = await subscribe({ batch: null });
      await execute(
        sql`update crm_event_subscriptions set paused_until = 'infinity' where id = ${id}::bigint`,
      );
      const one = await lead();
      await until(async () => (await deliveries(url)).length === 1, 'a waiting event');
      await execute(sql`update crm_event_deliveries set attempts = 1 where subscription_id = ${id}::bigint`);
      assert.equal((await call(`PATCH ${url}`, { body: { batch } })).status, 200);
      await change(one, { last_name: 'Changed' });
      await collect(id, 1);
      receiver.behave(at, 500);
      await execute(
        sql`update crm_event_subscriptions set failures = 10, paused_until = now() where id = ${id}::bigint`,
      );
      await until(async () => (await deliveries(url)).some(({ error }) => error !== ''), 'the failure');
      assert.equal(await collected(id), 1);
      receiver.behave(at, 204);
      assert.equal((await call(`POST ${url}/test`)).status, 200);
      await settle(url, 'done', 2);
      assert.equal(await collected(id), 1);
      assert.ok(
        received().every((request) => elementsOf(request).every(({ type }) => type !== 'leads.updated')),
      );
    });

    test('the limit of a request does not remove events from a batch that has been sent', async () => {
      const { at, id, received, url } = await subscribe();
      receiver.behave(at, 500);
      const ids = [await lead(), await lead(), await lead()];
      await arrive(received, 1);
      await until(async () => (await deliveries(url)).some(({ error }) => error !== ''), 'the failure');
      // The events of the batch contain the current records.
      for (const each of ids) await change(each, { description: 'x'.repeat(600_000) });
      receiver.behave(at, 204);
      await until(async () => {
        await retry(id);
        return (await deliveries(url)).some(({ status }) => status === 'done');
      }, 'the retry');
      const retried = received().find(({ text }) => text.length > 1_000_000);
      assert.ok(retried);
      assert.deepEqual(
        summaries(retried),
        ids.map((each) => `leads.created ${each} v1`),
      );
    });

    test('events that the profile may no longer read leave the batch before a retry', async () => {
      const limited = await acme.keyWith([
        { object: 'events', actions: all },
        { object: 'leads', actions: all },
        { object: 'contacts', actions: all },
      ]);
      const { at, id, received, url } = await subscribe({ resources: ['leads', 'contacts'] }, limited);
      receiver.behave(at, 500);
      const first = await lead();
      await instance().call('POST /api/v1/contacts', { key: acme.key, body: { last_name: 'Hidden' } });
      const second = await lead();
      await arrive(received, 1);
      assert.equal(elementsOf(received()[0] as Received).length, 3);
      await execute(sql`delete from crm_grants g using crm_event_subscriptions s
        where s.id = ${id}::bigint and g.profile_id = s.profile_id and g.object = 'contacts'`);
      // Grants are cached for about a second.
      await until(async () => {
        await retry(id);
        return elementsOf(received().at(-1) as Received).length < 3;
      }, 'a retry without the event');
      receiver.behave(at, 204);
      await until(async () => {
        await retry(id);
        return (await deliveries(url)).some(({ status }) => status === 'done');
      }, 'the retry');
      const last = received().at(-1);
      assert.ok(last);
      assert.equal(idOf(last), idOf(received()[0] as Received));
      assert.deepEqual(summaries(last), [`leads.created ${first} v1`, `leads.created ${second} v1`]);
      const [rejected] = await execute(
        sql<{ error: string; attempt_log: string; done_at: Date | null }>`select error, attempt_log, done_at
          from crm_event_deliveries where subscription_id = ${id}::bigint and status = 'dead'`,
      );
      assert.match(String(rejected?.error), /does not grant read on contacts/);
      assert.match(String(rejected?.attempt_log), /"result":"failed"/);
      assert.notEqual(rejected?.done_at, null, 'it is deleted after the retention period');
    });

    test('skipped events become deliveries of their own, and an empty batch is not sent', async () => {
      const { id, received, url } = await subscribe({ filter: 'rating=Hot' });
      for (let count = 0; count < 3; count++) await lead({ rating: 'Cold' });
      await settle(url, 'done', 4);
      assert.equal(received().length, 0);
      const requests = (await deliveries(url)).map(({ request }) => request);
      assert.equal(requests.filter((request) => /does not match the filter/.test(request)).length, 3);
      assert.deepEqual(
        (await deliveries(url)).map(({ events }) => events),
        [[], undefined, undefined, undefined],
      );
      const logged = await execute(sql`select from crm_event_deliveries where subscription_id = ${id}::bigint
        and done_at is not null and attempt_log like '%"result":"skipped"%'`);
      assert.equal(logged.length, 4, 'they are deleted after the retention period');
    });

    test('a large event is sent alone, and the events after it form the next batch', async () => {
      const { id, received } = await subscribe();
      // Each event contains the description twice, and each letter is two bytes.
      const description = 'ä'.repeat(150_000);
      const ids = [await lead({ description }), await lead({ description }), await lead()];
      await arrive(received, 1);
      assert.deepEqual(summaries(received()[0] as Received), [`leads.created ${ids[0]} v1`]);
      await age(id);
      await arrive(received, 2);
      assert.deepEqual(
        summaries(received()[1] as Received),
        ids.slice(1).map((lead) => `leads.created ${lead} v1`),
      );
    });

    test('changes to a record are in the order of its versions, also if they were queued in another order', async () => {
      const { id, received, url } = await subscribe({ batch: { ...batch, max_events: 4 } });
      const one = await lead();
      await change(one, { last_name: 'Changed' });
      await change(one, { last_name: 'Changed again' });
      await collect(id, 3);
      const setVersion = (from: number, to: number) =>
        execute(sql`update crm_event_deliveries set version = ${to}::bigint
          where subscription_id = ${id}::bigint and version = ${from}::bigint`);
      await setVersion(2, 12);
      await setVersion(3, 2);
      await setVersion(12, 3);
      const other = await lead();
      await arrive(received, 1);
      assert.deepEqual(received().map(summaries), [
        [
          `leads.created ${one} v1`,
          `leads.updated ${one} v2`,
          `leads.updated ${one} v3`,
          `leads.created ${other} v1`,
        ],
      ]);
      const [delivery] = await deliveries(url);
      assert.match(String(delivery?.event), /^batch of 4 events: (?:\w+ leads \d+ v\d, ){3}…$/);
      assert.equal(delivery?.events?.length, 4);
    });

    test('events that do not fit into a batch are sent one by one if the option was removed before', async () => {
      const { at, id, received, url } = await subscribe();
      receiver.behave(at, 500);
      for (let count = 0; count < 3; count++) await lead();
      await arrive(received, 1);
      const description = 'x'.repeat(300_000);
      const ids = [await lead({ description }), await lead({ description }), await lead()];
      // The second batch waits for the first.
      await until(
        async () => (await deliveries(url)).filter(({ event }) => /^batch of 3/.test(event)).length === 2,
        'both batches',
      );
      assert.equal((await call(`PATCH ${url}`, { body: { batch: null } })).status, 200);
      receiver.behave(at, 204);
      await until(async () => {
        await retry(id);
        return (await deliveries(url)).filter(({ status }) => status === 'done').length === 4;
      }, 'all deliveries');
      const [batched, ...single] = received()
        .slice(-3)
        .map(({ text }) => JSON.parse(text));
      assert.equal(batched.length, 1);
      const sent = [batched[0], ...single].map(({ data }) => data.id);
      assert.deepEqual(
        sent.sort((a, b) => a - b),
        ids,
      );
    });

    test('without the option, collected events are sent one by one; a waiting batch is still sent as a batch', async () => {
      const { at, id, received, url } = await subscribe();
      receiver.behave(at, 500);
      for (let count = 0; count < 4; count++) await lead();
      await arrive(received, 1);
      await collect(id, 1);
      const changed = await call(`PATCH ${url}`, { body: { batch: null } });
      assert.equal(changed.json.batch, null, changed.text);
      receiver.behave(at, 204);
      await until(async () => {
        await retry(id);
        return (await deliveries(url)).filter(({ status }) => status === 'done').length === 2;
      }, 'both deliveries');
      const sent = received().map(({ text }) => JSON.parse(text));
      assert.equal(sent.at(-2)?.length, 3);
      assert.equal(sent.at(-1)?.type, 'leads.created');
    });

    test('with the option, events that already wait are collected, and others and tests are arrays of one event', async () => {
      const { id, received, url } = await subscribe({ batch: null });
      await execute(
        sql`update crm_event_subscriptions set paused_until = 'infinity' where id = ${id}::bigint`,
      );
      const [first, ...others] = [await lead(), await lead(), await lead(), await lead()];
      await until(async () => (await deliveries(url)).length === 4, 'waiting events');
      await call(`POST ${url}/test`);
      // An event that might already have been sent is not added to a batch.
      await execute(sql`update crm_event_deliveries set attempts = 1
        where subscription_id = ${id}::bigint and object_id = ${first}::bigint`);
      assert.equal((await call(`PATCH ${url}`, { body: { batch } })).status, 200);
      await call(`POST ${url}/test`);
      await execute(sql`update crm_event_subscriptions set paused_until = now() where id = ${id}::bigint`);
      await arrive(received, 4);
      assert.deepEqual(
        received()
          .map((request) => elementsOf(request).map(({ type, data }) => [type, data.id]))
          .toSorted((a, b) => a.length - b.length || String(a).localeCompare(String(b))),
        [
          [['leads.created', first]],
          ...[[['test', undefined]], [['test', undefined]]],
          others.map((other) => ['leads.created', other]),
        ],
      );
    });

    test('callers see a batch only if they can read all of its changes', async () => {
      const { url } = await subscribe({ resources: ['leads', 'contacts'] });
      await lead();
      await instance().call('POST /api/v1/contacts', { key: acme.key, body: { last_name: 'Hidden' } });
      await lead();
      await settle(url, 'done');
      const reader = await acme.keyWith([
        { object: 'events', actions: all },
        { object: 'leads', actions: all },
      ]);
      const { json } = await instance().call(`GET ${url}/deliveries`, { key: reader });
      assert.deepEqual(json.data, []);
    });

    test('the admin UI lists a batch with its events, and deleting the subscription deletes both', async () => {
      const { id, url } = await subscribe();
      for (let count = 0; count < 3; count++) await lead();
      await settle(url, 'done');
      const admin = await signIn(instance(), administratorOf(acme));
      const page = await admin.get(`/setup/o/acme/events?show=event-deliveries&owner=${id}`);
      assert.match(
        page.text,
        /Batch of 3 events: (?:Lead \d+ created \(version 1\), ){2}Lead \d+ created \(version 1\)</,
      );
      const [delivery] = await deliveries(url);
      const details = async (headers = {}) =>
        (await admin.get(`/setup/o/acme/events/item?id=${delivery?.id}`, headers)).text;
      const ids = (delivery?.events ?? []).map((event) => /^create leads (\d+) v1$/.exec(event)?.[1]);
      assert.equal(ids.length, 3);
      const [english, german] = [await details(), await details({ 'accept-language': 'de' })];
      assert.ok(english.includes(ids.map((lead) => `Lead ${lead} created (version 1)`).join('\n')), english);
      assert.ok(german.includes(ids.map((lead) => `Lead ${lead} angelegt (Version 1)`).join('\n')), german);
      assert.match(german, /<h1[^>]*>Stapel mit 3 Ereignissen: Lead \d+ angelegt \(Version 1\), /);
      assert.equal((await call(`DELETE ${url}`)).status, 200);
      const rest = sql`select from crm_event_deliveries where subscription_id = ${id}::bigint`;
      assert.equal((await execute(rest)).length, 0);
    });

    test('invalid options', async () => {
      for (const invalid of [
        1,
        [],
        { max_events: 0 },
        { max_events: 101 },
        { max_events: 1.5 },
        { max_wait_seconds: 301 },
        { max_wait: 5 },
      ]) {
        const body = { url: receiver.url, resources: ['leads'], batch: invalid };
        const { status, text } = await call(`POST ${path}`, { body });
        assert.equal(status, 400, text);
        assert.match(text, /batch must be null or an object/);
      }
      const { url } = await subscribe({ batch: {} });
      assert.deepEqual((await call(`GET ${url}`)).json.batch, { max_events: 100, max_wait_seconds: 5 });
    });
  },
  { environment: file.environment },
);
