// The inbox: acknowledged events are processed despite failures, by one node at a time.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { sql } from 'kysely';
import { readConfig } from '../../app/config.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { sealing } from '../../plugins/access/secrets/sealing.ts';
import { channels } from '../../webhooks/channels/channels.ts';
import { inboxQueue } from '../../webhooks/inbox/inbox.ts';
import { addIntegration, setIntegrationEnabled } from '../../webhooks/inbox/integrations.ts';
import { replayItem } from '../../webhooks/queue/items.ts';
import { backoff } from '../../webhooks/queue/worker.ts';
import { leadgenBody, whatsappBody } from '../support/channels.ts';
import { administratorOf, formsOf, signIn } from '../support/forms.ts';
import { drivers, type Organization, onBothDrivers } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { type Added, deliver, delivered, inboxOf, integrate, settingsFile } from '../support/partners.ts';
import { activityOf, command, secondNode } from '../support/people.ts';
import { crmJson, migratedStorage, rowsApart, type Storage, serve, until } from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { startProvider } from '../support/providers.ts';

const attempts = 3;
const graph = await startProvider();
after(() => graph.close());
const file = settingsFile({ inbox: { attempts }, graph: { base_url: graph.url, timeout_ms: 20_000 } });
let ids = 800_000_000_000_000;
const freshId = () => String(++ids);
const lead = (id: string) => ({ id, field_data: [{ name: 'email', values: [`${id}@example.com`] }] });

test('backoff: doubles from two seconds up to an hour, half of it random', () => {
  for (let attempt = 1; attempt <= 100; attempt++) {
    const longest = Math.min(2000 * 2 ** (attempt - 1), 3_600_000);
    assert.equal(
      backoff(attempt, undefined, () => 0),
      longest / 2,
    );
    assert.equal(
      backoff(attempt, undefined, () => 1),
      longest,
    );
    const chosen = backoff(attempt);
    assert.ok(chosen >= longest / 2 && chosen <= longest);
  }
});

onBothDrivers(
  'inbox',
  (instance) => {
    let acme: Organization;
    let page: Added;
    before(async () => {
      acme = await instance().organization('acme');
      page = await integrate(instance(), acme, 'meta-lead-ads');
    });
    beforeEach(() => {
      graph.behave('fine');
      graph.requests.length = 0;
    });
    const tables = () => tablesOf(instance().database);
    const itemOf = async (id: string, integration = page) =>
      (await inboxOf(instance(), integration)).find(({ event_id }) => event_id === id) ??
      assert.fail(`no item ${id}`);
    const becomes = (id: string, status: string, integration = page) =>
      until(async () => (await itemOf(id, integration)).status === status, `${id} ${status}`);
    const send = async (...leadgen: string[]) => {
      const body = leadgenBody(...leadgen.map((item) => ({ leadgen: `"${item}"` })));
      assert.equal((await deliver(instance(), page, body)).status, 200);
    };
    const hurry = (id: string) =>
      sql`update crm_inbox set next_at = now() where event_id = ${id}`.execute(tables());
    const databaseTime = async () => {
      const { rows } = await sql<{ ms: string }>`
        select (extract(epoch from now()) * 1000)::text as ms`.execute(tables());
      return Number(rows[0]?.ms);
    };
    const again = async (id: string) =>
      replayItem(tables(), inboxQueue, command(instance()), acme.id, String((await itemOf(id)).id));
    const requestCount = (id: string) => graph.requests.filter(({ path }) => path.endsWith(`/${id}`)).length;

    test('failures: retried with growing delays, dead after the configured attempts, then replayed manually', async () => {
      const id = freshId();
      graph.leads.set(id, lead(id));
      graph.behave('failing');
      let begun = await databaseTime();
      const lines = await logged(async () => {
        await send(id);
        for (let attempt = 1; attempt < attempts; attempt++) {
          // The lease is a minute during processing. Then the item waits for the backoff.
          const longest = 2000 * 2 ** (attempt - 1);
          let item = await itemOf(id);
          const next = () => new Date(item.next_at).getTime();
          await until(async () => {
            item = await itemOf(id);
            return item.attempts > attempt || (item.attempts === attempt && next() - Date.now() <= longest);
          }, `fail ${attempt} and wait`);
          // On a slow machine, the pause might be over before it is noticed.
          if (item.attempts > attempt) continue;
          assert.ok(next() - begun >= longest / 2, `attempt ${attempt} is followed by a pause`);
          assert.deepEqual([item.status, item.error], ['waiting', 'the Graph API responded with 500']);
          begun = await databaseTime();
          await hurry(id);
        }
        await becomes(id, 'dead');
      });
      const dead = await itemOf(id);
      // The first line about a dead letter does not wait for the summary of the failures.
      assert.ok(lines.some(({ item, given_up }) => item === String(dead.id) && given_up === true));
      assert.deepEqual([dead.attempts, dead.error], [attempts, 'the Graph API responded with 500']);
      assert.notEqual(dead.done_at, null);
      graph.behave('fine');
      await hurry(id);
      const other = freshId();
      graph.leads.set(other, lead(other));
      await send(other, id);
      await becomes(other, 'done');
      assert.equal((await itemOf(id)).status, 'dead', 'it is not retried automatically');

      await again(id);
      await becomes(id, 'done');
      const replayed = await itemOf(id);
      assert.deepEqual([replayed.attempts, replayed.error], [1, '']);
      const [last] = (await activityOf(instance(), acme.id)).filter(({ did }) => did.startsWith('replay'));
      assert.equal(last?.did, `replay inbox item ${replayed.id}`);
    });

    test('a replayed item is processed again with the same result', async () => {
      const id = freshId();
      graph.leads.set(id, lead(id));
      await send(id);
      await becomes(id, 'done');
      await again(id);
      await until(() => requestCount(id) === 2, 'ask again');
      await becomes(id, 'done');
      const found = await sql`select 1 from leads where meta_leadgen_id = ${id}`.execute(tables());
      assert.equal(found.rows.length, 1);
    });

    test("another organization's item and an unknown item cannot be replayed", async () => {
      const other = await instance().organization('other');
      const [item] = await inboxOf(instance(), page);
      for (const [organization, id] of [
        [other.id, String(item?.id)],
        [acme.id, '999999'],
      ] as const) {
        await assert.rejects(
          replayItem(tables(), inboxQueue, command(instance()), organization, id),
          /inbox item .* does not exist/,
        );
      }
    });

    test('"replay all" replays the dead items of one owner, or of all owners, of one organization', async () => {
      const other = await instance().organization('neighbour');
      const [one, two, theirs] = [
        await integrate(instance(), acme, 'telegram'),
        await integrate(instance(), acme, 'telegram'),
        await integrate(instance(), other, 'telegram'),
      ];
      for (const { id, organization } of [one, one, two, theirs])
        for (const status of ['dead', 'done'])
          await delivered(instance(), organization.id, id, { status, payload: '{' });
      // A replayed item fails at its first attempt and then has an error.
      const replayed = async (owner: Added) => {
        const items = await inboxOf(instance(), owner);
        return items.filter(({ error }) => error !== '').length;
      };
      const admin = await signIn(instance(), administratorOf(acme));
      const deliveries = '/setup/o/acme/deliveries';
      const replayAll = async (query: string) => {
        const page = await admin.get(`${deliveries}?status=dead${query}`);
        const form = formsOf(page).find(({ action }) => action === `${deliveries}/replay-all`);
        const answer = await admin.post(`${deliveries}/replay-all`, form?.values ?? assert.fail(page.text));
        assert.equal(answer.status, 303);
      };
      const become = (counts: readonly number[]) =>
        until(
          async () =>
            isDeepStrictEqual(await Promise.all([one, two, theirs].map(replayed)), counts) &&
            (await Promise.all([one, two, theirs].map((owner) => inboxOf(instance(), owner))))
              .flat()
              .every(({ status }) => status !== 'waiting'),
          `${counts} replayed`,
        );
      const filterLabel = async ({ id }: Pick<Added, 'id'>) =>
        /aria-label="Remove the filter ([^"]*)"/.exec(
          (await admin.get(`${deliveries}?owner=${id}`)).text,
        )?.[1];
      const unused = await integrate(instance(), acme, 'telegram');
      assert.deepEqual(await Promise.all([one, unused, theirs].map(filterLabel)), [
        'telegram (Telegram)',
        'telegram (Telegram)',
        'removed',
      ]);
      const pigeon = sql`update crm_integrations set provider = 'pigeon' where id = ${unused.id}::bigint`;
      await pigeon.execute(tables());
      assert.equal(await filterLabel(unused), 'telegram (pigeon)', 'a channel that no longer exists');
      await replayAll(`&owner=${one.id}`);
      await become([2, 0, 0]);
      await replayAll('');
      await become([2, 1, 0]);
    });

    test('the page of a delivery shows the first 4,000 characters of its payload, and whether it will be tried', async () => {
      const admin = await signIn(instance(), administratorOf(acme));
      for (const [payload, expected] of [
        ['x'.repeat(4000), 'x'.repeat(4000)],
        [`${'y'.repeat(4000)}z`, `${'y'.repeat(4000)} …`],
      ] as const) {
        const item = await delivered(instance(), acme.id, page.id, { payload });
        const { text } = await admin.get(`/setup/o/acme/deliveries/item?id=${item}`);
        assert.equal(/x{9,}[^<]*|y{9,}[^<]*/.exec(text)?.[0].trimEnd(), expected);
        assert.ok(text.includes(`href="/setup/o/acme/integrations/integration?id&#x3D;${page.id}"`), text);
      }
      const off = await integrate(instance(), acme, 'telegram');
      await setIntegrationEnabled(tables(), command(instance()), acme.id, off.id, false);
      const item = await delivered(instance(), acme.id, off.id, { payload: '{}', status: 'waiting' });
      const waiting = await admin.get(`/setup/o/acme/deliveries/item?id=${item}`);
      assert.match(waiting.text, />Retrying/);
      assert.doesNotMatch(waiting.text, /Next attempt/, 'none while the integration is disabled');
    });

    test('a poison item becomes dead without delaying the others', async () => {
      const row = { organization_id: acme.id, integration_id: page.id, done_at: null };
      const poison = Array.from({ length: 60 }, (_, index) => ({
        ...row,
        event_id: `poison ${index}`,
        payload: index % 2 === 0 ? '{' : 'null',
      }));
      await tables().insertInto('crm_inbox').values(poison).execute();
      const id = freshId();
      graph.leads.set(id, lead(id));
      await send(id);
      await becomes(id, 'done');
      const poisonItems = async () =>
        (await inboxOf(instance(), page)).filter(({ event_id }) => event_id.startsWith('poison'));
      await until(
        async () => (await poisonItems()).every(({ status }) => status !== 'waiting'),
        'process all',
      );
      for (const item of await poisonItems()) {
        const even = Number(item.event_id.slice(7)) % 2 === 0;
        const expected = even ? 'failed: SyntaxError' : 'failed: TypeError';
        assert.deepEqual([item.status, item.attempts, item.error], ['dead', 1, expected]);
      }
    });

    const deep = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
    const stored: Readonly<Record<string, string>> = {
      'no JSON': '{',
      nothing: '',
      null: 'null',
      'a number': '7',
      'a text': '"text"',
      'a list': '[]',
      'an empty object': '{}',
      'lists in lists': deep(20_000),
      '200,000 numbers': `{"message":[${Array(200_000).fill('1').join()}]}`,
      'other types': '{"message":{"id":7,"from":[],"text":{"body":{}},"message":{}},"status":[]}',
      'a message of other types':
        '{"message":{"from":{"id":{"source":{}}},"chat":7,"text":["a"]},"sender":7}',
      'zero bytes':
        '{"message":{"id":"\\u0000","from":"\\u0000","text":"\\u0000"},"From":"\\u0000","Body":"\\u0000"}',
      'lone surrogates': '{"message":{"id":"\\ud800","from":"\\udfff","text":"\\ud800"},"leadgen":"\\ud800"}',
      'long texts': `{"message":{"id":"${'i'.repeat(100_000)}","from":"${'f'.repeat(100_000)}"},"From":"${'f'.repeat(100_000)}"}`,
      'names of prototypes': '{"__proto__":{"message":{}},"constructor":1,"message":{"__proto__":{"id":1}}}',
    };
    test('hostile events are processed or become dead at the first attempt', async () => {
      const integrations = await Promise.all(
        Object.keys(channels).map((provider) => integrate(instance(), acme, provider)),
      );
      const rows = integrations.flatMap(({ id }) =>
        Object.entries(stored).map(([event_id, payload]) => ({
          organization_id: acme.id,
          integration_id: id,
          event_id,
          payload,
          done_at: null,
        })),
      );
      await tables().insertInto('crm_inbox').values(rows).execute();
      for (const integration of integrations) {
        const items = async () => inboxOf(instance(), integration);
        await until(async () => (await items()).every(({ status }) => status !== 'waiting'), 'process all');
        for (const { event_id, attempts, status, error } of await items()) {
          assert.equal(attempts, 1, event_id);
          if (status === 'dead')
            assert.match(error, /^(?:failed: \w+Error|the event does not contain a \w+ ID)$/, event_id);
        }
      }
    });

    test('a slow item does not delay the others', async () => {
      const [slow, quick] = [freshId(), freshId()];
      graph.leads.set(slow, lead(slow));
      graph.leads.set(quick, lead(quick));
      graph.behave('slow');
      await send(slow);
      await until(() => requestCount(slow) === 1, 'ask');
      const whatsapp = await integrate(instance(), acme, 'whatsapp');
      await deliver(instance(), whatsapp, whatsappBody({ messages: [{ id: quick, from: '1' }] }));
      await becomes(quick, 'done', whatsapp);
      assert.equal((await itemOf(slow)).status, 'waiting');
      graph.behave('fine');
      await becomes(slow, 'done');
    });

    test('an item in progress is not claimed by another node', async () => {
      // Started first, because the item's lease could expire during the start.
      const node = await secondNode(instance());
      const [id, next] = [freshId(), freshId()];
      for (const each of [id, next]) graph.leads.set(each, lead(each));
      graph.behave('slow');
      await send(id);
      await until(() => requestCount(id) === 1, 'ask');
      await send(next);
      const { status, next_at } = await itemOf(id);
      assert.equal(status, 'waiting');
      assert.ok(new Date(next_at).getTime() > Date.now() + 30_000, 'leased');
      graph.behave('fine');
      await Promise.all([becomes(id, 'done'), becomes(next, 'done')]);
      await node.close();
      assert.deepEqual([requestCount(id), requestCount(next)], [1, 1]);
    });

    test('two nodes process 200 items, each once', async () => {
      const nodes = [await secondNode(instance()), await secondNode(instance())];
      const ids = Array.from({ length: 200 }, freshId);
      for (const id of ids) graph.leads.set(id, lead(id));
      await Promise.all(
        ids.map((id, index) =>
          deliver(nodes[index % 2] ?? assert.fail(), page, leadgenBody({ leadgen: id })),
        ),
      );
      await until(
        async () =>
          (await inboxOf(instance(), page)).every(
            ({ event_id, status }) => !ids.includes(event_id) || status === 'done',
          ),
        'process all',
      );
      for (const node of nodes) await node.close();
      assert.deepEqual(new Set(ids.map(requestCount)), new Set([1]));
    });

    test('disabled in the meantime: the item waits and is processed once the integration is enabled again', async () => {
      const id = freshId();
      const whatsapp = await integrate(instance(), acme, 'whatsapp');
      const setEnabled = (on: boolean) =>
        setIntegrationEnabled(tables(), command(instance()), acme.id, whatsapp.id, on);
      await setEnabled(false);
      const row = { organization_id: acme.id, integration_id: whatsapp.id, done_at: null };
      const payload = JSON.stringify({ message: { id, from: '1', text: { body: 'Hello' } } });
      await tables()
        .insertInto('crm_inbox')
        .values({ ...row, event_id: id, payload })
        .execute();
      // A later item has been processed, so this one would have been, too.
      const later = freshId();
      graph.leads.set(later, lead(later));
      await send(later);
      await becomes(later, 'done');
      const { status, attempts: attemptCount } = await itemOf(id, whatsapp);
      assert.deepEqual([status, Number(attemptCount)], ['waiting', 0], 'no attempt is counted');
      await setEnabled(true);
      await becomes(id, 'done', whatsapp);
    });

    test('an event of a channel that the instance does not have is retried, so that its module can be added', async () => {
      const bot = await integrate(instance(), acme, 'telegram');
      const setProvider = (provider: string) =>
        tables().updateTable('crm_integrations').set({ provider }).where('id', '=', bot.id).execute();
      await setProvider('pigeon');
      const id = freshId();
      const payload = JSON.stringify({ message: { from: { id: 1 }, text: 'Hello' } });
      const row = { organization_id: acme.id, integration_id: bot.id, done_at: null };
      await tables()
        .insertInto('crm_inbox')
        .values({ ...row, event_id: id, payload })
        .execute();
      let item = await itemOf(id, bot);
      await until(async () => {
        item = await itemOf(id, bot);
        return item.error !== '';
      }, 'fail');
      assert.equal(item.error, 'neither this version nor a module has the channel "pigeon"');
      // On a slow machine, all attempts might be over.
      assert.equal(item.status, Number(item.attempts) < attempts ? 'waiting' : 'dead');
      await setProvider('telegram');
      await replayItem(tables(), inboxQueue, command(instance()), acme.id, String(item.id));
      await becomes(id, 'done', bot);
    });

    test('an item replayed during processing is processed again', async () => {
      const id = freshId();
      graph.leads.set(id, lead(id));
      graph.behave('slow');
      await send(id);
      await until(() => requestCount(id) === 1, 'ask for the lead');
      await again(id);
      graph.behave('fine');
      await until(() => requestCount(id) === 2, 'ask again');
      await becomes(id, 'done');
    });

    test('replaying an item does not store its message twice', async () => {
      const whatsapp = await integrate(instance(), acme, 'whatsapp');
      const id = freshId();
      const body = whatsappBody({ messages: [{ id, from: '1', type: 'text', text: { body: 'Hello' } }] });
      await deliver(instance(), whatsapp, body);
      await becomes(id, 'done', whatsapp);
      await replayItem(
        tables(),
        inboxQueue,
        command(instance()),
        acme.id,
        String((await itemOf(id, whatsapp)).id),
      );
      await becomes(id, 'done', whatsapp);
      const kept = await tables()
        .selectFrom('crm_received_messages')
        .select('id')
        .where('provider_id', '=', id)
        .execute();
      assert.equal(kept.length, 1);
    });
  },
  { environment: file.environment },
);

for (const driver of drivers) {
  describe(`killed between response and processing (${driver})`, () => {
    let storage: Storage;
    let environment: Record<string, string>;
    const secret = 'the-app-secret';
    let path = '';
    before(async () => {
      storage = await migratedStorage(driver);
      environment = { ...patient, ...storage.environment, ...file.environment, AUTH_SECRETS: 'x'.repeat(40) };
      const { id } = await crmJson(['org', 'create', 'acme'], environment);
      const config = readConfig(environment);
      const database = await openDatabase(config, []);
      const given = {
        organization: String(id),
        provider: 'meta-lead-ads',
        name: 'page',
        secret,
        token: 'token',
      };
      ({ path } = await addIntegration(
        tablesOf(database),
        command({ config }),
        { sealing: sealing(instanceSecrets(config)), channels },
        given,
      ));
      await database.close();
    });
    after(() => storage.remove());

    test('nothing is lost or duplicated', async () => {
      const ids = Array.from({ length: 30 }, freshId);
      for (const id of ids) graph.leads.set(id, lead(id));
      graph.behave('slow');
      graph.requests.length = 0;
      const first = await serve(environment);
      for (const id of ids) {
        assert.equal((await deliver(first, { path, secret }, leadgenBody({ leadgen: id }))).status, 200);
      }
      await until(() => graph.requests.length > 0, 'start processing');
      await first.kill();
      const states = await rowsApart(environment, 'select status, count(*)::text from crm_inbox group by 1');
      assert.deepEqual(states, [['waiting', '30']]);

      graph.behave('fine');
      // Leases expire after a minute. Expire them now.
      await rowsApart(environment, 'update crm_inbox set next_at = now()');
      const second = await serve(environment);
      await until(async () => {
        const left = await rowsApart(environment, 'select distinct status from crm_inbox');
        return left.flat().join() === 'done';
      }, 'process all');
      second.signal('SIGTERM');
      assert.equal((await second.ended).code, 0);
      const leads = await rowsApart(environment, 'select meta_leadgen_id, email from leads order by 1');
      assert.deepEqual(
        leads,
        ids.map((id) => [id, `${id}@example.com`]),
      );
      assert.deepEqual(await rowsApart(environment, 'select distinct status from crm_inbox'), [['done']]);
    });
  });
}
