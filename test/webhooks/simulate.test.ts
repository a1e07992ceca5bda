// `crm simulate`: each provider's deliveries receive the expected responses and are stored.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { UserError } from '../../engine/errors.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { setIntegrationEnabled } from '../../webhooks/inbox/integrations.ts';
import { publicUrl } from '../support/channels.ts';
import { runCommand } from '../support/command-line.ts';
import { drivers, type Instance, startInstance } from '../support/instance.ts';
import { type Added, integrate, onStored, settingsFile } from '../support/partners.ts';
import { customers, entries, organization, variables } from '../support/payments.ts';
import { command } from '../support/people.ts';
import { freePort } from '../support/postgres.ts';
import {
  assertRefused,
  crm,
  crmJson,
  type Environment,
  migratedStorage,
  rowsApart,
  type Storage,
  serve,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { startProvider } from '../support/providers.ts';

const graph = await startProvider();
graph.everyLead((id) => ({ id, field_data: [{ name: 'email', values: [`${id}@example.com`] }] }));
after(() => graph.close());

const [plain] = customers;
const off = { ...plain?.entry, verify: { header: 'X-Acme-Key', secrets: ['${OFF}'] } };
const file = settingsFile(
  {
    partners: {
      inbound_leads: { secrets: ['${INBOUND_SECRET}'] },
      booking_forms_whatsapp: { secrets: ['the-booking-secret'], organization },
      payments: { ...entries, off },
    },
    messaging: { [organization]: { sender: 'log' } },
    graph: { base_url: graph.url },
    public_url: `${publicUrl}/`,
  },
  { ...variables, INBOUND_SECRET: 'the inbound secret', AUTH_SECRETS: 'x'.repeat(40), LOG_LEVEL: 'fatal' },
);

const channels = ['whatsapp', 'meta-lead-ads', 'messenger', 'instagram', 'telegram', 'twilio'];
const burst = 5;

/** JSON output of a run. */
interface Printed {
  readonly answers: Readonly<Record<string, unknown>>;
  readonly sent: Readonly<Record<string, number>>;
  readonly events: unknown;
  readonly arrived: unknown;
}
function printed({ steps, events, arrived }: Record<string, unknown>): Printed {
  const each = steps as { step: string; sent: number; answers: unknown; p50_ms: number; p99_ms: number }[];
  for (const { p50_ms, p99_ms } of each) assert.ok(p50_ms > 0 && p50_ms <= p99_ms);
  return {
    answers: Object.fromEntries(each.map(({ step, answers }) => [step, answers])),
    sent: Object.fromEntries(each.map(({ step, sent }) => [step, sent])),
    events,
    arrived,
  };
}
const simulate = (provider: string, environment: Environment, ...more: string[]) =>
  crm(['simulate', provider, '--org', organization, ...more], environment);
const simulated = async (provider: string, environment: Environment, args: string[] = [], input = '') =>
  printed(
    await crmJson(
      ['simulate', provider, '--org', organization, '--burst', String(burst), ...args],
      environment,
      { input },
    ),
  );

/** Returns the expected responses of an endpoint to each step. */
const answersOf = (good: string, large = good) => ({
  good: { [good]: 1 },
  duplicate: { [good]: 2 },
  'out-of-order': { [good]: 2 },
  large: { [large]: 1 },
  'bad-signature': { 401: 1 },
  burst: { [good]: burst },
});
const stepSizes = { good: 1, duplicate: 2, 'out-of-order': 2, large: 1, 'bad-signature': 1, burst };

for (const driver of drivers) {
  describe(`all providers (${driver})`, () => {
    let instance: Instance;
    const added = new Map<string, Added<{ id: string }>>();
    const tables = () => tablesOf(instance.database);
    const count = async (text: string) => {
      const { rows } = await sql<{ count: string }>`${sql.raw(text)}`.execute(tables());
      return Number(rows[0]?.count);
    };
    const inboxCount = (provider: string) =>
      count(`select count(*)::text from crm_inbox where integration_id = ${added.get(provider)?.id}`);
    const simulated = async (provider: string) => {
      const args = ['simulate', provider, '--org', organization, '--burst', String(burst)];
      return printed((await runCommand(instance, args)).json);
    };

    before(async () => {
      instance = await startInstance(driver, { environment: file.environment });
      const [shop, empty] = await Promise.all([
        instance.organization(organization),
        instance.organization('empty'),
      ]);
      for (const provider of channels) added.set(provider, await integrate(instance, shop, provider));
      const { id } = await integrate(instance, empty, 'twilio');
      await setIntegrationEnabled(tables(), command(instance), empty.id, id, false);
    });
    after(() => instance.close());

    for (const provider of channels) {
      test(`${provider}: every step`, async () => {
        const events = burst + 4;
        const { answers, sent, ...rest } = await simulated(provider);
        assert.deepEqual(answers, answersOf('200'));
        assert.deepEqual(sent, stepSizes);
        assert.deepEqual(rest, { events, arrived: { done: events } });
        assert.equal(await inboxCount(provider), events, 'and no others');
        if (provider === 'meta-lead-ads') {
          const complete = `select count(*)::text from leads where email = meta_leadgen_id || '@example.com'`;
          assert.equal(await count(complete), events, 'completed by the Graph API');
        }
      });
    }

    const partners: readonly [provider: string, good: string, arrived: object, kept: string, rows: number][] =
      [
        // These endpoints do not have event IDs, so duplicates are processed twice.
        ['inbound-leads', '201', { leads: 8 }, 'leads where email like $simulated-%$', 10],
        ['booking-forms-whatsapp', '200', { sent: 8 }, 'crm_messages', 10],
        ...customers.map(({ name }): (typeof partners)[number] => [
          `${name}-payment`,
          '200',
          { matched: 0, unmatched: 8 },
          `crm_payment_events where customer = $${name}$`,
          8,
        ]),
      ];
    for (const [provider, good, arrived, table, all] of partners) {
      test(`${provider}: every step`, async () => {
        if (provider.endsWith('-payment')) await sql`delete from leads`.execute(tables());
        const run = await simulated(provider);
        assert.deepEqual(run.answers, answersOf(good, '413'));
        assert.deepEqual([run.events, run.arrived], [8, arrived]);
        assert.equal(await count(`select count(*)::text from ${table.replaceAll('$', "'")}`), all);
      });
    }

    const steps = 'good, duplicate, out-of-order, large, bad-signature, burst';
    const isNone = (provider: string, org: string) =>
      `"${org}" has no enabled ${provider} integration. Add one under Setup, Integrations.`;
    const invalidCommands: Readonly<Record<string, [args: string[], message: string | RegExp]>> = {
      'an unknown provider': [
        ['carrier', '--org', 'shop'],
        /Unknown provider "carrier"\. Available: whatsapp, .*inbound-leads, .*acme-payment/,
      ],
      'a provider named like an inherited property': [
        ['toString', '--org', 'shop'],
        /Unknown provider "toString"/,
      ],
      'a customer named like an inherited property': [
        ['constructor-payment', '--org', 'shop'],
        /Unknown provider "constructor-payment"/,
      ],
      'an unknown organization, channel': [
        ['telegram', '--org', 'unknown'],
        /organization "unknown" does not exist/,
      ],
      'an unknown organization, leads': [
        ['inbound-leads', '--org', 'unknown'],
        /organization "unknown" does not exist/,
      ],
      'an unknown organization, payments': [
        ['acme-payment', '--org', 'unknown'],
        /organization "unknown" does not exist/,
      ],
      'payments of another organization': [
        ['acme-payment', '--org', 'empty'],
        'acme-payment is configured for organization "shop", not "empty"',
      ],
      'messages of another organization': [['booking-forms-whatsapp', '--org', 'empty'], /"shop"/],
      'no integration': [['telegram', '--org', 'empty'], isNone('telegram', 'empty')],
      'a disabled integration': [['twilio', '--org', 'empty'], isNone('twilio', 'empty')],
      "another organization's endpoint": [
        ['telegram', '--org', 'shop', '--endpoint', 'abcdefghijklmnop'],
        isNone('telegram', 'shop'),
      ],
      'a customer without a secret': [
        ['off-payment', '--org', 'shop'],
        'off-payment is off because it has no secret in config.yaml',
      ],
      'an unknown step': [
        ['telegram', '--org', 'shop', '--steps', 'good,fly'],
        `Unknown step "fly". Available: ${steps}.`,
      ],
      'no step': [['telegram', '--org', 'shop', '--steps', ''], `Unknown step "". Available: ${steps}.`],
      ...Object.fromEntries(
        ['crm.example', 'ftp://crm.example', 'javascript:alert(1)', 'https://', ''].map((url) => [
          `--url "${url}"`,
          [
            ['telegram', '--org', 'shop', '--url', url],
            `"${url}" is not a valid URL. Example: https://crm.example`,
          ],
        ]),
      ),
      ...Object.fromEntries(
        ['0', '10001', '-5', '1e3', '1.5', '', '१'].map((value) => [
          `--burst "${value}"`,
          [['telegram', '--org', 'shop', '--burst', value], '--burst must be between 1 and 10000'],
        ]),
      ),
    };
    if (driver === 'postgresql') {
      describe('errors: one message, and nothing is sent', () => {
        for (const [name, [args, message]] of Object.entries(invalidCommands)) {
          test(name, async () => {
            await assert.rejects(runCommand(instance, ['simulate', ...args]), (error: unknown) => {
              assert.ok(error instanceof UserError, String(error));
              if (typeof message === 'string') assert.equal(error.message, message);
              else assert.match(error.message, message);
              return true;
            });
          });
        }
      });
    }
  });

  describe(`crm simulate (${driver})`, () => {
    let storage: Storage;
    let environment: Environment;
    const added = new Map<string, Added<{ id: string }>>();
    const count = async (text: string) => Number((await rowsApart(environment, text))[0]?.[0]);
    const inboxCount = (provider: string) =>
      count(`select count(*)::text from crm_inbox where integration_id = ${added.get(provider)?.id}`);

    before(async () => {
      storage = await migratedStorage(driver);
      environment = { ...patient, ...storage.environment, ...file.environment };
      const shop = String((await crmJson(['org', 'create', organization], environment)).id);
      const empty = String((await crmJson(['org', 'create', 'empty'], environment)).id);
      await onStored(environment, async (instance) => {
        for (const provider of channels)
          added.set(provider, await integrate(instance, { id: shop }, provider));
        const { id } = await integrate(instance, { id: empty }, 'twilio');
        await setIntegrationEnabled(tablesOf(instance.database), command(instance), empty, id, false);
      });
    });
    after(() => storage.remove());

    test('payments with and without a lead are counted separately', async () => {
      const steps = ['--steps', 'good'];
      await simulated('inbound-leads', environment, steps);
      const { arrived } = await simulated('stripe-payment', environment, steps);
      assert.deepEqual(arrived, { matched: 1, unmatched: 0 });
      const opened = await rowsApart(environment, 'select amount::text, description from opportunities');
      assert.deepEqual(opened, [['123.45', 'Paid in EUR.']], 'minor units are converted');
    });

    test('text output with selected steps, in the standard order', async () => {
      const run = await simulate('telegram', environment, '--steps', 'bad-signature,duplicate');
      assert.deepEqual([run.code, run.stderr], [0, '']);
      const [titles, ...lines] = run.stdout.trimEnd().split('\n');
      assert.match(titles ?? '', /^step +sent +responses +p50 ms +p99 ms$/);
      assert.match(lines[0] ?? '', /^duplicate +2 +2 × 200 +[\d.]+ +[\d.]+$/);
      assert.match(lines[1] ?? '', /^bad-signature +1 +1 × 401 +[\d.]+ +[\d.]+$/);
      assert.deepEqual(lines.slice(2), ['Sent 1 unique events. Stored: 1 × done.']);
    });

    // With the embedded database, the client and the service share one thread.
    const size = driver === 'postgresql' ? 1000 : 200;
    test(`a burst of ${size}: all are stored, none twice`, async () => {
      const before = await inboxCount('whatsapp');
      const steps = ['--steps', 'burst', ...(size === 1000 ? [] : ['--burst', String(size)])];
      const command = ['simulate', 'whatsapp', '--org', organization, ...steps];
      const { answers, arrived, events } = printed(await crmJson(command, environment));
      assert.deepEqual([answers, events, arrived], [{ burst: { 200: size } }, size, { done: size }]);
      assert.equal(await inboxCount('whatsapp'), before + size);
      const messages = `select count(*)::text from crm_received_messages where integration_id = ${added.get('whatsapp')?.id}`;
      assert.equal(await count(messages), before + size, 'each message is stored once');
    });

    test('an empty secret on standard input', async () => {
      const args = ['simulate', 'inbound-leads', '--org', organization, '--secret-stdin'];
      assertRefused(await crm(args, environment), 'standard input does not contain a secret');
    });

    test('--url: a running service', async () => {
      // After the service has stopped, no other process listens on this port.
      const service = await serve({ ...environment, PORT: String(await freePort()) });
      const url = ['--url', `${service.url}/setup?x=y`, '--steps', 'good,bad-signature'];
      const answers = { good: { 200: 1 }, 'bad-signature': { 401: 1 } };
      const partner = { ...answers, good: { 201: 1 } };
      for (const provider of ['twilio', 'telegram']) {
        const before = await inboxCount(provider);
        const run = await simulated(provider, environment, url);
        assert.deepEqual([run.answers, run.events, run.arrived], [answers, 1, { done: 1 }], provider);
        assert.equal(await inboxCount(provider), before + 1);
      }
      const lead = await simulated('inbound-leads', environment, url);
      assert.deepEqual([lead.answers, lead.arrived], [partner, { leads: 1 }]);
      // A secret known only to the service.
      const { INBOUND_SECRET: _, ...without } = environment;
      const value = await simulated(
        'inbound-leads',
        without,
        [...url, '--secret-stdin'],
        'the inbound secret\n',
      );
      assert.deepEqual(value.answers, partner);
      if (driver === 'embedded') {
        const needs = 'A server is using the embedded database. Pass its URL with --url.';
        assertRefused(await simulate('telegram', environment), needs);
        // The server's database is on another machine.
        const elsewhere = { ...environment, DATA_DIR: join(storage.folder, '..', 'none') };
        const { path = '', secret = '' } = added.get('telegram') ?? {};
        const endpoint = ['--endpoint', path.split('/').at(-1) ?? ''];
        const unknown = "That server's database is not available here. Pass --endpoint and --secret-stdin.";
        assertRefused(await simulate('telegram', elsewhere, ...url, ...endpoint), unknown);
        const whole = [...url, ...endpoint, '--secret-stdin'];
        const far = await simulated('telegram', elsewhere, whole, `${secret}\n`);
        assert.deepEqual([far.answers, far.arrived], [answers, null]);
        const outcome = await simulate('inbound-leads', elsewhere, ...url);
        assert.match(outcome.stdout, /That server's database is not available here\. Open Setup, Deliveries/);
      }
      service.signal('SIGTERM');
      assert.equal((await service.ended).code, 0);
      const { answers: none } = await simulated('inbound-leads', environment, url);
      assert.deepEqual(none, {
        good: { 'connection failed': 1 },
        'bad-signature': { 'connection failed': 1 },
      });
    });
  });
}
after(() => {});
