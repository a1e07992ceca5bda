// A payment event atomically creates one opportunity, however often and on whichever node the event arrives.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { integerIn, record, settingsFile } from '../support/partners.ts';
import { customers, entries, newSecret, organization, variables } from '../support/payments.ts';
import { activityOf, fresh, secondNode } from '../support/people.ts';

const byId = { ...customers[0]?.entry, event_id: '{{id}}' };
const settings = { partners: { payments: { ...entries, acme: byId, twin: byId } } };
const file = settingsFile(settings, variables);

onBothDrivers(
  'payments, once',
  (instance) => {
    let shop: Organization;
    before(async () => {
      shop = await instance().organization(organization);
    });
    const tables = () => tablesOf(instance().database);
    const headers = { 'x-acme-key': newSecret('acme') };
    /** Creates a lead and a payment for it. */
    const buyer = async () => {
      const email = `${fresh('buyer')}@example.com`;
      const answer = await instance().call('POST /api/v1/leads', { key: shop.key, body: { email } });
      const event = fresh('event');
      const body = { id: event, total: 5, customer: { email } };
      return { id: integerIn(answer, 'id'), event, body };
    };
    const pay = (
      body: object,
      { call } = instance() as Pick<ReturnType<typeof instance>, 'call'>,
      name = 'acme',
    ) => call(`POST /webhooks/${name}-payment`, { body, headers });
    const opened = async (event: string) => {
      const rows = await sql<{ id: string }>`select id::text from opportunities
        where name = ${`Order ${event} & more`}`.execute(tables());
      return rows.rows.map(({ id }) => id);
    };
    const statusOf = async (id: string) => (await record(instance(), shop, `leads/${id}`)).status;

    for (const nodes of [1, 2]) {
      test(`50 concurrent deliveries on ${nodes} node(s) create one opportunity and get the same IDs`, async () => {
        const { id, event, body } = await buyer();
        const second = nodes === 2 ? await secondNode(instance()) : undefined;
        try {
          const answers = await Promise.all(
            Array.from({ length: 50 }, (_, index) => pay(body, index % 2 === 0 ? instance() : second)),
          );
          for (const { status, text } of answers) assert.equal(status, 200, text);
          const [first, ...more] = await opened(event);
          assert.deepEqual(more, []);
          for (const answer of answers) {
            assert.equal(integerIn(answer, 'lead_id'), id);
            assert.equal(integerIn(answer, 'opportunity_id'), first);
          }
          assert.equal(answers.filter(({ json }) => json.duplicate !== true).length, 1);
          const activity = await activityOf(instance(), shop.id);
          assert.equal(
            activity.filter(({ did }) => did === `update leads ${id}`).length,
            1,
            'converted once',
          );
        } finally {
          await second?.close();
        }
      });
    }

    test('the same event ID with another body is the same event', async () => {
      const { event, body } = await buyer();
      const first = await pay(body);
      const second = await pay({ ...body, total: 999, customer: { email: 'no@one.example' } });
      assert.deepEqual(second.json, { ...first.json, duplicate: true });
      assert.equal((await opened(event)).length, 1);
    });

    test('another event for the same lead, and the same ID of another customer, are different events', async () => {
      const { body } = await buyer();
      const answers = [
        await pay(body),
        await pay({ ...body, id: fresh('event') }),
        await pay(body, instance(), 'twin'),
      ];
      const ids = answers.map((answer) => integerIn(answer, 'opportunity_id'));
      assert.equal(new Set(ids).size, 3);
      assert.equal(new Set(answers.map((answer) => integerIn(answer, 'lead_id'))).size, 1);
      for (const [name, index] of [
        ['twin', 2],
        ['acme', 0],
      ] as const) {
        const again = await pay(body, instance(), name);
        assert.deepEqual(again.json, { ...answers[index]?.json, duplicate: true }, name);
      }
    });

    test("a repeated payment without a lead gets its own result, not another customer's result for the same event ID", async () => {
      const { event, body } = await buyer();
      const unknown = { ...body, customer: { email: 'no@one.example' } };
      const unmatched = await pay(unknown, instance(), 'twin');
      assert.equal(unmatched.json.opportunity_id, undefined);
      const matched = await pay(body);
      assert.deepEqual((await pay(unknown, instance(), 'twin')).json, { ...unmatched.json, duplicate: true });
      assert.deepEqual((await pay(unknown)).json, { ...matched.json, duplicate: true });
      assert.equal((await opened(event)).length, 1);
    });

    test("after a customer has moved to another organization, its result is not the former organization's", async () => {
      const { event, body } = await buyer();
      assert.notEqual((await pay(body)).json.opportunity_id, undefined);
      const { slug } = await instance().organization(fresh('moved'));
      const acme = { ...byId, organization: slug };
      try {
        await file.apply(instance(), { partners: { payments: { ...settings.partners.payments, acme } } });
        const unmatched = { ok: true, matched: false };
        assert.deepEqual((await pay(body)).json, unmatched);
        assert.deepEqual((await pay(body)).json, { ...unmatched, duplicate: true });
      } finally {
        await file.apply(instance(), settings);
      }
      assert.equal((await opened(event)).length, 1);
    });

    test('20 concurrent events for one lead create one opportunity each', async () => {
      const { body } = await buyer();
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => pay({ ...body, id: fresh('event') })),
      );
      for (const { status, text } of answers) assert.equal(status, 200, text);
      assert.equal(new Set(answers.map((answer) => integerIn(answer, 'opportunity_id'))).size, 20);
    });

    for (const [table, when] of [
      ['opportunities', 'insert'],
      ['leads', 'update'],
      ['crm_payment_events', 'update'],
    ] as const) {
      test(`if the ${when} of ${table} fails, everything is rolled back, and the next attempt succeeds`, async () => {
        const { id, event, body } = await buyer();
        await sql`create function fail() returns trigger language plpgsql
          as $$ begin raise exception 'on purpose' using errcode = 'XX000'; end $$`.execute(tables());
        await sql`create trigger fail before ${sql.raw(when)} on ${sql.table(table)}
          for each row execute function fail()`.execute(tables());
        try {
          const failed = await pay(body);
          assert.equal(failed.status, 500, failed.text);
          assert.doesNotMatch(failed.text, /on purpose/);
        } finally {
          await sql`drop function fail() cascade`.execute(tables());
        }
        assert.equal(await statusOf(id), 'Open - Not Contacted');
        assert.deepEqual(await opened(event), []);
        const claimed = await tables()
          .selectFrom('crm_payment_events')
          .select('id')
          .where('event_id', '=', event)
          .execute();
        assert.deepEqual(claimed, []);

        const again = await pay(body);
        assert.equal(again.status, 200, again.text);
        assert.equal(again.json.duplicate, undefined);
        assert.equal(await statusOf(id), 'Closed - Converted');
        assert.deepEqual(await opened(event), [integerIn(again, 'opportunity_id')]);
      });
    }

    test('hostile event IDs are handled like any other', async () => {
      const { body } = await buyer();
      for (const id of [
        "'; drop table leads; --",
        '{{constructor}}',
        '\u0000\u0000',
        '😀'.repeat(600),
        '\ud800',
        { a: 1 },
      ]) {
        const first = await pay({ ...body, id });
        assert.equal(first.status, 200, `${JSON.stringify(id)}: ${first.text}`);
        assert.equal((await pay({ ...body, id })).json.duplicate, true);
      }
    });
  },
  { environment: file.environment },
);
