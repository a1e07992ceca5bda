// `crm partners`, `crm inbox` and `crm check`: enabled endpoints, received events, and errors in config.yaml.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { drivers } from '../support/instance.ts';
import {
  delivered,
  hmacHex,
  integrate,
  onStored,
  settingsFile,
  stripeSignature,
} from '../support/partners.ts';
import {
  assertRefused,
  crm,
  crmJson,
  crmTable,
  type Environment,
  jsonOf,
  migratedStorage,
  type Storage,
  serve,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';

const payment = (verify: object, organization = 'acme') => ({
  organization,
  verify,
  event_id: '{{id}}',
  lead: { email: '{{email}}' },
  opportunity: { name: 'Order {{id}}' },
});
const secrets = (...names: string[]) => names.map((name) => `\${${name}}`);
const hmac = { scheme: 'hmac-sha256-hex', header: 'X-Signature', secrets: secrets('NEW', 'OLD') };
const file = settingsFile(
  {
    partners: {
      inbound_leads: { secrets: secrets('NEW', 'UNSET', 'OLD', 'BLANK') },
      booking_forms_whatsapp: { secrets: secrets('NEW'), organization: 'acme' },
      payments: {
        signed: payment(hmac),
        stripe: payment({ scheme: 'stripe', header: 'Stripe-Signature', secrets: secrets('NEW', 'OLD') }),
        lost: payment({ header: 'X-Key', secrets: secrets('NEW') }, 'nobody'),
        off: payment({ header: 'X-Key', secrets: secrets('UNSET', 'BLANK') }, 'nobody'),
      },
    },
    messaging: { acme: { sender: 'log' } },
  },
  { NEW: 'the-new-secret-of-all', OLD: 'the-old-secret-of-all', BLANK: ' ', AUTH_SECRETS: 'x'.repeat(40) },
);

interface Endpoint {
  readonly name: string;
  readonly state: string;
  readonly problem: string;
  readonly secrets: readonly { place: number; last_used_at: string | null }[];
}
/**
 * Returns the output of `crm partners`, keyed by endpoint, after checking that it does not contain secrets.
 */
const partners = async (environment: Environment) => endpoints(await crmJson(['partners'], environment));
function endpoints(json: Record<string, unknown>): Record<string, Endpoint> {
  assert.doesNotMatch(JSON.stringify(json), /the-(new|old)-secret|token-of-acme/);
  return Object.fromEntries((json.partners as Endpoint[]).map((endpoint) => [endpoint.name, endpoint]));
}

for (const driver of drivers) {
  describe(`partners and deliveries (${driver})`, () => {
    let storage: Storage;
    let environment: Environment;
    const items = { done: '', dead: '', waiting: '', beta: '' };
    before(async () => {
      storage = await migratedStorage(driver);
      environment = { ...storage.environment, ...file.environment, LOG_LEVEL: 'fatal' };
      const acme = String((await crmJson(['org', 'create', 'acme'], environment)).id);
      const beta = String((await crmJson(['org', 'create', 'beta'], environment)).id);
      await onStored(environment, async (instance) => {
        const bot = await integrate(instance, { id: acme }, 'telegram');
        const other = await integrate(instance, { id: beta }, 'telegram');
        const put = (organization: string, { id }: { id: string }, status: string, error = '') =>
          delivered(instance, organization, id, { event: `${status} event`, status, error });
        items.done = await put(acme, bot, 'done');
        items.dead = await put(acme, bot, 'dead', 'the Graph API responded with 500');
        items.waiting = await put(acme, bot, 'waiting');
        items.beta = await put(beta, other, 'done');
      });
    });
    after(() => storage.remove());

    test('partners: on, off or misconfigured, with unused secrets', async () => {
      const all = await partners(environment);
      const never = (...places: number[]) => places.map((place) => ({ place, last_used_at: null }));
      const rows = Object.values(all).map(({ name, state, problem, secrets }) => [
        name,
        state,
        problem,
        secrets,
      ]);
      assert.deepEqual(rows, [
        ['inbound_leads', 'on', '', never(1, 2)],
        ['booking_forms_whatsapp', 'on', '', never(1)],
        ['payments.signed', 'on', '', never(1, 2)],
        ['payments.stripe', 'on', '', never(1, 2)],
        ['payments.lost', 'misconfigured', 'organization "nobody" does not exist', never(1)],
        ['payments.off', 'off', '', []],
      ]);
      const { code, stdout, stderr } = await crm(['partners'], environment);
      assert.deepEqual([code, stderr], [0, '']);
      assert.match(stdout, /^endpoint +path +state +secrets, last used +problem\n/);
      assert.match(stdout, /inbound_leads +\/webhooks\/inbound-leads +on +#1: never, #2: never\n/);
      assert.match(stdout, /payments\.off +\/webhooks\/off-payment +off \(501\)\n/);
      assert.match(
        stdout,
        /payments\.lost .* misconfigured +#1: never +organization "nobody" does not exist/,
      );
      assert.doesNotMatch(stdout, /the-(new|old)-secret/);
    });

    const senders: readonly [name: string, messaging: object, problem: string, organization?: string][] = [
      ['no sender', {}, 'messaging has no sender for "acme"'],
      ['another organization’s sender', { beta: { sender: 'log' } }, 'messaging has no sender for "acme"'],
      ['an unknown organization', {}, 'organization "nobody" does not exist', 'nobody'],
      [
        'an unset token',
        { acme: { sender: 'whatsapp_cloud', phone_number_id: '1', access_token: '${UNSET}' } },
        'messaging.acme.access_token is blank',
      ],
      [
        'a blank token',
        { acme: { sender: 'whatsapp_cloud', phone_number_id: '1', access_token: '${BLANK}' } },
        'messaging.acme.access_token is blank',
      ],
      [
        'a blank number',
        { acme: { sender: 'whatsapp_cloud', phone_number_id: '', access_token: 'token-of-acme' } },
        'messaging.acme.phone_number_id is blank',
      ],
      [
        'both set',
        { acme: { sender: 'whatsapp_cloud', phone_number_id: '1', access_token: 'token-of-acme' } },
        '',
      ],
    ];
    crmTable(
      senders.map((sender) => [`partners: messages with ${sender[0]}`, sender] as const),
      ([, messaging, , organization = 'acme']) => {
        const booking = { secrets: ['${NEW}'], organization };
        const own = settingsFile({ partners: { booking_forms_whatsapp: booking }, messaging });
        return [['partners', '--json'], { ...environment, ...own.environment }];
      },
      (outcome, [, , problem]) => {
        const all = endpoints(jsonOf(outcome));
        const { state, problem: message } = all.booking_forms_whatsapp ?? assert.fail();
        assert.deepEqual([state, message], [problem === '' ? 'on' : 'misconfigured', problem]);
        assert.deepEqual(all.inbound_leads?.state, 'off', 'off without a configured secret');
      },
    );

    test('partners: shows when each secret was last used, including signatures but not failures', async () => {
      const start = new Date().toISOString();
      const service = await serve({ ...patient, ...environment });
      const body = JSON.stringify({ id: 'e1', email: 'nobody@example.com' });
      const post = async (path: string, headers: Record<string, string>) =>
        (await service.call(`POST /webhooks/${path}`, { body, headers })).status;
      const lead = { 'x-org-slug': 'acme' };
      assert.equal(
        await post('inbound-leads', { ...lead, 'x-inbound-secret': 'the-old-secret-of-all' }),
        201,
      );
      assert.equal(await post('inbound-leads', { ...lead, 'x-inbound-secret': 'the-wrong-secret' }), 401);
      assert.equal(
        await post('signed-payment', { 'x-signature': hmacHex('the-new-secret-of-all', body) }),
        200,
      );
      assert.equal(await post('signed-payment', { 'x-signature': hmacHex('wrong', body) }), 401);
      const signature = stripeSignature(['the-old-secret-of-all'], body);
      assert.equal(await post('stripe-payment', { 'stripe-signature': signature }), 200);
      assert.equal(await post('lost-payment', { 'x-key': 'wrong' }), 401);
      const message = { to: '+49 40 66969 974', message: 'Booked.' };
      const booked = await service.call('POST /api/booking-forms/whatsapp', {
        key: 'the-new-secret-of-all',
        body: message,
      });
      assert.equal(booked.status, 200, booked.text);
      service.signal('SIGTERM');
      assert.equal((await service.ended).code, 0);
      const all = await partners(environment);
      const used = Object.values(all).flatMap(({ name, secrets }) =>
        secrets.flatMap(({ place, last_used_at: at }) =>
          at === null ? [] : [{ use: `${name} ${place}`, at }],
        ),
      );
      assert.deepEqual(
        used.map(({ use }) => use),
        ['inbound_leads 2', 'booking_forms_whatsapp 1', 'payments.signed 1', 'payments.stripe 2'],
      );
      for (const { at } of used) assert.ok(at >= start && at <= new Date().toISOString(), at);
      const { stdout } = await crm(['partners'], environment);
      assert.match(stdout, /inbound_leads .* #1: never, #2: 20\d\d-\d\d-\d\dT[\d:.]+Z\n/);
    });

    test('inbox list: newest first, filtered by state, limited', async () => {
      const list = async (...args: string[]) => {
        const { items } = await crmJson(['inbox', 'list', '--org', 'acme', ...args], environment);
        return (items as { event: string }[]).map(({ event }) => event);
      };
      const all = ['waiting event', 'dead event', 'done event'];
      assert.deepEqual(await list(), all);
      for (const event of all) assert.deepEqual(await list('--status', event.split(' ')[0] ?? ''), [event]);
      for (const limit of [1, 2, 1000])
        assert.deepEqual(await list('--limit', String(limit)), all.slice(0, limit));
      const { stdout } = await crm(['inbox', 'list', '--org', 'acme', '--status', 'dead'], environment);
      const [titles, line, ...more] = stdout.split('\n');
      assert.match(titles ?? '', /^id +received +event +state +attempts +reason$/);
      assert.match(
        line ?? '',
        new RegExp(`^${items.dead} +20[-\\dT:.]+Z +dead event +dead +1 +the Graph API responded with 500$`),
      );
      assert.deepEqual(more, ['']);
    });

    test('inbox show and replay', async () => {
      const show = () => crmJson(['inbox', 'show', items.dead, '--org', 'acme'], environment);
      const { received_at, integration, ...dead } = await show();
      assert.match(String(received_at), /^20[-\dT:.]+Z$/);
      assert.match(String(integration), /^\d+$/);
      const reason = 'the Graph API responded with 500';
      const expected = {
        id: items.dead,
        event: 'dead event',
        status: 'dead',
        attempts: 1,
        reason,
        payload: '{}',
      };
      assert.deepEqual(dead, expected);
      const read = await crm(['inbox', 'show', items.dead, '--org', 'acme'], environment);
      assert.match(
        read.stdout,
        /^id +\d+\n[\s\S]*\nreason +the Graph API responded with 500\n[\s\S]*payload +\{\}\n$/,
      );
      const replay = ['inbox', 'replay', items.dead, '--org', 'acme'];
      assert.deepEqual(await crmJson(replay, environment), { id: items.dead, status: 'waiting' });
      const { status, attempts, reason: none } = await show();
      assert.deepEqual([status, attempts, none], ['waiting', 0, '']);
      const again = await crm(['inbox', 'replay', items.done, '--org', 'acme'], environment);
      assert.equal(again.stdout, `Item ${items.done} is queued. The server will process it again.\n`);
    });

    const none = (id: string) => `inbox item ${id} does not exist in this organization`;
    const unknown = 'organization "nobody" does not exist';
    const errors: Readonly<Record<string, [args: () => string[], message: string | RegExp]>> = {
      'an unknown state': [
        () => ['list', '--org', 'acme', '--status', 'lost'],
        'Unknown state "lost". Available: waiting, done, dead.',
      ],
      'list of an unknown organization': [() => ['list', '--org', 'nobody'], unknown],
      'show of an unknown organization': [() => ['show', '1', '--org', 'nobody'], unknown],
      'replay of an unknown organization': [() => ['replay', '1', '--org', 'nobody'], unknown],
      'show an unknown id': [() => ['show', '999999', '--org', 'acme'], none('999999')],
      'replay an unknown id': [() => ['replay', '999999', '--org', 'acme'], none('999999')],
      'show another organization’s item': [
        () => ['show', items.beta, '--org', 'acme'],
        /inbox item .* does not exist/,
      ],
      'replay another organization’s item': [
        () => ['replay', items.beta, '--org', 'acme'],
        /inbox item .* does not exist/,
      ],
      ...Object.fromEntries(
        ['0', '1001', '-1', 'many', '1e2', ''].map((limit) => [
          `--limit "${limit}"`,
          [() => ['list', '--org', 'acme', '--limit', limit], '--limit must be between 1 and 1000'],
        ]),
      ),
      ...Object.fromEntries(
        ['0', 'x', '1.5', '9'.repeat(30), "1' or '1'='1"].map((id) => [
          `show "${id}"`,
          [
            () => ['show', id, '--org', 'acme'],
            `"${id}" is not an inbox item ID. List IDs with "crm inbox list".`,
          ],
        ]),
      ),
    };
    describe('errors of crm inbox', () => {
      // Errors detected before the database is read are the same on both drivers.
      const cases = Object.entries(errors).filter(
        ([name]) => driver === 'postgresql' || /other|unk/.test(name),
      );
      crmTable(
        cases,
        ([args]) => [['inbox', ...args()], environment],
        (outcome, [, message]) => assertRefused(outcome, message),
      );
    });

    test('inbox list shows only the organization’s own items, or says that there are no matches', async () => {
      const { items: own } = await crmJson(['inbox', 'list', '--org', 'beta'], environment);
      assert.deepEqual(
        (own as { id: string }[]).map(({ id }) => id),
        [items.beta],
      );
      const { stdout } = await crm(['inbox', 'list', '--org', 'beta', '--status', 'dead'], environment);
      assert.equal(stdout, '"beta" has no matching deliveries.\n');
    });
  });
}

describe('check', () => {
  const nowhere = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing' };

  test('a valid config.yaml', async () => {
    const environment = { ...nowhere, ...file.environment };
    const { ok, payments } = await crmJson(['check'], environment);
    assert.deepEqual([ok, payments], [true, ['signed', 'stripe', 'lost', 'off']]);
    const { code, stdout } = await crm(['check'], environment);
    assert.equal(code, 0);
    const [, notes = ''] = stdout.split(`\n${file.path} is valid.\n`);
    assert.match(notes, /^Note: \S+ {2}payments of off is off \(501\): UNSET and BLANK are not set\n$/);
  });

  const wrong = settingsFile(
    ['partners:', '  inbound_leeds: { secrets: [a] }', 'inbox:', '  attempts: many', ''].join('\n'),
  );
  for (const flags of [[], ['--json']]) {
    test(`an invalid one: reports every error with its location ${flags.join('')}`, async () => {
      const run = await crm(['check', ...flags], { ...nowhere, ...wrong.environment });
      assert.deepEqual([run.code, run.stdout], [1, ''], run.stderr);
      assert.match(run.stderr, /config\.yaml:2:3\b.*inbound_leeds.*inbound_leads/);
      assert.match(run.stderr, /config\.yaml:4:13\b/);
      assert.doesNotMatch(run.stderr, /^\s+at /m);
    });
    test(`a missing one ${flags.join('')}`, async () => {
      const run = await crm(['check', ...flags], { ...nowhere, CRM_CONFIG: `${wrong.path}.gone` });
      assertRefused(run, /cannot read .*config\.yaml\.gone: it does not exist/);
    });
  }
});
