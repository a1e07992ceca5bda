// Fairness of the inbox: one organization's flood, slow provider or broken integration does not delay other
// organizations.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { CompiledQuery, sql } from 'kysely';
import { type Tables, tablesOf, transaction } from '../../engine/tables/handle.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { sealing } from '../../plugins/access/secrets/sealing.ts';
import { inboxQueue } from '../../webhooks/inbox/inbox.ts';
import { changeSecrets, openIntegration, setIntegrationEnabled } from '../../webhooks/inbox/integrations.ts';
import { byIndexes, claim, claimStatement } from '../../webhooks/queue/claim.ts';
import { backlog } from '../../webhooks/queue/metrics.ts';
import type { Queue } from '../../webhooks/queue/queue.ts';
import { queueRetention } from '../../webhooks/queue/retention.ts';
import { failureLog, slots } from '../../webhooks/queue/worker.ts';
import { deliveryQueue } from '../../webhooks/subscriptions/deliveries.ts';
import { leadgenBody, whatsappBody } from '../support/channels.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { type Added, deliver, inboxOf, integrate, settingsFile } from '../support/partners.ts';
import { command, fresh } from '../support/people.ts';
import { until } from '../support/process.ts';
import { startProvider } from '../support/providers.ts';

const graph = await startProvider();
after(() => graph.close());
const maxWaiting = 300;
const settings = {
  inbox: { attempts: 3, max_waiting: maxWaiting },
  graph: { base_url: graph.url, timeout_ms: 20_000 },
};
const file = settingsFile(settings);

test('slots: other organizations and owners always find a free one', async () => {
  const shared = slots(20, 5);
  const ends: (() => void)[] = [];
  const hold = (organization: string, owner: string) =>
    shared.hold({ organization, owner }, new Promise<void>((resolve) => ends.push(resolve)), () => {});
  /** Fills the slots and returns their count. Each name is an organization and an owner, for example "a1". */
  const fill = (...holders: string[]) => {
    for (let free = true; free; ) {
      const wanting = holders.filter(
        (item) => !shared.fullOrganizations().includes(item.charAt(0)) && !shared.fullOwners().includes(item),
      );
      for (const item of wanting.slice(0, shared.share())) hold(item.charAt(0), item);
      free = wanting.length > 0 && shared.free() > 0;
    }
    return shared.free();
  };
  assert.ok(fill('a1') >= 13, 'a single owner gets about a third');
  assert.ok(fill('a1', 'a2', 'a3') >= 9, 'its organization gets half');
  assert.ok(fill('a1', 'b1', 'b2') >= 3, 'two organizations share');
  assert.ok(fill('a1', 'b1', 'b2', 'c1', 'd1') >= 1);
  for (const end of ends) end();
  await shared.done();
  assert.deepEqual([shared.free(), shared.fullOrganizations(), shared.fullOwners()], [20, [], []]);
});

describe('failures in the log', () => {
  test('a repeated failure is logged immediately, then once a minute with its count', (context) => {
    context.mock.timers.enable({ apis: ['setInterval'] });
    const lines: unknown[] = [];
    const log = failureLog((details, text) => lines.push({ ...details, text }));
    for (let item = 1; item <= 20_000; item++) log.report('a', { item }, 'down');
    log.report('b', { item: 0 }, 'other');
    assert.deepEqual(lines.splice(0), [
      { item: 1, count: 1, text: 'down' },
      { item: 0, count: 1, text: 'other' },
    ]);
    context.mock.timers.tick(60_000);
    assert.deepEqual(lines.splice(0), [{ item: 20_000, count: 19_999, text: 'down' }]);
    log.report('a', { item: 7 }, 'down');
    log.report('b', { item: 8 }, 'other');
    assert.deepEqual(
      lines.splice(0),
      [{ item: 8, count: 1, text: 'other' }],
      'a minute without failures resets the count',
    );
    log.close();
    assert.deepEqual(lines, [{ item: 7, count: 1, text: 'down' }]);
  });

  test('the number of log lines is limited for any number of different failures', () => {
    let lines = 0;
    const log = failureLog(() => (lines += 1));
    for (let kind = 0; kind < 20_000; kind++) log.report(`kind ${kind}`, {}, 'down');
    assert.ok(lines <= 101, `${lines} lines`);
    log.close();
  });
});

/** Inserts events into an integration's inbox with one statement. */
const flood = (tables: Tables, { id, organization }: Added, count: number, status = 'waiting', hours = -1) =>
  sql`insert into crm_inbox (organization_id, integration_id, event_id, payload, status, done_at, next_at)
      select ${organization.id}::bigint, ${id}::bigint, ${fresh('flood')} || '-' || n,
        json_build_object('message', json_build_object('id', ${fresh('m')} || n, 'from', '1'))::text, ${status},
        case when ${status} = 'waiting' then null else now() end, now() + ${hours}::int * interval '1 hour'
      from generate_series(1, ${count}::int) n`.execute(tables);

const message = (id: string) => whatsappBody({ messages: [{ id, from: '1' }] });

onBothDrivers(
  'one inbox for several organizations',
  (instance) => {
    let acme: Organization;
    let beta: Organization;
    let busy: Added;
    let quiet: Added;
    before(async () => {
      acme = await instance().organization('acme');
      beta = await instance().organization('beta');
      busy = await integrate(instance(), acme, 'whatsapp');
      quiet = await integrate(instance(), beta, 'whatsapp');
    });
    const tables = () => tablesOf(instance().database);
    const setEnabled = (integration: Added, on: boolean) =>
      setIntegrationEnabled(tables(), command(instance()), integration.organization.id, integration.id, on);
    const waiting = async (integration: Added) => {
      const { rows } = await sql<{ count: string }>`select count(*)::text as count from crm_inbox
        where integration_id = ${integration.id}::bigint and status = 'waiting'`.execute(tables());
      return Number(rows[0]?.count);
    };
    /**
     * Deletes an integration's items. Skips locked rows at first, because waiting for them could cause a
     * deadlock.
     */
    const empty = (integration: Added) =>
      until(async () => {
        const own = sql`select id from crm_inbox where integration_id = ${integration.id}::bigint`;
        await sql`delete from crm_inbox where id in (${own} for update skip locked)`.execute(tables());
        return (await own.execute(tables())).rows.length === 0;
      }, 'empty the inbox');
    const becomes = (integration: Added, id: string, status: string) =>
      until(
        async () =>
          (await inboxOf(instance(), integration)).some(
            (item) => item.event_id === id && item.status === status,
          ),
        `${id} ${status}`,
      );

    test("20,000 events of one organization do not delay another's", async () => {
      await flood(tables(), busy, 20_000);
      const latencies: number[] = [];
      const overtaken: number[] = [];
      for (let n = 0; n < 5; n++) {
        const id = fresh('late');
        const start = performance.now();
        const ahead = await waiting(busy);
        await deliver(instance(), quiet, message(id));
        await becomes(quiet, id, 'done');
        latencies.push(Math.round(performance.now() - start));
        overtaken.push(ahead - (await waiting(busy)));
      }
      await setEnabled(busy, false);
      const left = await waiting(busy);
      console.log(
        `another organization's event behind 20,000: after ${latencies} ms and ${overtaken} events of the flood`,
      );
      // Count events instead of milliseconds, because the order does not depend on the machine's speed.
      assert.ok(Math.min(...overtaken) < 200 && left > 10_000, `${overtaken} came first, ${left} are left`);
      await setEnabled(busy, true);
      await until(async () => (await waiting(busy)) < left, 'continue with the flood');
      await setEnabled(busy, false);
      await empty(busy);
    });

    test('nor do they delay another integration of the same organization', async () => {
      const second = await integrate(instance(), acme, 'whatsapp');
      await flood(tables(), busy, 2000);
      await setEnabled(busy, true);
      const ahead = await waiting(busy);
      await flood(tables(), second, 1, 'waiting', 0);
      await until(async () => (await waiting(second)) === 0, 'process the other one');
      const overtaken = ahead - (await waiting(busy));
      assert.ok(overtaken < 200, `${overtaken} of ${ahead} came first`);
      await setEnabled(busy, false);
      await empty(busy);
    });

    test('slow items of one organization leave slots for another', async () => {
      const page = await integrate(instance(), acme, 'meta-lead-ads');
      graph.behave('slow');
      const before = graph.requests.length;
      const ids = Array.from({ length: 60 }, (_, n) => String(700_000_000_000 + n));
      await deliver(instance(), page, leadgenBody(...ids.map((id) => ({ leadgen: `"${id}"` }))));
      await until(() => graph.requests.length - before >= 6, 'hold slots');
      const id = fresh('quick');
      await deliver(instance(), quiet, message(id));
      await becomes(quiet, id, 'done');
      assert.ok((await waiting(page)) === 60, 'none of the slow items has finished');
      await setEnabled(page, false);
      graph.behave('fine');
      await until(
        async () =>
          (await inboxOf(instance(), page)).every(({ error, attempts }) => attempts === 0 || error !== ''),
        'end what had begun',
      );
      await empty(page);
    });

    test('30,000 items that cannot be claimed do not increase the cost of a claim', async () => {
      await setEnabled(busy, false);
      await setEnabled(quiet, false);
      const page = await integrate(instance(), beta, 'telegram');
      const pages = () =>
        transaction(instance().database, async (within) => {
          const { sql: text, parameters } = claimStatement(within, inboxQueue, {
            limit: 5,
            excludedOrganizations: [],
            excludedOwners: [],
            after: '0',
          });
          const explain = CompiledQuery.raw(`explain (analyze, buffers, format json) ${text}`, [
            ...parameters,
          ]);
          await byIndexes(within);
          const { rows } = await within.executeQuery<{ 'QUERY PLAN': unknown }>(explain);
          const result = rows[0]?.['QUERY PLAN'];
          const [{ Plan }] = (typeof result === 'string' ? JSON.parse(result) : result) as [
            { Plan: Record<string, number> },
          ];
          return Number(Plan['Shared Hit Blocks']) + Number(Plan['Shared Read Blocks']);
        });
      const analyze = () => sql`analyze crm_inbox`.execute(tables());
      const none = await pages();
      const asMany = async (moment: string) => {
        const many = await pages();
        assert.ok(many <= none + 60, `${moment}: ${many} pages instead of ${none}`);
      };
      const rows = async () => {
        await flood(tables(), busy, 10_000);
        await asMany('disabled');
        await flood(tables(), quiet, 10_000, 'done');
        await flood(tables(), page, 10_000, 'waiting', 1);
        await asMany('done and not due');
      };
      // Outdated statistics mislead the planner: first one organization has all items, then none are waiting.
      await flood(tables(), busy, 10_000);
      await analyze();
      await rows();
      await sql`delete from crm_inbox`.execute(tables());
      await analyze();
      // The first read marks index entries of deleted rows once no older transaction, such as autovacuum's, can see them.
      await until(async () => (await pages()) <= none + 60, 'deleted rows to be skipped');
      await asMany('nothing waits');
      await rows();
      await analyze();
      await asMany('analyzed');
      for (const item of [busy, quiet, page]) await empty(item);
      await setEnabled(quiet, true);
      await setEnabled(busy, true);
    });

    test('organizations take turns, regardless of the age of their items', async () => {
      const others: Added[] = [];
      for (let n = 0; n < 8; n++) {
        const organization = await instance().organization(fresh('turn'));
        others.push(await integrate(instance(), organization, 'whatsapp'));
      }
      const [{ organization } = assert.fail()] = others;
      const second = await integrate(instance(), organization, 'telegram');
      const nothing = new Error('nothing of this is kept');
      // In one transaction, so that workers cannot see them.
      const claimed = transaction(instance().database, async (within) => {
        for (const item of others) await flood(within, item, 4);
        const organizations: string[] = [];
        for (let last = '0'; organizations.length < 16; ) {
          const options = { limit: 4, excludedOrganizations: [], excludedOwners: [], after: last };
          const result = (await claim(within, inboxQueue, options)).map(({ organization }) => organization);
          last = result.at(-1) ?? assert.fail('nothing claimed');
          organizations.push(...result);
        }
        const turns = Map.groupBy(organizations, (id) => id);
        assert.deepEqual(
          [...turns.values()].map((item) => item.length),
          Array(8).fill(2),
        );
        const [first = assert.fail()] = others;
        await flood(within, first, 20, 'waiting', -2);
        await flood(within, { ...first, id: second.id }, 2);
        const mine = {
          limit: 4,
          excludedOrganizations: others.slice(1).map(({ organization }) => organization.id),
        };
        const claimed = await claim(within, inboxQueue, { ...mine, excludedOwners: [], after: '0' });
        const owners = claimed.filter(({ organization }) => organization === first.organization.id);
        assert.deepEqual(
          Object.entries(Object.groupBy(owners, ({ owner }) => owner)).map(([id, items]) => [
            id,
            items?.length,
          ]),
          [first, second].map(({ id }) => [id, 2]),
          'owners within an organization too',
        );
        throw nothing;
      });
      await assert.rejects(claimed, nothing);
    });

    test('above the limit of waiting events, the provider must retry later', async () => {
      await setEnabled(busy, false);
      const second = await integrate(instance(), acme, 'whatsapp');
      await flood(tables(), busy, maxWaiting);
      await flood(tables(), quiet, maxWaiting, 'done');
      const refused = await until503(() => deliver(instance(), second, message(fresh('full'))));
      assert.equal(refused.headers.get('retry-after'), '60');
      assert.equal(refused.json.error, 'Too many events are waiting to be processed. Try again later.');
      assert.equal((await deliver(instance(), second, whatsappBody({}))).status, 200, 'nothing to store');
      const other = fresh('other');
      assert.equal((await deliver(instance(), quiet, message(other))).status, 200, 'another organization');
      await becomes(quiet, other, 'done');
      const forged = { ...second, secret: 'wrong' };
      assert.equal(
        (await deliver(instance(), forged, message('x'))).status,
        401,
        'unauthenticated callers get no information',
      );
      await empty(busy);
      await until(
        async () => (await deliver(instance(), second, message(fresh('again')))).status === 200,
        'take events again',
      );
      await setEnabled(busy, true);
    });
    /** Sends deliveries until one is rejected, because the count is cached briefly. */
    const until503 = async (call: () => ReturnType<typeof deliver>) => {
      let answer = await call();
      await until(async () => {
        answer = await call();
        return answer.status === 503;
      }, 'refuse');
      return answer;
    };

    test('events that a node has stored count towards the limit before they are counted again', async () => {
      const { admit, add } = backlog(instance().database, inboxQueue);
      const unused = '999999999';
      const isFull = (max: number) =>
        admit(unused, max).then(
          () => false,
          ({ code }: { readonly code: string }) => code === 'overloaded',
        );
      // The count is cached for about a second, which can pass between the calls on a busy machine.
      await until(async () => {
        const wasFull = await isFull(1);
        add(unused, 1);
        add(unused, 2);
        return !wasFull && (await isFull(3)) && !(await isFull(4));
      }, 'reach the limit');
    });

    test('a wrong clock on a node does not change its backoff', async () => {
      const page = await integrate(instance(), beta, 'meta-lead-ads');
      graph.behave('failing');
      const realDate = globalThis.Date;
      for (const hours of [-1, 1]) {
        const id = String(710_000_000_000 + hours);
        globalThis.Date = skewed(realDate, hours * 3_600_000);
        try {
          await deliver(instance(), page, leadgenBody({ leadgen: `"${id}"` }));
          await until(
            async () =>
              (await inboxOf(instance(), page)).some((item) => item.event_id === id && item.error !== ''),
            'fail',
          );
        } finally {
          globalThis.Date = realDate;
        }
        const { rows } = await sql<{ wait: string; attempts: number }>`
          select (extract(epoch from next_at - received_at))::text as wait, attempts from crm_inbox
          where event_id = ${id}`.execute(tables());
        const wait = Number(rows[0]?.wait);
        // On a slow machine, a second attempt might already be in progress, with its lease of a minute.
        assert.ok(wait >= 1 && wait < 1800, `${hours} h: ${wait} s`);
      }
      graph.behave('fine');
      await empty(page);
    });

    test('changed secrets take effect immediately; one that cannot be decrypted is reported as the reason', async () => {
      const page = await integrate(instance(), beta, 'meta-lead-ads');
      const token = () => graph.requests.at(-1)?.headers.authorization;
      const lead = async (id: string) => {
        graph.leads.set(id, { id, field_data: [] });
        await deliver(instance(), page, leadgenBody({ leadgen: `"${id}"` }));
        await becomes(page, id, 'done');
      };
      await lead('720000000001');
      assert.equal(token(), `Bearer ${page.token}`);
      await changeSecrets(
        tables(),
        command(instance()),
        sealing(instanceSecrets(instance().config)),
        beta.id,
        page.id,
        {
          secret: '',
          token: ' another-token\n',
        },
      );
      await lead('720000000002');
      assert.equal(token(), 'Bearer another-token');
      const secrets = { secret: ' another secret\n', token: '' };
      const sealed = sealing(instanceSecrets(instance().config));
      await changeSecrets(tables(), command(instance()), sealed, beta.id, page.id, secrets);
      const changed = await openIntegration(tables(), sealed, { organization: beta.id, id: page.id });
      assert.deepEqual([changed?.secret, changed?.token], ['another secret', 'another-token']);
      await sql`update crm_integrations set token = 'broken' where id = ${page.id}::bigint`.execute(tables());
      await flood(tables(), page, 1);
      await until(async () => (await inboxOf(instance(), page)).some(({ error }) => error !== ''), 'fail');
      const { error } = (await inboxOf(instance(), page)).at(-1) ?? assert.fail();
      assert.match(error, /^a stored secret cannot be decrypted because AUTH_SECRETS has changed/);
      await empty(page);
    });

    test('old processed items are deleted in batches; waiting, new and dead items are kept', async () => {
      await setEnabled(busy, false);
      await flood(tables(), busy, 1100, 'done');
      await flood(tables(), busy, 10, 'dead');
      await sql`update crm_inbox set done_at = now() - interval '40 days' where done_at is not null`.execute(
        tables(),
      );
      await flood(tables(), busy, 5, 'done');
      await flood(tables(), busy, 5);
      const removed = [];
      for (let count = 1; count > 0; removed.push(count))
        count = await queueRetention(tables(), inboxQueue, 'done', 30);
      assert.deepEqual(removed.slice(0, 2), [500, 500]);
      assert.equal(await queueRetention(tables(), inboxQueue, 'dead', 90), 0);
      const left = Map.groupBy(await inboxOf(instance(), busy), ({ status }) => status);
      assert.deepEqual(
        ['done', 'dead', 'waiting'].map((status) => left.get(status)?.length),
        [5, 10, 5],
      );
      assert.equal(await queueRetention(tables(), inboxQueue, 'dead', 30), 10);
      await empty(busy);
    });

    test('each queue keeps its delivered and failed items as long as config.yaml says', async () => {
      const [profile] = (
        await sql<{
          id: string;
        }>`select id::text from crm_profiles where organization_id = ${beta.id}::bigint limit 1`.execute(
          tables(),
        )
      ).rows;
      const subscription = await tables()
        .insertInto('crm_event_subscriptions')
        .values({
          organization_id: beta.id,
          profile_id: profile?.id ?? '',
          ...{ url: 'https://a.example/', actions: '', filter: '', secret: '', state: 'off' },
          ...{ failing_since: null, epoch: '', transaction: '1', ledger_id: '0' },
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      const bot = await integrate(instance(), beta, 'telegram');
      const insertInto = (queue: Queue) => (owner: string, event: string, status: string, days: number) =>
        sql`insert into ${sql.table(queue.table)} (organization_id, ${sql.ref(queue.owner.column)}, event_id, status, done_at,
            ${sql.raw(queue === inboxQueue ? 'payload' : 'object, action')})
          values (${beta.id}::bigint, ${owner}::bigint, ${event}, ${status}, now() - ${days}::int * interval '1 day',
            ${sql.raw(queue === inboxQueue ? "''" : "'', 'test'")})`.execute(tables());
      const all = [
        [inboxQueue, bot.id, 'done', 30],
        [inboxQueue, bot.id, 'dead', 90],
        [deliveryQueue, subscription.id, 'done', 7],
        [deliveryQueue, subscription.id, 'dead', 30],
      ] as const;
      const check = async ([queue, owner, status, days]: readonly [Queue, string, string, number]) => {
        const insert = insertInto(queue);
        await insert(owner, `${status} expired`, status, days + 1);
        await insert(owner, `${status} kept`, status, days - 1);
        const rule = instance().app.retentionRules.find(({ label }) => label === `old ${queue.name} items`);
        for (const step of rule?.steps ?? assert.fail(queue.name)) await step(tables());
        const { rows } = await sql<{ event_id: string }>`select event_id from ${sql.table(queue.table)}
          where ${sql.ref(queue.owner.column)} = ${owner}::bigint and status = ${status}`.execute(tables());
        assert.deepEqual(rows, [{ event_id: `${status} kept` }], queue.name);
        await sql`delete from ${sql.table(queue.table)}
          where ${sql.ref(queue.owner.column)} = ${owner}::bigint`.execute(tables());
      };
      for (const each of all) await check(each);
      // Also after a change while the service runs.
      const [inboxDone, inboxDead, eventsDone, eventsDead] = [20, 80, 5, 20] as const;
      const retention = {
        ...{ inbox_done_days: inboxDone, inbox_dead_days: inboxDead },
        ...{ events_done_days: eventsDone, events_dead_days: eventsDead },
      };
      try {
        await file.apply(instance(), { ...settings, retention });
        const changed = [inboxDone, inboxDead, eventsDone, eventsDead];
        for (const [index, [queue, owner, status]] of all.entries())
          await check([queue, owner, status, changed[index] ?? 0]);
      } finally {
        await file.apply(instance(), settings);
      }
    });
  },
  { environment: file.environment },
);

/** Returns a `Date` class whose clock is off by the given number of milliseconds. */
function skewed(realDate: DateConstructor, byMs: number): DateConstructor {
  return class extends realDate {
    constructor(...args: [] | [string | number | Date]) {
      if (args.length === 0) super(realDate.now() + byMs);
      else super(...args);
    }
    static override now() {
      return realDate.now() + byMs;
    }
  } as DateConstructor;
}
