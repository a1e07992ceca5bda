// Hooks of modules that run with leads from Meta and with payments, in the transaction of the delivery.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type CommittedChange, type ModuleCode, Rejection } from '../../engine/records/index.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { inboxQueue } from '../../webhooks/inbox/inbox.ts';
import { replayItem } from '../../webhooks/queue/items.ts';
import { leadgenBody } from '../support/channels.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import {
  type Added,
  deliver,
  inboxOf,
  integerIn,
  integrate,
  record,
  settingsFile,
} from '../support/partners.ts';
import { customers, entries, newSecret, organization, variables } from '../support/payments.ts';
import { command, fresh } from '../support/people.ts';
import { until } from '../support/process.ts';
import { startProvider } from '../support/providers.ts';
import { errorOf } from '../support/scenario.ts';

const inboundSecret = 'the-secret-for-inbound-leads';
const graph = await startProvider();
after(() => graph.close());
const { environment } = settingsFile(
  {
    graph: { base_url: graph.url, version: 'v23.0', timeout_ms: 20_000 },
    partners: {
      inbound_leads: { secrets: ['${INBOUND}'] },
      payments: { acme: { ...customers[0]?.entry, event_id: '{{id}}' }, stripe: entries.stripe },
    },
  },
  { ...variables, INBOUND: inboundSecret },
);

interface HookCall {
  readonly hook: string;
  readonly action: string;
  readonly values: Readonly<Record<string, unknown>>;
}
const calls: HookCall[] = [];
const committed: CommittedChange[] = [];
/** Hooks that currently throw, with the error. */
const failing = new Map<string, Error>();

const run = (hook: string, action: string, values: HookCall['values']): void => {
  calls.push({ hook, action, values });
  const error = failing.get(`${hook} ${action}`);
  if (error !== undefined) throw error;
};

const modules: readonly ModuleCode[] = [
  {
    name: 'desk',
    hooks: {
      leads: {
        beforeWrite: async ({ action, input, previous, caller, records }) => {
          run('before leads', action, { input, previous, caller });
          if (input?.company === 'without system access') await records.find('leads');
          if (action === 'create') return { ...input, lead_score: 7n, meta_campaign_id: 'from the hook' };
          return input?.email === undefined ? undefined : { ...input, description: `for ${input.email}` };
        },
        afterWrite: async ({ action, id, record, previous, records }) => {
          run('after leads', action, { id, record, previous });
          if (record?.status === 'Closed - Converted' && previous?.status !== record.status)
            await records.asSystem('welcome').create('contacts', { last_name: `buyer ${id}` });
        },
        afterCommit: (change) => {
          committed.push(change);
        },
      },
      opportunities: {
        beforeWrites: ({ writes, caller }) =>
          writes.map(({ action, input, previous }) => {
            run('before opportunities', action, { input, previous, caller });
            return { ...input, description: 'paid online' };
          }),
        afterWrites: ({ writes }) => {
          for (const { action, id, record } of writes) run('after opportunities', action, { id, record });
        },
      },
    },
  },
];

onBothDrivers(
  'hooks of partners',
  (instance) => {
    let shop: Organization;
    let page: Added;
    before(async () => {
      shop = await instance().organization(organization);
      page = await integrate(instance(), shop, 'meta-lead-ads');
    });
    beforeEach(() => {
      calls.length = 0;
      committed.length = 0;
      failing.clear();
    });
    const summary = () => calls.map(({ hook, action }) => `${hook} ${action}`);
    /** Returns the values of the only call of a hook. */
    const given = (name: string): Record<string, Record<string, unknown>> => {
      const [call = assert.fail(`${name} was not called`), ...more] = calls.filter(
        ({ hook, action }) => `${hook} ${action}` === name,
      );
      assert.deepEqual(more, []);
      return call.values as Record<string, Record<string, unknown>>;
    };
    const list = async (resource: string): Promise<readonly Record<string, unknown>[]> => {
      const answer = await instance().call(`GET /api/v1/${resource}?per_page=100`, { key: shop.key });
      assert.equal(answer.status, 200, answer.text);
      return (answer.json as { data: Record<string, unknown>[] }).data;
    };

    describe('a payment', () => {
      const buyer = async () => {
        const email = `${fresh('buyer')}@example.com`;
        const answer = await instance().call('POST /api/v1/leads', { key: shop.key, body: { email } });
        assert.equal(answer.status, 201, answer.text);
        const lead = integerIn(answer, 'id');
        const event = fresh('event');
        // The change of the lead by the API is not part of the payment.
        await until(() => committed.some(({ id }) => id === BigInt(lead)), 'the hook after the commit');
        calls.length = 0;
        committed.length = 0;
        const pay = (): Promise<Answer> =>
          instance().call('POST /webhooks/acme-payment', {
            body: { id: event, total: 5, customer: { email } },
            headers: { 'x-acme-key': newSecret('acme') },
          });
        return { lead, event, email, pay };
      };
      type Buyer = Awaited<ReturnType<typeof buyer>>;
      const opened = async ({ event }: Buyer) =>
        (await list('opportunities')).filter(({ name }) => name === `Order ${event} & more`);
      const events = ({ event }: Buyer) =>
        tablesOf(instance().database)
          .selectFrom('crm_payment_events')
          .select('id')
          .where('event_id', '=', event)
          .execute();
      const welcomed = async ({ lead }: Buyer) =>
        (await list('contacts')).filter(({ last_name }) => last_name === `buyer ${lead}`);
      const assertNothingWritten = async (payment: Buyer) => {
        assert.equal(
          (await record(instance(), shop, `leads/${payment.lead}`)).status,
          'Open - Not Contacted',
        );
        assert.deepEqual(await opened(payment), []);
        assert.deepEqual(await events(payment), []);
        assert.deepEqual(await welcomed(payment), []);
      };

      test('runs the hooks of both resources, each once, and writes their values', async () => {
        const payment = await buyer();
        const answer = await payment.pay();
        assert.equal(answer.status, 200, answer.text);
        assert.equal(integerIn(answer, 'lead_id'), payment.lead);
        assert.deepEqual(summary(), [
          'before leads update',
          'before opportunities create',
          'after leads update',
          'after opportunities create',
        ]);
        const { input, previous, caller } = given('before leads update');
        assert.deepEqual(input, { status: 'Closed - Converted' });
        assert.deepEqual([previous?.id, previous?.lead_score], [BigInt(payment.lead), 7n]);
        const { requestId, ...author } = caller ?? {};
        assert.deepEqual(author, {
          kind: 'partner',
          id: null,
          name: 'acme-payment',
          user: null,
          organization: BigInt(shop.id),
        });
        assert.ok(String(requestId).length > 0);
        assert.equal(given('after leads update').record?.status, 'Closed - Converted');
        const [opportunity, ...more] = await opened(payment);
        assert.deepEqual(more, []);
        assert.equal(opportunity?.description, 'paid online');
        assert.equal(String(opportunity?.id), integerIn(answer, 'opportunity_id'));
        assert.equal(given('after opportunities create').record?.description, 'paid online');
        assert.equal((await welcomed(payment)).length, 1);
        const change = () => committed.find(({ id }) => id === BigInt(payment.lead));
        await until(() => change() !== undefined, 'the hook after the commit');
        assert.deepEqual(
          [change()?.action, change()?.actor],
          ['update', { kind: 'partner', id: null, name: 'acme-payment' }],
        );

        calls.length = 0;
        const again = await payment.pay();
        assert.equal(again.json.duplicate, true, again.text);
        assert.deepEqual(calls, [], 'a repeated delivery writes nothing');
      });

      for (const hook of [
        'before leads update',
        'before opportunities create',
        'after leads update',
        'after opportunities create',
      ]) {
        test(`a rejection in "${hook}" undoes everything, and the next delivery succeeds`, async () => {
          const payment = await buyer();
          failing.set(hook, new Rejection('not on Sundays'));
          const answer = await payment.pay();
          assert.deepEqual(
            [answer.status, errorOf(answer)],
            [400, { error: 'not on Sundays', code: 'rejected_by_module' }],
          );
          await assertNothingWritten(payment);
          failing.clear();
          const again = await payment.pay();
          assert.equal(again.status, 200, again.text);
          assert.equal(again.json.duplicate, undefined);
          assert.equal((await opened(payment)).length, 1);
          assert.equal((await welcomed(payment)).length, 1);
        });
      }

      test('a failure of a hook is a 500 without details, and undoes everything', async () => {
        const payment = await buyer();
        failing.set('after opportunities create', new TypeError('a secret of the hook'));
        const answer = await payment.pay();
        assert.deepEqual(
          [answer.status, errorOf(answer)],
          [
            500,
            {
              error: 'The module desk failed in afterWrites of opportunities: it threw an error',
              code: 'module_failed',
            },
          ],
        );
        await assertNothingWritten(payment);
      });

      test('without a lead, no hook runs', async () => {
        const payment = await buyer();
        await instance().call(`DELETE /api/v1/leads/${payment.lead}`, { key: shop.key });
        calls.length = 0;
        const answer = await payment.pay();
        assert.equal(answer.json.matched, false, answer.text);
        assert.deepEqual(calls, []);
      });
    });

    test('an inbound lead that a hook rejects is answered with 400, and nothing is written', async () => {
      const email = `${fresh('inbound')}@example.com`;
      const post = () =>
        instance().call('POST /webhooks/inbound-leads', {
          body: { email },
          headers: { 'x-inbound-secret': inboundSecret, 'x-org-slug': shop.slug },
        });
      const stored = async () => (await list('leads')).filter((lead) => lead.email === email);
      failing.set('after leads create', new Rejection('not on Sundays'));
      const answer = await post();
      assert.deepEqual(
        [answer.status, errorOf(answer)],
        [400, { error: 'not on Sundays', code: 'rejected_by_module' }],
      );
      assert.deepEqual(await stored(), []);
      failing.clear();
      const created = await post();
      assert.equal(created.status, 201, created.text);
      assert.deepEqual(
        (await stored()).map(({ lead_score }) => lead_score),
        [7],
      );
    });

    describe('a lead from Meta', () => {
      let ids = 800_000_000_000_000;
      const prepare = (answers: Record<string, string> = {}) => {
        const leadgen = String(++ids);
        const field_data = Object.entries({ email: `${leadgen}@example.com`, ...answers }).map(
          ([name, value]) => ({ name, values: [value] }),
        );
        graph.leads.set(leadgen, { id: leadgen, ad_id: '6010', form_id: '5010', field_data });
        return leadgen;
      };
      const send = async (leadgen: string) =>
        assert.equal((await deliver(instance(), page, leadgenBody({ leadgen }))).status, 200);
      const itemOf = async (leadgen: string) =>
        (await inboxOf(instance(), page)).find(({ event_id }) => event_id === leadgen);
      const ends = (leadgen: string, state: string) =>
        until(async () => (await itemOf(leadgen))?.status === state, `${leadgen} to be ${state}`);
      const leadsOf = async (leadgen: string) =>
        (await list('leads')).filter(({ meta_leadgen_id }) => meta_leadgen_id === leadgen);
      const replay = async (leadgen: string) => {
        const { id } = (await itemOf(leadgen)) ?? assert.fail(`no item of ${leadgen}`);
        await replayItem(tablesOf(instance().database), inboxQueue, command(instance()), shop.id, String(id));
      };

      test('runs hooks when it is created and when its values arrive, and writes their values', async () => {
        const leadgen = prepare();
        await send(leadgen);
        await ends(leadgen, 'done');
        assert.deepEqual(summary(), [
          'before leads create',
          'after leads create',
          'before leads update',
          'after leads update',
        ]);
        const { input, previous, caller } = given('before leads create');
        assert.deepEqual(input, {
          source: 'Meta Lead Ads',
          meta_leadgen_id: leadgen,
          meta_form_id: '501',
          meta_ad_id: '601',
        });
        assert.equal(previous, undefined);
        assert.deepEqual([caller?.kind, caller?.id, caller?.name], ['partner', null, 'meta-lead-ads']);
        const [lead, ...more] = await leadsOf(leadgen);
        assert.deepEqual(more, []);
        const update = given('before leads update');
        assert.deepEqual(update.input, {
          email: `${leadgen}@example.com`,
          meta_ad_id: '6010',
          meta_form_id: '5010',
        });
        assert.equal(String(update.previous?.id), String(lead?.id));
        assert.deepEqual(
          [lead?.lead_score, lead?.description, lead?.meta_campaign_id, lead?.meta_ad_id],
          [7, `for ${leadgen}@example.com`, 'from the hook', '6010'],
        );
        assert.equal(given('after leads update').record?.description, `for ${leadgen}@example.com`);
        const ownChanges = () => committed.filter(({ id }) => String(id) === String(lead?.id));
        await until(() => ownChanges().length === 2, 'the hook after the commits');
        assert.deepEqual(
          ownChanges().map(({ action, actor }) => [action, actor.kind, actor.name]),
          [
            ['create', 'partner', 'meta-lead-ads'],
            ['update', 'partner', 'meta-lead-ads'],
          ],
        );
      });

      for (const hook of ['before leads create', 'after leads create']) {
        test(`a rejection in "${hook}" keeps the event with the error, and a replay creates the lead`, async () => {
          const leadgen = prepare();
          failing.set(hook, new Rejection('the email address is missing', { field: 'email' }));
          await send(leadgen);
          await ends(leadgen, 'dead');
          assert.match(String((await itemOf(leadgen))?.error), /the email address is missing/);
          assert.deepEqual(await leadsOf(leadgen), []);
          failing.clear();
          await replay(leadgen);
          await ends(leadgen, 'done');
          assert.equal((await leadsOf(leadgen)).length, 1);
        });
      }

      test('a rejected update keeps the lead and the event, and a replay completes the lead', async () => {
        const leadgen = prepare();
        failing.set('before leads update', new Rejection('competitors are not leads'));
        await send(leadgen);
        await ends(leadgen, 'dead');
        assert.equal((await itemOf(leadgen))?.error, 'competitors are not leads');
        assert.deepEqual(
          (await leadsOf(leadgen)).map(({ email }) => email),
          [''],
        );
        failing.clear();
        await replay(leadgen);
        await ends(leadgen, 'done');
        assert.deepEqual(
          (await leadsOf(leadgen)).map(({ email }) => email),
          [`${leadgen}@example.com`],
        );
      });

      test('a failure of a hook is retried, and its details are not shown', async () => {
        const leadgen = prepare();
        failing.set('after leads create', new TypeError('a secret of the hook'));
        await send(leadgen);
        await until(async () => ((await itemOf(leadgen))?.error ?? '') !== '', `fail on ${leadgen}`);
        const item = await itemOf(leadgen);
        assert.deepEqual(
          [item?.status, item?.error],
          ['waiting', 'The module desk failed in afterWrite of leads: it threw an error'],
        );
        assert.deepEqual(await leadsOf(leadgen), []);
        failing.clear();
        await replay(leadgen);
        await ends(leadgen, 'done');
        assert.equal((await leadsOf(leadgen)).length, 1);
      });

      test('a hook has no grants of its own, only system access', async () => {
        const leadgen = prepare({ company_name: 'without system access' });
        await send(leadgen);
        await ends(leadgen, 'dead');
        assert.match(String((await itemOf(leadgen))?.error), /list.*leads|leads.*list/i);
        assert.deepEqual(
          (await leadsOf(leadgen)).map(({ company }) => company),
          [''],
        );
      });
    });
  },
  { environment, modules },
);
