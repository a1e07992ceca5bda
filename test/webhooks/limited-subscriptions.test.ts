// Event subscriptions whose profiles are limited to scopes and field groups.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { runCommand } from '../support/command-line.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { jobs, limitedKey, limitedPerson, setGrants } from '../support/limited.ts';
import { settingsFile } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { until } from '../support/process.ts';
import { eventsTo, type Received, settledFeed, startReceiver, whilePaused } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';

const receiver = await startReceiver();
after(() => receiver.close());
const file = settingsFile(eventsTo(receiver.port));
const path = '/events/subscriptions';
const events = ['events:create', 'events:read', 'events:update'];

onBothDrivers(
  'limited event subscriptions',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const write = async (request: string, body?: object) => {
      const answer = await instance().call(request.replace(' ', ' /api/v1/'), {
        key: acme.key,
        ...(body && { body }),
      });
      assert.ok(answer.status < 300, answer.text);
      return Number(answer.json.id);
    };
    const subscribe = async (key: string, body: object = {}) => {
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
    const deliveries = async (url: string, key: string) =>
      (await instance().call(`GET ${url}/deliveries`, { key })).json.data as Readonly<
        Record<string, unknown>
      >[];
    const summarize = (received: readonly Received[]) =>
      received.map(({ event: { type, data } }) => [type, data.version, data.record?.name ?? null]);
    /** Waits until a subscription that sees everything has received a number of events about a record. */
    const arrived = (witness: () => readonly Received[], id: number, count: number) =>
      until(
        async () => witness().filter(({ event }) => event.data.id === id).length >= count,
        `${count} events`,
      );
    const witness = async () => {
      const { key } = await limitedKey(instance(), acme, [...events, '*:*']);
      return subscribe(key);
    };

    test('entering the scope is a creation, leaving it a deletion without the record', async () => {
      const all = await witness();
      const { key } = await limitedKey(instance(), acme, [...events, 'jobs:read:open']);
      const some = await subscribe(key);
      const creations = await subscribe(key, { actions: ['create'] });
      const id = await write('POST jobs', { name: 'n1', margin: 471_147_711 });
      await arrived(some.received, id, 1);
      await write(`PATCH jobs/${id}`, { margin: 471_147_712 });
      await write(`PATCH jobs/${id}`, { name: 'n3', status: 'Done', margin: 471_147_713 });
      await write(`PATCH jobs/${id}`, { name: 'n4' });
      await write(`PATCH jobs/${id}`, { name: 'n5', status: 'New' });
      await arrived(some.received, id, 3);
      await arrived(creations.received, id, 2);
      await arrived(all.received, id, 5);
      await write(`DELETE jobs/${id}`);
      await arrived(some.received, id, 4);
      const [first, left, entered, deleted] = some.received();
      assert.ok(first && left && entered && deleted);
      assert.deepEqual(summarize([left, deleted]), [
        ['jobs.deleted', 3, null],
        ['jobs.deleted', 6, null],
      ]);
      assert.deepEqual(summarize([first])[0]?.slice(0, 2), ['jobs.created', 1]);
      assert.deepEqual(summarize([entered]), [['jobs.created', 5, 'n5']]);
      assert.deepEqual(
        creations.received().map(({ event: { type, data } }) => [type, data.version]),
        [
          ['jobs.created', 1],
          ['jobs.created', 5],
        ],
      );
      for (const { text } of some.received()) assert.doesNotMatch(text, /margin|cost|471147|n[34]"/);
      const queued = (await deliveries(some.url, key)).map(({ event }) => event);
      assert.deepEqual(queued, [
        `delete jobs ${id} v6`,
        `create jobs ${id} v5`,
        `delete jobs ${id} v3`,
        `create jobs ${id} v1`,
      ]);
    });

    test('a subscription has no user, so it owns nothing', async () => {
      const all = await witness();
      const ann = await limitedPerson(instance(), acme, [...events, 'jobs:read:own']);
      const own = await subscribe(ann.key);
      const id = await write('POST jobs', { name: 'hers', owner_id: Number(ann.id) });
      await arrived(all.received, id, 1);
      assert.deepEqual(await deliveries(own.url, ann.key), []);
    });

    test('the profile is checked again before sending', async () => {
      const { key, profile } = await limitedKey(instance(), acme, [...events, 'jobs:read:open']);
      const full = await limitedKey(instance(), acme, [...events, '*:*']);
      const some = await subscribe(key);
      receiver.behave(some.at, 503);
      const id = await write('POST jobs', { name: 'n1', score: 1 });
      await arrived(some.received, id, 1);
      await setGrants(instance(), acme, profile, [...events, 'jobs:read:hot']);
      await until(async () => {
        await sql`update crm_event_deliveries set next_at = now() where (organization_id, id) in (
          select organization_id, id from crm_event_deliveries
          where status = 'waiting' and next_at < now() + interval '9 seconds' for update skip locked)`.execute(
          tablesOf(instance().database),
        );
        return (await deliveries(some.url, full.key)).some(({ status }) => status === 'done');
      }, 'the event to be dropped');
      const [delivery] = await deliveries(some.url, full.key);
      assert.equal(delivery?.request, "Not sent: the subscription's profile cannot read this change.");
      assert.deepEqual(await deliveries(some.url, key), [], 'the profile can no longer see the change');
      const body = { from: Number(delivery?.id) };
      const resent = await instance().call(`POST ${some.url}/replay`, { key, body });
      assert.deepEqual(resent.json, { queued: 0 });
    });

    test('an event contains no record that has left the scope since', async () => {
      const { key } = await limitedKey(instance(), acme, [...events, 'jobs:read:open']);
      const some = await subscribe(key);
      const id = await whilePaused(instance(), [some.id], 3, async () => {
        const created = await write('POST jobs', { name: 'n1' });
        await write(`PATCH jobs/${created}`, { name: 'n2' });
        await write(`PATCH jobs/${created}`, { name: 'n3', status: 'Done' });
        return created;
      });
      await arrived(some.received, id, 3);
      assert.deepEqual(summarize(some.received()), [
        ['jobs.created', 1, null],
        ['jobs.updated', 2, null],
        ['jobs.deleted', 3, null],
      ]);
    });

    test('deliveries of resources that the caller cannot read are neither listed nor resent', async () => {
      const { key } = await limitedKey(instance(), acme, [...events, 'jobs:read']);
      const full = await limitedKey(instance(), acme, [...events, '*:*']);
      const some = await subscribe(key, { resources: ['jobs', 'leads'] });
      const lead = await write('POST leads', { last_name: 'Hidden' });
      const id = await write('POST jobs', { name: 'n1' });
      const titles = async (caller: string) =>
        (await deliveries(some.url, caller)).map(({ event }) => event).toSorted();
      await until(async () => (await titles(full.key)).length === 2, 'queue both');
      assert.deepEqual(await titles(full.key), [`create jobs ${id} v1`, `create leads ${lead} v1`]);
      assert.deepEqual(await titles(key), [`create jobs ${id} v1`]);
      const ids = (await deliveries(some.url, full.key)).map((delivery) => Number(delivery.id));
      const body = { from: Math.min(...ids), to: Math.max(...ids) };
      const resend = (caller: string) => instance().call(`POST ${some.url}/replay`, { key: caller, body });
      assert.deepEqual((await resend(key)).json, { queued: 1 });
      const { key: other } = await limitedKey(instance(), acme, [...events, 'jobs:read:open']);
      assert.equal((await resend(other)).status, 403);
      assert.deepEqual((await resend(full.key)).json, { queued: 2 });
    });

    test("a limited caller can replay after its own cursor, but not after another caller's", async () => {
      const grants = [...events, 'jobs:list:open', 'jobs:read:open'];
      const [own, other] = [
        await limitedKey(instance(), acme, grants),
        await limitedKey(instance(), acme, [...events, '*:*']),
      ];
      const cursorOf = async ({ key }: { readonly key: string }) =>
        String((await instance().call('GET /events?after=now', { key })).json.next);
      await settledFeed(instance());
      const cursors = { own: await cursorOf(own), other: await cursorOf(other) };
      const some = await subscribe(own.key);
      const replayed = (after: string) =>
        instance().call(`POST ${some.url}/replay`, { key: own.key, body: { after } });
      const id = await write('POST jobs', { name: 'n1' });
      await arrived(some.received, id, 1);
      const rejected = await replayed(cursors.other);
      assert.equal(rejected.status, 400, rejected.text);
      assert.match(rejected.text, /after must be a cursor from GET \/events of this organization/);
      const accepted = await replayed(cursors.own);
      assert.equal(accepted.status, 200, accepted.text);
      await arrived(some.received, id, 2);
    });

    test('a filter cannot contain hidden fields', async () => {
      const { key, profile } = await limitedKey(instance(), acme, [...events, 'jobs:read']);
      const { key: trusted, profile: trustedProfile } = await limitedKey(instance(), acme, [
        ...events,
        'jobs:read',
        'jobs.finance:read',
      ]);
      const body = { url: `${receiver.url}/filtered`, resources: ['jobs'], filter: 'margin=1' };
      const hidden = await instance().call(`POST ${path}`, { key, body });
      assert.equal(hidden.status, 400);
      assert.match(hidden.text, /cannot filter jobs by margin\. Available: [^"]*status/);
      assert.doesNotMatch(hidden.text, /Available: [^"]*margin/);
      const visible = await subscribe(trusted, { filter: 'margin=1' });
      const moved = await instance().call(`PATCH ${visible.url}`, {
        key,
        body: { url: `${receiver.url}/elsewhere` },
      });
      assert.equal(moved.status, 400, 'the subscription would be assigned the profile');
      const { status } = await instance().call(`PATCH ${visible.url}`, { key, body: { state: 'off' } });
      assert.equal(status, 200, 'disabling does not reveal anything');
      for (const [name, isValid] of [
        [profile, false],
        [trustedProfile, true],
      ] as const) {
        const options = `subscription create ${receiver.url}/cli --org acme --resources jobs --filter margin=1 --profile`;
        const creation = runCommand(instance(), [...options.split(' '), name]);
        if (isValid) assert.match((await creation).text, /Created event subscription/);
        else await assert.rejects(creation, /cannot filter jobs by margin/);
      }
    });

    test('a caller who can read less than the profile neither redirects its events nor sees its deliveries', async () => {
      const wide = await limitedKey(instance(), acme, [...events, 'jobs:read:open', 'jobs:read:hot']);
      const finance = await limitedKey(instance(), acme, [
        ...events,
        'jobs:read:open',
        'jobs:read:hot',
        'jobs.finance:read',
      ]);
      const narrow = await limitedKey(instance(), acme, [...events, 'jobs:read:open']);
      const full = await limitedKey(instance(), acme, [...events, '*:*']);
      const redirected = async (subscription: { url: string }, key: string) => {
        const answer = await instance().call(`PATCH ${subscription.url}`, {
          key,
          body: { url: `${receiver.url}/${fresh('moved')}` },
        });
        assert.equal(answer.status, 200, answer.text);
        return answer.json.profile;
      };
      const list = async (subscription: { url: string }, key: string) =>
        (await instance().call(`GET ${subscription.url}/deliveries`, { key })).status;
      for (const [owner, caller, isCovered] of [
        [wide, full, true],
        [wide, finance, true],
        [wide, narrow, false],
        [narrow, wide, true],
        [finance, wide, false],
        [full, wide, false],
      ] as const) {
        const subscription = await subscribe(owner.key);
        assert.equal(await list(subscription, caller.key), isCovered ? 200 : 403);
        assert.equal(await redirected(subscription, caller.key), isCovered ? owner.profile : caller.profile);
      }
    });
  },
  { sources: await sourcesWith(jobs), environment: file.environment, ownServer: true },
);
