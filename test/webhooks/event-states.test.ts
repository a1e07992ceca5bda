// Events contain the record after each change and the previous values of the changed fields.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, optionOf, signIn } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { jobs, limitedKey, setGrants } from '../support/limited.ts';
import { settingsFile } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { until } from '../support/process.ts';
import { eventsTo, type Received, settledFeed, startReceiver, whilePaused } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';

const receiver = await startReceiver();
after(() => receiver.close());
const publicUrl = 'https://crm.example';
const settings = { ...eventsTo(receiver.port), public_url: `${publicUrl}/` };
const file = settingsFile(settings);
const path = '/events/subscriptions';
/** A resource with fields of which the change log does not contain single values. */
const bills = {
  file: 'bills.yaml',
  text: `
singular: bill
common: all
custom_fields: true
fields:
  price: { type: money, currency: any, nullable: true }
  job_ids: { type: references, to: jobs }
  subject: { type: reference, to: [jobs, leads], nullable: true }
filters:
  - { field: price.currency, operators: [eq] }
  - { field: job_ids, operators: [any] }
  - { field: subject, operators: [eq] }
`,
};

onBothDrivers(
  'states in events',
  (instance) => {
    let acme: Organization;
    let full: string;
    before(async () => {
      acme = await instance().organization('acme');
      full = (await limitedKey(instance(), acme, ['events:*', '*:*'])).key;
      const size = await instance().call('POST /fields/bills', {
        key: acme.key,
        body: { name: 'size', type: 'integer' },
      });
      assert.equal(size.status, 201, size.text);
    });
    const write = async (request: string, body?: object) => {
      const answer = await instance().call(request.replace(' ', ' /api/v1/'), {
        key: acme.key,
        ...(body && { body }),
      });
      assert.ok(answer.status < 300, answer.text);
      return Number(answer.json.id);
    };
    const subscribe = async (body: object = {}, key = full) => {
      const at = `/${fresh('hook')}`;
      const input = { url: receiver.url + at, resources: ['jobs'], ...body };
      await settledFeed(instance());
      const answer = await instance().call(`POST ${path}`, { key, body: input });
      assert.equal(answer.status, 201, answer.text);
      return {
        at,
        id: Number(answer.json.id),
        url: `${path}/${answer.json.id}`,
        received: () => receiver.at(at),
      };
    };
    const arrive = (received: () => readonly Received[], count: number) =>
      until(async () => received().length >= count, `${count} events`);
    const data = ({ event }: Received) => event.data;

    test('quick changes are distinguishable, although all events are sent after the last change', async () => {
      const { id: subscription, received } = await subscribe();
      const id = await whilePaused(instance(), [subscription], 3, async () => {
        const created = await write('POST jobs', { name: 'n1', score: 1 });
        await write(`PATCH jobs/${created}`, { name: 'n2' });
        await write(`PATCH jobs/${created}`, { name: 'n3', score: null });
        return created;
      });
      await arrive(received, 3);
      await write(`DELETE jobs/${id}`);
      await arrive(received, 4);
      const [created, second, third, deleted] = received().map(data);
      assert.deepEqual([created?.previous, created?.after?.name, created?.after?.score], [null, 'n1', 1]);
      assert.deepEqual(Object.keys(second?.previous ?? {}).toSorted(), ['name', 'updated_at']);
      assert.deepEqual(
        [second?.previous?.name, second?.after?.name, second?.after?.score, second?.record?.name],
        ['n1', 'n2', 1, 'n3'],
      );
      const { name, score } = third?.previous ?? {};
      assert.deepEqual([name, score, third?.after?.name, third?.after?.score], ['n2', 1, 'n3', null]);
      assert.equal(second?.after?.updated_at, third?.previous?.updated_at);
      assert.deepEqual([deleted?.previous, deleted?.after, deleted?.record], [third?.after, null, null]);
    });

    test('states are the same as in the change feed, with exact numbers', async () => {
      const { received } = await subscribe();
      const start = String((await instance().call('GET /events?after=now', { key: full })).json.next);
      const id = await write('POST jobs', { name: 'n1', margin: 1 });
      const body = '{"margin":12345678901234567890.123}';
      const headers = { 'content-type': 'application/json' };
      const answer = await instance().call(`PATCH /api/v1/jobs/${id}`, { key: acme.key, headers, body });
      assert.equal(answer.status, 200, answer.text);
      await arrive(received, 2);
      const feed = await instance().call(`GET /events?after=${encodeURIComponent(start)}&resources=jobs`, {
        key: full,
      });
      const changes = feed.json.data as readonly (Readonly<Record<string, unknown>> & { at: string })[];
      // The event's time is in UTC, with the same precision.
      const micros = (time: string) => [Date.parse(time), /\.\d*/.exec(time)?.[0]];
      assert.deepEqual(
        received().map(({ event: { timestamp, data } }) => {
          const { position, action, resource, version, changed, after } = data;
          return { at: micros(timestamp), position, action, resource, id: data.id, version, changed, after };
        }),
        changes.map(({ at, position, action, resource, id, version, changed, after }) => ({
          ...{ at: micros(at), position, action, resource, id, version, changed, after },
        })),
      );
      assert.match(received()[1]?.text ?? '', /"after":\{[^}]*"margin":12345678901234567890\.123/);
      assert.equal(data(received()[1] as Received).previous?.margin, 1);
    });

    test('hidden fields are absent, and so are states outside of the scopes', async () => {
      const witness = await subscribe();
      const { key } = await limitedKey(instance(), acme, ['events:*', 'jobs:read:open']);
      const some = await subscribe({}, key);
      const id = await write('POST jobs', { name: 'n1', margin: 4711 });
      await write(`PATCH jobs/${id}`, { name: 'n2', margin: 4712 });
      await write(`PATCH jobs/${id}`, { name: 'n3', status: 'Done', margin: 4713 });
      await write(`PATCH jobs/${id}`, { name: 'n4' });
      await write(`PATCH jobs/${id}`, { name: 'n5', status: 'New' });
      await arrive(witness.received, 5);
      await arrive(some.received, 4);
      assert.deepEqual(
        some
          .received()
          .map(data)
          .map(({ action, previous, after }) => [action, previous?.name ?? null, after?.name ?? null]),
        [
          ['create', null, 'n1'],
          ['update', 'n1', 'n2'],
          ['delete', 'n2', null],
          ['create', null, 'n5'],
        ],
      );
      for (const { text } of some.received()) assert.doesNotMatch(text, /margin|cost|n[34]"/);
    });

    /** Returns the versions of a subscription's events, once a number of its deliveries have ended. */
    const versionsOf = async (
      { received, url }: Pick<Awaited<ReturnType<typeof subscribe>>, 'received' | 'url'>,
      count: number,
    ) => {
      await until(async () => {
        const { json } = await instance().call(`GET ${url}/deliveries`, { key: full });
        const statuses = (json.data as readonly { status: string }[]).map(({ status }) => status);
        return statuses.length >= count && !statuses.includes('waiting');
      }, 'all deliveries to end');
      return received().map((event) => data(event).version);
    };

    test('transitions: only updates from and to these values', async () => {
      const won = await subscribe({ transitions: { status: { from: ['New', 'Open'], to: 'Done' } } });
      const any = await subscribe({ transitions: { status: {} } });
      const both = await subscribe({
        transitions: { status: { to: 'Done' }, score: { from: null, to: [1, 2] } },
      });
      const id = await write('POST jobs', { name: 'n1', status: 'New' });
      await write(`PATCH jobs/${id}`, { status: 'Done' });
      await write(`PATCH jobs/${id}`, { name: 'n3' });
      await write(`PATCH jobs/${id}`, { status: 'Lost' });
      await write(`PATCH jobs/${id}`, { status: 'Done', score: 2 });
      await write(`PATCH jobs/${id}`, { status: 'Open' });
      await write(`PATCH jobs/${id}`, { status: 'Done' });
      await write(`DELETE jobs/${id}`);
      assert.deepEqual(await versionsOf(won, 8), [2, 7]);
      assert.deepEqual(await versionsOf(any, 8), [2, 4, 5, 6, 7]);
      assert.deepEqual(await versionsOf(both, 8), [5]);
    });

    test('entering and leaving a filter, although all events are sent after the last change', async () => {
      const filter = 'status=Hot&status=Warm';
      const entering = await subscribe({ filter, filter_when: 'enters' });
      const leaving = await subscribe({ filter, filter_when: 'leaves' });
      const first = await write('POST jobs', { name: 'n1', status: 'Cold' });
      await write(`PATCH jobs/${first}`, { status: 'Hot' });
      await write(`PATCH jobs/${first}`, { status: 'Warm' });
      await write(`PATCH jobs/${first}`, { status: 'Cold' });
      await write(`PATCH jobs/${first}`, { status: 'Warm' });
      await write(`DELETE jobs/${first}`);
      assert.deepEqual(await versionsOf(entering, 6), [2, 5]);
      assert.deepEqual(await versionsOf(leaving, 6), [4, 6]);
      await write('POST jobs', { name: 'n2', status: 'Hot' });
      assert.deepEqual(await versionsOf(entering, 7), [2, 5, 1]);
      const [left] = leaving.received().map(data);
      assert.deepEqual([left?.previous?.status, left?.after?.status], ['Warm', 'Cold']);
      for (const [mode, { url }] of [
        ['enters', entering],
        ['leaves', leaving],
      ] as const) {
        const { json } = await instance().call(`GET ${url}/deliveries`, { key: full });
        const [skipped] = (json.data as readonly { readonly request: string }[]).filter(
          ({ request }) => !request.startsWith('POST'),
        );
        assert.equal(
          skipped?.request,
          `Not sent: the record is not one that ${mode} the filter by this change.`,
        );
      }
    });

    test('transitions and moves cannot reveal hidden fields and records', async () => {
      const grants = ['events:*', 'jobs:read:open'];
      const { key } = await limitedKey(instance(), acme, grants);
      const create = (body: object) =>
        instance().call(`POST ${path}`, {
          key,
          body: { url: `${receiver.url}/${fresh('hook')}`, resources: ['jobs'], ...body },
        });
      const hidden = await create({ transitions: { margin: { to: 1 } } });
      assert.equal(hidden.status, 400);
      assert.match(hidden.text, /changes to jobs do not contain margin\. Available: [^"]*status/);
      assert.doesNotMatch(hidden.text, /Available: [^"]*margin/);
      assert.equal((await create({ filter: 'margin=1', filter_when: 'enters' })).status, 400);
      // A record outside of the scope does not exist for the profile.
      const leaving = await subscribe({ filter: 'name=n1', filter_when: 'leaves' }, key);
      const changing = await subscribe({ transitions: { status: { to: 'Done' } } }, key);
      const id = await write('POST jobs', { name: 'n1' });
      await write(`PATCH jobs/${id}`, { status: 'Done' });
      await write(`PATCH jobs/${id}`, { name: 'n3' });
      assert.deepEqual(await versionsOf(leaving, 2), [2]);
      assert.deepEqual([data(leaving.received()[0] as Received).after], [null]);
      assert.deepEqual(await versionsOf(changing, 2), []);
      // A field that the profile can no longer read withholds the events instead of sending all of them.
      const wide = await limitedKey(instance(), acme, [...grants, 'jobs.finance:read']);
      const margins = await subscribe({ transitions: { margin: {} } }, wide.key);
      await setGrants(instance(), acme, wide.profile, grants);
      await write(`PATCH jobs/${id}`, { status: 'New', name: 'n4' });
      await write(`PATCH jobs/${id}`, { name: 'n5' });
      assert.deepEqual(await versionsOf(margins, 2), []);
    });

    test('errors in transitions and filter_when', async () => {
      const numbers = (length: number) => Array.from({ length }, (_, index) => index);
      for (const [body, message] of [
        [{ transitions: 'status' }, /transitions must be an object such as/],
        [{ transitions: { status: 'Done' } }, /transitions must be an object such as/],
        [{ transitions: { status: { until: 'Done' } } }, /transitions must be an object such as/],
        [{ transitions: { status: { to: [] } } }, /transitions can contain 1 to 50 values per list/],
        [{ transitions: { status: { to: [{}] } } }, /transitions can contain 1 to 50 values per list/],
        [
          { transitions: { status: { from: numbers(51) } } },
          /transitions can contain 1 to 50 values per list/,
        ],
        [
          { transitions: Object.fromEntries(numbers(11).map((name) => [name, {}])) },
          /transitions can contain at most 10 fields/,
        ],
        [
          { transitions: Object.fromEntries(numbers(10).map((name) => [name, { to: numbers(50) }])) },
          /changes to jobs do not contain 0/,
        ],
        [{ transitions: [] }, /transitions must be an object such as/],
        [{ transitions: { status: [] } }, /transitions must be an object such as/],
        [{ transitions: { colour: {} } }, /changes to jobs do not contain colour/],
        [{ filter_when: 'enters' }, /filter_when can only be enters with a filter/],
        [{ filter: 'status=New', filter_when: 'is' }, /filter_when must be one of matches, enters, leaves/],
        ...['custom.size=1', 'job_ids[any]=1', 'price.currency=EUR', 'subject=jobs/1'].map(
          (filter) =>
            [
              { resources: ['bills'], filter, filter_when: 'leaves' },
              /filter_when: the filter of bills by [\w.]+ is only available with "matches"/,
            ] as const,
        ),
      ] as const) {
        const answer = await instance().call(`POST ${path}`, {
          key: full,
          body: { url: `${receiver.url}/x`, resources: ['jobs'], ...body },
        });
        assert.equal(answer.status, 400, answer.text);
        assert.match(String(answer.json.error), message);
      }
      const { url } = await subscribe({
        filter: 'status=New',
        filter_when: 'leaves',
        transitions: { name: {} },
      });
      const stored = await instance().call(`GET ${url}`, { key: full });
      assert.deepEqual([stored.json.filter_when, stored.json.transitions], ['leaves', { name: {} }]);
      const cleared = await instance().call(`PATCH ${url}`, {
        key: full,
        body: { filter_when: 'matches', transitions: {} },
      });
      assert.deepEqual([cleared.json.filter_when, cleared.json.transitions], ['matches', {}]);
    });

    test('the command line and the admin UI accept the same options', async () => {
      const transitions = { status: { from: ['New'], to: ['Done'] } };
      const text = JSON.stringify(transitions);
      const filter = 'status=New';
      const options = [
        ...['--filter', filter, '--filter-when', 'leaves', '--format', 'cloudevents'],
        ...['--actions', 'update', '--batch-events', '7', '--batch-wait', '9'],
      ];
      const create = (...args: string[]) => {
        const url = `${receiver.url}/${fresh('hook')}`;
        const required = ['--org', 'acme', '--resources', 'jobs', '--profile', 'administrator'];
        return runCommand(instance(), ['subscription', 'create', url, ...required, ...args]);
      };
      const { json } = await create(...options, '--transitions', text);
      const created = await instance().call(`GET ${path}/${json.id}`, { key: full });
      assert.deepEqual(
        [created.json.actions, created.json.batch],
        [['update'], { max_events: 7, max_wait_seconds: 9 }],
      );
      const admin = await signIn(instance(), administratorOf(acme));
      const page = '/setup/o/acme/events/add';
      const answer = await admin.submit(page, page, {
        url: `${receiver.url}/${fresh('hook')}`,
        resource: 'jobs',
        action: 'update',
        filter,
        filter_when: 'leaves',
        transitions: text,
        format: 'cloudevents',
        profile: await optionOf(admin, '/setup/o/acme/keys/create', 'administrator'),
      });
      assert.equal(answer.status, 200, answer.text);
      const all = await instance().call(`GET ${path}`, { key: full });
      for (const subscription of [created.json, (all.json.data as object[]).at(-1)]) {
        const { filter_when, transitions: stored, format } = Object(subscription);
        assert.deepEqual([filter_when, stored, format], ['leaves', transitions, 'cloudevents']);
      }
      const { text: list } = await admin.get('/setup/o/acme/events');
      assert.match(list, /leaves status&#x3D;New; transitions of status/);
      const own = await admin.get(`/setup/o/acme/events/subscription?id=${json.id}`);
      assert.match(own.text, />CloudEvents/);
      const rotating = await admin.get(`/setup/o/acme/events/rotate?id=${json.id}`);
      assert.match(rotating.text, /for 24 hours/);
      await assert.rejects(create('--transitions', 'status'), /transitions must be an object such as/);
      await assert.rejects(create('--format', 'xml'), /format must be one of standard, cloudevents/);
    });

    test('with the format cloudevents, the same data in the envelope of CloudEvents 1.0', async () => {
      const standard = await subscribe();
      const { url, received } = await subscribe({ format: 'cloudevents' });
      const id = await write('POST jobs', { name: 'n1' });
      await arrive(received, 1);
      await arrive(standard.received, 1);
      const [{ event, headers } = assert.fail()] = received();
      const { data, timestamp } = standard.received()[0]?.event ?? assert.fail();
      assert.equal(headers['content-type'], 'application/cloudevents+json; charset=utf-8');
      assert.deepEqual(event, {
        specversion: '1.0',
        id: headers['webhook-id'],
        source: `${publicUrl}${url}`,
        type: 'jobs.created',
        subject: `jobs/${id}`,
        time: timestamp,
        datacontenttype: 'application/json',
        data,
      });
      assert.equal((await instance().call(`POST ${url}/test`, { key: full })).status, 200);
      await arrive(received, 2);
      const { type, subject, data: empty } = Object(received()[1]?.event);
      assert.deepEqual([type, subject, empty], ['test', undefined, {}]);
      const moved = 'https://moved.example';
      try {
        await file.apply(instance(), { public_url: moved });
        const body = { url: `${receiver.url}/${fresh('hook')}`, resources: ['jobs'] };
        assert.equal((await instance().call(`POST ${path}`, { key: full, body })).status, 400, 'HTTP');
        await file.apply(instance(), { ...settings, public_url: moved });
        await instance().call(`POST ${url}/test`, { key: full });
        await arrive(received, 3);
        assert.equal(Object(received()[2]?.event).source, `${moved}${url}`);
      } finally {
        await file.apply(instance(), settings);
      }
      const changed = await instance().call(`PATCH ${url}`, { key: full, body: { format: 'standard' } });
      assert.deepEqual([changed.status, changed.json.format], [200, 'standard']);
      await write(`PATCH jobs/${id}`, { name: 'n2' });
      await arrive(received, 4);
      assert.deepEqual(Object.keys(received()[3]?.event ?? {}), ['type', 'timestamp', 'data']);
      const wrong = await instance().call(`PATCH ${url}`, { key: full, body: { format: 'xml' } });
      assert.equal(wrong.status, 400);
      assert.match(wrong.text, /format must be one of standard, cloudevents/);
    });

    test('states are absent if the change log no longer contains the change', async () => {
      const every = await subscribe();
      const selecting = [
        await subscribe({ transitions: { name: {} } }),
        await subscribe({ filter: 'name=n2', filter_when: 'enters' }),
      ];
      const subscriptions = [every, ...selecting].map(({ id }) => id);
      await whilePaused(
        instance(),
        subscriptions,
        2,
        async () => {
          const id = await write('POST jobs', { name: 'n1' });
          await write(`PATCH jobs/${id}`, { name: 'n2' });
          return id;
        },
        (id) =>
          sql`delete from crm_ledger where object = 'jobs' and object_id = ${id}::bigint`.execute(
            tablesOf(instance().database),
          ),
      );
      const queued = async ({ url }: { readonly url: string }) =>
        (await instance().call(`GET ${url}/deliveries`, { key: full })).json.data as readonly {
          readonly status: string;
          readonly error: string;
        }[];
      await arrive(every.received, 2);
      const second = data(every.received()[1] as Received);
      assert.deepEqual([second.record?.name, 'previous' in second, 'after' in second], ['n2', false, false]);
      assert.ok(second.changed.includes('name'));
      // Whether the change is selected is unknown, so it is not sent.
      for (const each of selecting) {
        await until(async () => (await queued(each)).every(({ status }) => status === 'dead'), 'give up');
        for (const { error } of await queued(each))
          assert.equal(error, 'the change log no longer contains the change');
      }
    });
  },
  { sources: await sourcesWith(jobs, bills), environment: file.environment, ownServer: true },
);
