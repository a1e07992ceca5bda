// Meta Lead Ads: a delivery contains a lead's ID, its fields come from the Graph API, and each lead is created once.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { inboxQueue } from '../../webhooks/inbox/inbox.ts';
import { replayItem } from '../../webhooks/queue/items.ts';
import { leadgenBody } from '../support/channels.ts';
import { type Instance, type Organization, onBothDrivers } from '../support/instance.ts';
import { type Added, deliver, inboxOf, integerIn, integrate, settingsFile } from '../support/partners.ts';
import { command } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { type Behaviour, startProvider } from '../support/providers.ts';
import { untilWaiting } from '../support/uncommitted.ts';

const graph = await startProvider();
after(() => graph.close());
const withTimeLimit = (timeout_ms: number) => ({
  graph: { base_url: graph.url, version: 'v23.0', timeout_ms },
});
const file = settingsFile(withTimeLimit(20_000));
let ids = 700_000_000_000_000;
const freshId = () => String(++ids);

/** Returns a Graph API response for a lead. */
const fetched = (id: string, answers: Record<string, unknown> = { email: 'ann@example.com' }) => ({
  id,
  created_time: '2026-01-01T00:00:00+0000',
  ad_id: '6010',
  form_id: '5010',
  campaign_id: '4010',
  field_data: Object.entries(answers).map(([name, value]) => ({
    name,
    values: Array.isArray(value) ? value : [value],
  })),
});

/** Lists the leads with a leadgen ID, newest first. */
async function leadsOf({ call }: Instance, { key }: Organization, leadgen: string) {
  const answer = await call('GET /api/v1/leads', { key });
  const { data } = answer.json as { data: Record<string, unknown>[] };
  return data.filter((lead) => lead.meta_leadgen_id === leadgen);
}

onBothDrivers(
  'lead ads',
  (instance, driver) => {
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
    const itemOf = async (leadgen: string, owner = page) =>
      (await inboxOf(instance(), owner)).find(({ event_id }) => event_id === leadgen);
    const done = (leadgen: string, owner = page) =>
      until(async () => (await itemOf(leadgen, owner))?.status === 'done', `process ${leadgen}`);
    const failedOnce = (leadgen: string) =>
      until(async () => ((await itemOf(leadgen))?.error ?? '') !== '', `fail on ${leadgen}`);
    /** Sets the time limit for the Graph API's responses. Only requests without a response can exceed the usual limit. */
    const limitTime = async (ms: number) => {
      file.write(withTimeLimit(ms));
      await instance().app.webhooks.settings.reload();
    };
    /** Makes waiting retries due now. */
    const hurry = () =>
      sql`update crm_inbox set next_at = now() where error <> ''`.execute(tablesOf(instance().database));
    const requestsFor = (leadgen: string) =>
      graph.requests.filter(({ path }) => path === `/v23.0/${leadgen}`);
    /** Returns the only lead with a leadgen ID. */
    const leadOf = async (leadgen: string, owner = acme): Promise<Record<string, unknown>> => {
      const [lead = assert.fail(`no lead of ${leadgen}`), ...more] = await leadsOf(
        instance(),
        owner,
        leadgen,
      );
      assert.deepEqual(more, []);
      return lead;
    };
    const send = async (body: string, owner = page) =>
      assert.equal((await deliver(instance(), owner, body)).status, 200);

    test("the lead has its source, four IDs and the form's values; the token is only sent in a header", async () => {
      const id = freshId();
      graph.leads.set(
        id,
        fetched(id, {
          email: 'Ann@Example.com',
          first_name: 'Ann',
          last_name: 'O’Neil & <b>',
          phone_number: '+1 555',
          company_name: 'Acme',
          'how_many?': '3',
        }),
      );
      await send(leadgenBody({ leadgen: `"${id}"` }));
      await done(id);
      const lead = await leadOf(id);
      const { source, status, meta_leadgen_id, meta_ad_id, meta_form_id, meta_campaign_id } = lead;
      assert.deepEqual([source, status], ['Meta Lead Ads', 'Open - Not Contacted']);
      assert.deepEqual(
        [meta_leadgen_id, meta_ad_id, meta_form_id, meta_campaign_id],
        [id, '6010', '5010', '4010'],
      );
      const { email, first_name, last_name, phone, company } = lead;
      assert.deepEqual(
        [email, first_name, last_name, phone, company],
        ['Ann@Example.com', 'Ann', 'O’Neil & <b>', '+1 555', 'Acme'],
      );
      const [request, ...more] = requestsFor(id);
      assert.deepEqual(more, []);
      assert.equal(request?.method, 'GET');
      assert.equal(request?.headers.authorization, `Bearer ${page.token}`);
      assert.deepEqual([...(request?.query.keys() ?? [])], ['fields']);
      assert.equal(request?.query.get('fields'), 'id,created_time,ad_id,form_id,campaign_id,field_data');
    });

    const mappings: readonly [string, Record<string, unknown>, Record<string, string>][] = [
      [
        'a full name is split',
        { full_name: ' Ann  Maria O’Neil ' },
        { first_name: 'Ann', last_name: 'Maria O’Neil' },
      ],
      ['a full name of one word', { full_name: 'Ann' }, { first_name: 'Ann', last_name: '' }],
      [
        'separate names take precedence over a full name',
        { full_name: 'X Y', first_name: 'Ann', last_name: 'O' },
        { first_name: 'Ann', last_name: 'O' },
      ],
      [
        'a first name takes precedence over a full name',
        { full_name: 'X Y', first_name: 'Ann' },
        { first_name: 'Ann', last_name: '' },
      ],
      [
        'a last name takes precedence over a full name',
        { full_name: 'X Y', last_name: 'O' },
        { first_name: '', last_name: 'O' },
      ],
      [
        'the first of several values is used',
        { email: ['a@example.com', 'b@example.com'] },
        { email: 'a@example.com' },
      ],
      ['numbers are converted to strings', { phone_number: 15550100 }, { phone: '15550100' }],
      [
        'values of other types are omitted',
        { email: { a: 1 }, first_name: null, last_name: [], phone_number: [[1]] },
        { email: '', first_name: '', last_name: '', phone: '' },
      ],
      [
        'U+0000 and lone surrogates are removed',
        { first_name: 'A\u0000n\u0000n\ud800' },
        { first_name: 'Ann\ufffd' },
      ],
      [
        'names of inherited properties are handled like any other',
        { __proto__x: 'a', constructor: 'b', last_name: 'C' },
        { last_name: 'C' },
      ],
      ['nothing', {}, { email: '', first_name: '' }],
    ];
    for (const [name, answers, expected] of mappings) {
      test(`fields: ${name}`, async () => {
        const id = freshId();
        graph.leads.set(id, fetched(id, answers));
        await send(leadgenBody({ leadgen: `"${id}"` }));
        await done(id);
        const lead = await leadOf(id);
        for (const [field, value] of Object.entries(expected)) assert.equal(lead[field], value, field);
      });
    }

    test('IDs above 2^53 stay exact, as text and as numbers, in deliveries and Graph API responses', async () => {
      for (const [leadgen, other] of [
        ['9007199254740993', '9007199254740995'],
        ['12345678901234567891', '18014398509481985'],
      ] as const) {
        const { ad_id, form_id, campaign_id, ...rest } = fetched(leadgen);
        graph.leads.set(
          leadgen,
          JSON.stringify(rest).replace('{', `{"campaign_id":${other},"ad_id":"${other}",`),
        );
        for (const written of [leadgen, `"${leadgen}"`]) {
          await send(leadgenBody({ leadgen: written, form: other, ad: other }));
        }
        await done(leadgen);
        const { meta_form_id, meta_ad_id, meta_campaign_id } = await leadOf(leadgen);
        assert.deepEqual([meta_form_id, meta_ad_id, meta_campaign_id], [other, other, other]);
        assert.equal(requestsFor(leadgen).length, 1);
      }
    });

    test('50 concurrent deliveries, two pages and a batch: one lead per organization', async () => {
      const second = await integrate(instance(), acme, 'meta-lead-ads');
      const other = await instance().organization('other');
      const foreign = await integrate(instance(), other, 'meta-lead-ads');
      const [a, b] = [freshId(), freshId()];
      for (const id of [a, b]) graph.leads.set(id, fetched(id));
      const batch = leadgenBody({ leadgen: a }, { leadgen: `"${a}"` }, { leadgen: b }, { leadgen: a });
      const pages = [page, second, foreign];
      await Promise.all(Array.from({ length: 50 }, (_, index) => send(batch, pages[index % 3])));
      for (const owner of pages) for (const id of [a, b]) await done(id, owner);
      for (const organization of [acme, other]) {
        for (const id of [a, b]) assert.equal((await leadOf(id, organization)).email, 'ann@example.com');
      }
    });

    if (driver === 'postgresql')
      test('two pages of an organization that process a lead at the same time create it once', async () => {
        const second = await integrate(instance(), acme, 'meta-lead-ads');
        const id = freshId();
        graph.leads.set(id, fetched(id));
        await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
          // Leads can be read, but not created.
          await client.query('begin; lock table leads in share mode');
          for (const owner of [page, second]) await send(leadgenBody({ leadgen: id }), owner);
          await untilWaiting(client, 'both to wait', 2);
          await client.query('rollback');
        });
        for (const owner of [page, second]) await done(id, owner);
        assert.equal((await leadOf(id)).email, 'ann@example.com');
      });

    test('a batch of 2,000, the maximum, with invalid entries', async () => {
      const integration = await integrate(
        instance(),
        await instance().organization('thousand'),
        'meta-lead-ads',
      );
      graph.behave('failing');
      const good = Array.from({ length: 2000 }, () => ({ leadgen: `"${freshId()}"` }));
      const overlong = `"${'1'.repeat(41)}"`;
      const bad = ['""', '"../me"', '"1?x=1"', 'null', '{}', '[]', '-5', '1.5', '"١٢"', overlong].map(
        (leadgen) => ({ leadgen }),
      );
      await send(leadgenBody(...good, ...bad), integration);
      assert.equal((await inboxOf(instance(), integration)).length, 2000);
      await tablesOf(instance().database)
        .deleteFrom('crm_integrations')
        .where('id', '=', integration.id)
        .execute();
    });

    const failures: readonly [Behaviour, RegExp][] = [
      ['failing', /^the Graph API responded with 500$/],
      ['redirect', /^the Graph API responded with 307$/],
      ['reset', /^the Graph API is unavailable: connection failed$/],
      ['slow', /^the Graph API is unavailable: no response in time$/],
      ['endless', /^the Graph API is unavailable: the response is too large$/],
      ['no json', /^the Graph API did not return a lead$/],
      ['other json', /^the Graph API did not return a lead$/],
    ];
    describe('after a failed fetch, the lead stays a stub until a later fetch completes it', () => {
      for (const [behaviour, reason] of failures) {
        test(behaviour, async () => {
          const id = freshId();
          graph.leads.set(id, fetched(id));
          graph.behave(behaviour);
          if (behaviour === 'slow') await limitTime(500);
          await send(leadgenBody({ leadgen: `"${id}"` }));
          await failedOnce(id);
          if (behaviour === 'slow') await limitTime(20_000);
          const stub = await leadOf(id);
          assert.deepEqual(
            [stub.source, stub.meta_ad_id, stub.meta_form_id, stub.email],
            ['Meta Lead Ads', '601', '501', ''],
          );
          assert.match((await itemOf(id))?.error ?? '', reason);
          graph.behave('fine');
          await hurry();
          await done(id);
          const complete = await leadOf(id);
          assert.deepEqual(
            [complete.id, complete.email, complete.meta_campaign_id],
            [stub.id, 'ann@example.com', '4010'],
          );
        });
      }
      test('refused connections', async () => {
        const id = freshId();
        graph.leads.set(id, fetched(id));
        await graph.shut();
        try {
          await send(leadgenBody({ leadgen: id }));
          await failedOnce(id);
        } finally {
          await graph.open();
        }
        await hurry();
        await done(id);
        assert.equal((await leadOf(id)).email, 'ann@example.com');
      });
      test('no redirect was followed, so the token was not leaked', () =>
        assert.deepEqual(graph.strayed, []));
    });

    const deletions: readonly [string, () => Promise<unknown>][] = [
      ['retried', hurry],
      ['delivered again', async () => undefined],
      [
        'replayed manually',
        async () => {
          // Read first, because the embedded database has only one connection.
          const items = await inboxOf(instance(), page);
          await transaction(instance().database, async (tables) => {
            for (const { id } of items)
              await replayItem(tables, inboxQueue, command(instance()), acme.id, String(id));
          });
        },
      ],
    ];
    for (const [name, again] of deletions) {
      test(`a deleted lead is not created again when it is ${name}`, async () => {
        const id = freshId();
        graph.leads.set(id, fetched(id));
        graph.behave('failing');
        await send(leadgenBody({ leadgen: id }));
        await failedOnce(id);
        const [{ id: lead } = assert.fail()] = await leadsOf(instance(), acme, id);
        const answer = await instance().call(`DELETE /api/v1/leads/${lead}`, { key: acme.key });
        assert.ok(answer.status < 300, answer.text);
        graph.behave('fine');
        await again();
        await send(leadgenBody({ leadgen: id }));
        await hurry();
        await done(id);
        assert.deepEqual(await leadsOf(instance(), acme, id), []);
      });
    }

    test('API callers cannot set any of the four IDs', async () => {
      const id = freshId();
      const body = { last_name: 'A', meta_leadgen_id: id, meta_ad_id: '1' };
      const created = await instance().call('POST /api/v1/leads', { key: acme.key, body });
      graph.leads.set(id, fetched(id));
      await send(leadgenBody({ leadgen: id }));
      await done(id);
      assert.notEqual(String((await leadOf(id)).id), integerIn(created, 'id'));
    });
  },
  { environment: file.environment },
);
