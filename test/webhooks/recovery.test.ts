// Event delivery retries: after the receiver has recovered, and until deliveries become dead letters.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type RawBuilder, sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { settingsFile } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { until } from '../support/process.ts';
import { eventsTo, settledFeed, startReceiver } from '../support/receiver.ts';

const receiver = await startReceiver();
after(() => receiver.close());
const file = settingsFile(eventsTo(receiver.port));
const path = '/events/subscriptions';

onBothDrivers(
  'deliveries after failures',
  (instance) => {
    let acme: Organization;
    let key: string;
    before(async () => {
      acme = await instance().organization('acme');
      const actions = ['list', 'read', 'create', 'update', 'delete'] as const;
      key = await acme.keyWith([
        { object: 'events', actions },
        { object: '*', actions: ['*'] },
      ]);
    });
    const call = async (request: string, body: object) => {
      const answer = await instance().call(request, { key, body });
      assert.ok(answer.status < 300, answer.text);
      return answer.json;
    };
    const execute = async <Row>(statement: RawBuilder<Row>) =>
      (await statement.execute(tablesOf(instance().database))).rows;

    /** Creates a paused subscription to leads for a path of the receiver, which fails until `succeed` is called. */
    async function subscribe() {
      const at = `/${fresh('recovery')}`;
      receiver.behave(at, 500);
      await settledFeed(instance());
      const { id } = await call(`POST ${path}`, { url: receiver.url + at, resources: ['leads'] });
      await execute(
        sql`update crm_event_subscriptions set paused_until = 'infinity' where id = ${id}::bigint`,
      );
      const deliveryOf = async (lead: number) => {
        const [row] = await execute(
          sql<{ status: string; attempts: number; error: string; next: string }>`
            select status, attempts, error, next_at::text as next from crm_event_deliveries
            where subscription_id = ${id}::bigint and object_id = ${lead}::bigint`,
        );
        return row;
      };
      return {
        id,
        at,
        deliveryOf,
        succeed: () => receiver.behave(at, 204),
        /** Counts the attempts for a lead that reached the receiver. */
        tries: (lead: number) => receiver.at(at).filter(({ event }) => event.data.id === lead).length,
        /** Creates a lead and waits until its event is queued. */
        queued: async () => {
          const lead = await create();
          await until(async () => (await deliveryOf(lead)) !== undefined, 'be queued');
          return lead;
        },
        /** Starts the deliveries. */
        resume: (failures = 0) =>
          execute(sql`update crm_event_subscriptions set failures = ${failures}::int, paused_until = '-infinity'
            where id = ${id}::bigint`),
        set: (lead: number, values: RawBuilder<unknown>) =>
          execute(sql`update crm_event_deliveries set ${values}
            where subscription_id = ${id}::bigint and object_id = ${lead}::bigint`),
      };
    }
    const create = async () => Number((await call('POST /api/v1/leads', { last_name: 'Ames' })).id);

    describe('a receiver that has recovered', () => {
      for (const [failures, isQuick] of [
        [9, false],
        [10, true],
        [500, true],
      ] as const) {
        test(`after ${failures} failures, a distant retry ${isQuick ? 'becomes due immediately' : 'keeps its time'}`, async () => {
          const { id, queued, set, resume, succeed, tries, deliveryOf } = await subscribe();
          const [long, soon] = [await queued(), await queued()];
          await set(long, sql`attempts = 1, next_at = now() + interval '1 hour'`);
          await set(soon, sql`attempts = 1, next_at = now() + interval '55 seconds'`);
          const waiting = [await deliveryOf(long), await deliveryOf(soon)];
          const other = await subscribe();
          const distant = await other.queued();
          await other.set(distant, sql`attempts = 1, next_at = now() + interval '1 hour'`);
          await other.resume(failures);
          const others = await other.deliveryOf(distant);
          succeed();
          await resume(failures);
          const next = await create();
          await until(async () => (await deliveryOf(next))?.status === 'done', 'arrive');
          if (isQuick) {
            await until(async () => (await deliveryOf(long))?.status === 'done', 'be retried immediately');
            assert.equal(tries(long), 1);
          } else {
            assert.deepEqual(await deliveryOf(long), waiting[0]);
          }
          // On a slow machine, its time might have come.
          const [{ kept } = { kept: false }] = await execute(
            sql<{
              kept: boolean;
            }>`select coalesce(done_at, next_at) >= ${waiting[1]?.next}::timestamptz as kept
              from crm_event_deliveries where subscription_id = ${id}::bigint and object_id = ${soon}::bigint`,
          );
          assert.equal(kept, true, 'a retry due within a minute keeps its time');
          const [{ left } = { left: -1 }] = await execute(
            sql<{
              left: number;
            }>`select failures as left from crm_event_subscriptions where id = ${id}::bigint`,
          );
          assert.equal(left, 0, 'the failure count is reset');
          assert.deepEqual(await other.deliveryOf(distant), others, 'another subscription keeps its time');
          const [{ kept: count } = { kept: -1 }] = await execute(
            sql<{
              kept: number;
            }>`select failures as kept from crm_event_subscriptions where id = ${other.id}::bigint`,
          );
          assert.ok(count >= failures, 'and its failure count');
        });
      }
    });

    for (const how of ['replay', 'test'] as const)
      test(`a ${how} does not wait for the end of a pause that failures have caused`, async () => {
        const { id, at, queued, deliveryOf, succeed } = await subscribe();
        const lead = await queued();
        const other = await subscribe();
        await execute(sql`update crm_event_subscriptions
          set failures = 500, failing_since = now() - interval '1 day', paused_until = now() + interval '1 day'
          where id in (${id}::bigint, ${other.id}::bigint)`);
        succeed();
        const [{ from } = { from: '' }] = await execute(
          sql<{ from: string }>`select id::text as from from crm_event_deliveries
            where subscription_id = ${id}::bigint and object_id = ${lead}::bigint`,
        );
        if (how === 'test') await call(`POST ${path}/${id}/test`, {});
        else await call(`POST ${path}/${id}/replay`, { from: Number(from) });
        await until(async () => (await deliveryOf(lead))?.status === 'done', 'arrive');
        assert.ok(receiver.at(at).length > 0);
        const [{ isPaused } = { isPaused: false }] = await execute(
          sql<{ isPaused: boolean }>`select paused_until > now() as "isPaused" from crm_event_subscriptions
            where id = ${other.id}::bigint`,
        );
        assert.equal(isPaused, true, 'other subscriptions stay paused');
      });

    test('a receiver that has recovered counts as failing only since its next failure', async () => {
      const { id, at, queued, resume, succeed, deliveryOf } = await subscribe();
      const lead = await queued();
      await execute(sql`update crm_event_subscriptions set failing_since = now() - interval '6 days'
        where id = ${id}::bigint`);
      succeed();
      await resume(1);
      await until(async () => (await deliveryOf(lead))?.status === 'done', 'arrive');
      receiver.behave(at, 500);
      const next = await create();
      await until(async () => ((await deliveryOf(next))?.error ?? '') !== '', 'fail');
      const [subscription] = await execute(
        sql`select state, failing_since > now() - interval '1 day' as recent
          from crm_event_subscriptions where id = ${id}::bigint`,
      );
      assert.deepEqual(subscription, { state: 'on', recent: true });
    });

    test('a receiver that keeps failing counts as failing since its first failure', async () => {
      const { id, queued, resume, deliveryOf } = await subscribe();
      const lead = await queued();
      await execute(sql`update crm_event_subscriptions set failing_since = now() - interval '119 hours'
        where id = ${id}::bigint`);
      await resume(1);
      await until(async () => ((await deliveryOf(lead))?.error ?? '') !== '', 'fail');
      const [subscription] = await execute(
        sql`select state, failing_since < now() - interval '118 hours' as early
          from crm_event_subscriptions where id = ${id}::bigint`,
      );
      assert.deepEqual(subscription, { state: 'on', early: true });
    });

    test('a success ends a failure that was recorded after its request was sent', async () => {
      const { id, at, queued, set, resume, tries, deliveryOf } = await subscribe();
      const [first, second] = [await queued(), await queued()];
      const { promise, resolve } = Promise.withResolvers<void>();
      receiver.behave(at, async (response, { event }) => {
        if (event.data.id === first) await promise;
        response.writeHead(event.data.id === first ? 204 : 500).end();
      });
      // After its next failure, it is not retried for half an hour.
      await set(second, sql`attempts = 11, next_at = now() + interval '1 hour'`);
      await resume();
      await until(async () => tries(first) === 1, 'be sent');
      await set(second, sql`next_at = now()`);
      await until(async () => ((await deliveryOf(second))?.error ?? '') !== '', 'fail');
      const state = async () =>
        (
          await execute(
            sql`select failures, failing_since is null as "isFine" from crm_event_subscriptions where id = ${id}::bigint`,
          )
        )[0];
      assert.deepEqual(await state(), { failures: 1, isFine: false });
      resolve();
      await until(async () => (await deliveryOf(first))?.status === 'done', 'arrive');
      assert.deepEqual(await state(), { failures: 0, isFine: true });
    });

    describe('a failure pauses the subscription', () => {
      for (const [name, { failures = 0, since, retryAfter }, [least, most]] of [
        ['not before the eleventh one', { failures: 9, since: '1 hour' }, [0, 0]],
        ['not within the first 30 seconds', { failures: 10, since: '-1 hour' }, [0, 0]],
        ['for one to two seconds at first', { failures: 10, since: '1 minute' }, [1, 2]],
        ['twice as long after each additional one', { failures: 13, since: '1 minute' }, [8, 16]],
        ['for at most five minutes', { failures: 500, since: '1 day' }, [150, 300]],
        ['as long as Retry-After, even after the first one', { retryAfter: '100' }, [100, 100]],
        ['for at most a day, whatever Retry-After is', { retryAfter: '999999999' }, [86_400, 86_400]],
      ] as readonly [
        string,
        { failures?: number; since?: string; retryAfter?: string },
        readonly [number, number],
      ][]) {
        test(name, async () => {
          const { id, at, queued, set, resume, deliveryOf } = await subscribe();
          receiver.behave(at, (response) =>
            response.writeHead(503, retryAfter === undefined ? {} : { 'retry-after': retryAfter }).end(),
          );
          const lead = await queued();
          // The next attempt is due only in half an hour.
          await set(lead, sql`attempts = 11`);
          if (since !== undefined)
            await execute(sql`update crm_event_subscriptions set failing_since = now() - ${since}::text::interval
              where id = ${id}::bigint`);
          const [{ start } = { start: '' }] =
            await execute(sql<{ start: string }>`select now()::text as start`);
          await resume(failures);
          await until(async () => ((await deliveryOf(lead))?.error ?? '') !== '', 'fail');
          const [pause] = await execute(
            sql`select paused_until >= ${start}::timestamptz + ${least}::int * interval '1 second' as "isLongEnough",
                paused_until <= now() + ${most}::int * interval '1 second' as "isShortEnough"
              from crm_event_subscriptions where id = ${id}::bigint`,
          );
          assert.deepEqual(pause, { isLongEnough: true, isShortEnough: true });
        });
      }
    });

    test('a failure does not shorten a pause that an earlier response has requested', async () => {
      const { id, at, queued, set, resume, tries, deliveryOf } = await subscribe();
      const [first, second] = [await queued(), await queued()];
      const { promise, resolve } = Promise.withResolvers<void>();
      receiver.behave(at, async (response, { event }) => {
        if (event.data.id === second) await promise;
        const isFirst = event.data.id === first;
        response.writeHead(isFirst ? 503 : 500, isFirst ? { 'retry-after': '3600' } : {}).end();
      });
      // The next attempts are due only in half an hour.
      for (const lead of [first, second]) await set(lead, sql`attempts = 11`);
      await set(first, sql`next_at = now() + interval '1 hour'`);
      await resume();
      await until(async () => tries(second) === 1, 'be sent');
      await set(first, sql`next_at = now()`);
      await until(async () => ((await deliveryOf(first))?.error ?? '') !== '', 'fail');
      resolve();
      await until(async () => ((await deliveryOf(second))?.error ?? '') !== '', 'fail, too');
      const [subscription] = await execute(
        sql`select failures, paused_until > now() + interval '30 minutes' as "isPaused"
          from crm_event_subscriptions where id = ${id}::bigint`,
      );
      assert.deepEqual(subscription, { failures: 2, isPaused: true });
    });

    describe('a response', () => {
      for (const [status, outcome, state] of [
        [200, 'done', 'on'],
        [299, 'done', 'on'],
        [300, 'waiting', 'on'],
        [304, 'waiting', 'on'],
        [307, 'waiting', 'on'],
        [400, 'waiting', 'on'],
        [410, 'dead', 'gone'],
        [500, 'waiting', 'on'],
      ] as const) {
        test(`with ${status}: the event is ${outcome}, and the subscription ${state}`, async () => {
          const { id, at, queued, resume, deliveryOf } = await subscribe();
          receiver.behave(at, status);
          const lead = await queued();
          const lines = await logged(async () => {
            await resume();
            await until(async () => {
              const delivery = await deliveryOf(lead);
              return delivery?.status === 'done' || (delivery?.error ?? '') !== '';
            }, 'be answered');
          });
          const delivery = await deliveryOf(lead);
          const error = outcome === 'done' ? '' : `the receiver responded with ${status}`;
          assert.deepEqual([delivery?.status, delivery?.error], [outcome, error]);
          assert.equal((await instance().call(`GET ${path}/${id}`, { key })).json.state, state);
          const notices = lines.filter(({ msg }) => msg === 'event subscription disabled');
          assert.deepEqual(
            notices.map(({ organization, subscription, reason }) => [organization, subscription, reason]),
            state === 'gone' ? [[acme.id, String(id), error]] : [],
          );
        });
      }
    });

    test('a subscription that a user disables during a request stays disabled by the user, whatever the response', async () => {
      const { id, at, queued, resume, tries, deliveryOf } = await subscribe();
      const lead = await queued();
      const { promise, resolve } = Promise.withResolvers<void>();
      receiver.behave(at, async (response) => {
        await promise;
        response.writeHead(410).end();
      });
      await resume();
      await until(async () => tries(lead) === 1, 'be sent');
      await instance().call(`PATCH ${path}/${id}`, { key, body: { state: 'off' } });
      resolve();
      await until(async () => (await deliveryOf(lead))?.status === 'dead', 'be answered');
      assert.equal((await instance().call(`GET ${path}/${id}`, { key })).json.state, 'off');
    });

    test('a failure postpones only later events of the same record, and no other record waits for it', async () => {
      const { id, at, queued, resume } = await subscribe();
      const other = await subscribe();
      const lead = await queued();
      receiver.behave(at, (response, { event }) =>
        response.writeHead(event.data.resource === 'leads' ? 500 : 204).end(),
      );
      /** Events with the same IDs as the lead's event, except for these values. */
      const later: Readonly<Record<string, object>> = {
        'the same record': {},
        'another resource': { object: 'accounts' },
        'another record': { object_id: lead + 1 },
        'another subscription': { subscription_id: other.id },
      };
      for (const [name, values] of Object.entries(later)) {
        const changed = { event_id: name, version: 2, next_at: '3000-01-01T00:00:00Z', ...values };
        await execute(sql`insert into crm_event_deliveries
          select (jsonb_populate_record(d, ${JSON.stringify(changed)}::text::jsonb
            || jsonb_build_object('id', nextval(pg_get_serial_sequence('crm_event_deliveries', 'id'))))).*
          from crm_event_deliveries d
          where organization_id = ${acme.id}::bigint and subscription_id = ${id}::bigint and object_id = ${lead}::bigint
            and version = 1`);
      }
      const eventOf = async (condition: RawBuilder<unknown>) => {
        const [row] = await execute(
          sql<{ status: string; error: string; isPostponed: boolean }>`
            select status, error, next_at < '3000-01-01T00:00:00Z' as "isPostponed" from crm_event_deliveries where ${condition}`,
        );
        return row ?? assert.fail();
      };
      const first = sql`subscription_id = ${id}::bigint and object_id = ${lead}::bigint and version = 1`;
      await resume();
      await until(async () => (await eventOf(first)).error !== '', 'fail');
      for (const name of Object.keys(later)) {
        const { isPostponed } = await eventOf(sql`event_id = ${name}::text`);
        assert.equal(isPostponed, name === 'the same record', name);
      }
      const account = sql`event_id = 'another resource'`;
      await execute(sql`update crm_event_deliveries set next_at = now() where ${account}`);
      await until(async () => (await eventOf(account)).status === 'done', 'arrive');
      assert.equal((await eventOf(first)).status, 'waiting');
    });

    describe('an event becomes a dead letter', () => {
      for (const [age, attempts, isGivenUp] of [
        ['73 hours', 12, true],
        ['73 hours', 11, false],
        ['71 hours', 12, false],
        ['30 days', 2, false],
        ['1 hour', 500, false],
        ['30 days', 500, true],
      ] as const) {
        test(`${age} old, attempt ${attempts}: ${isGivenUp ? 'yes' : 'no, it waits'}`, async () => {
          const { at, queued, set, resume, deliveryOf } = await subscribe();
          // There is only one attempt.
          receiver.behave(at, (response) => response.writeHead(500, { 'retry-after': '3600' }).end());
          const lead = await queued();
          await set(
            lead,
            sql`attempts = ${attempts - 1}::int, error = '', next_at = now(), received_at = now() - ${age}::text::interval`,
          );
          await resume();
          let after = await deliveryOf(lead);
          await until(async () => {
            after = await deliveryOf(lead);
            return after?.error !== '';
          }, 'try it');
          assert.deepEqual([after?.status, after?.attempts], [isGivenUp ? 'dead' : 'waiting', attempts]);
        });
      }
    });
  },
  { environment: file.environment },
);
