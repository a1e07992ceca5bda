// The organization's home page lists problems that need attention, each with its next step, worst first.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { revokeKey } from '../../plugins/access/api-keys/keys.ts';
import { administratorOf, optionOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { delivered, integrate } from '../support/partners.ts';
import { command, makePerson } from '../support/people.ts';

const dayMs = 86_400_000;
let instance: Instance;
let acme: Organization;
let admin: Visitor;
before(async () => {
  instance = await startInstance('postgresql');
  acme = await instance.organization('acme');
  admin = await signIn(instance, administratorOf(acme));
});
after(() => instance.close());

/** Returns the lines of a home page, each with the URL of its next step. */
const linesOf = async (browser: Visitor, slug = 'acme') => {
  const { text } = await browser.get(`/setup/o/${slug}`);
  return [...text.matchAll(/<li class="(\w+)"><p>(.*?)<\/p>(?:<a[^>]*href="([^"]*)")?/g)].map(
    ([, state, line = '', href = '']) =>
      `${state}: ${readable(line.replace(/<[^>]*>/g, ''))} ${readable(href)}`,
  );
};

test('lists each problem with its next step, or that no problems were found', async () => {
  const well = await admin.get('/setup/o/acme');
  assert.match(well.text, /Nothing needs your attention\./);
  assert.match(well.text, /href="\/setup\/o\/acme\/data\/leads"><span class="tile[^>]*>L<\/span>Leads</);

  const ending = await acme.makeKey({ expiresAt: new Date(Date.now() + 3 * dayMs) });
  await acme.makeKey({ expiresAt: new Date(Date.now() + 30 * dayMs) });
  await acme.makeKey({ expiresAt: new Date(1) });
  const revoked = await acme.makeKey({ expiresAt: new Date(Date.now() + 3 * dayMs) });
  await transaction(instance.database, (tables) => revokeKey(tables, command(instance), acme.id, revoked.id));
  const { id: bot } = await integrate(instance, acme, 'telegram');
  await delivered(instance, acme.id, bot, { event: 'lost', status: 'dead', error: 'no' });
  const dead = await linesOf(admin);
  assert.equal(
    dead[0],
    'bad: Problem: Deliveries: 1 failed. /setup/o/acme/deliveries?status=dead',
    'the worst problem comes first',
  );
  assert.match(
    dead[1] ?? '',
    new RegExp(
      `^warn: Note: The API key .* expires on 20.* UTC\\. /setup/o/acme/keys/rotate\\?id=${ending.id}$`,
    ),
  );
  assert.equal(dead.length, 2, 'neither revoked nor expired keys are listed');

  const path = '/setup/o/acme/deliveries';
  const { status } = await admin.submit(`${path}?status=dead`, `${path}/replay-all`);
  assert.equal(status, 303);
  await admin.submit('/setup/o/acme/integrations', '/setup/o/acme/integrations/switch', {
    id: bot,
    to: 'off',
  });
  const off = await linesOf(admin);
  assert.ok(!off.some((line) => line.includes('failed')), 'replayed deliveries are not listed');
  assert.ok(
    off.some((line) => /Telegram\): disabled, so its URL responds with 404/.test(line)),
    String(off),
  );

  const reader = await signIn(
    instance,
    await makePerson(instance, [{ organization: acme, grants: [{ object: 'leads', actions: ['list'] }] }]),
  );
  assert.deepEqual(await linesOf(reader), [], 'shown only to administrators');
  const beta = await instance.organization('beta');
  assert.deepEqual(await linesOf(await signIn(instance, administratorOf(beta)), 'beta'), []);
});

test('a subscription whose deliveries fail is not shown as healthy', async () => {
  const gamma = await instance.organization('gamma');
  const browser = await signIn(instance, administratorOf(gamma));
  const page = '/setup/o/gamma/events';
  const profile = await optionOf(browser, `${page}/add`, 'read-only');
  const fields = { url: 'https://events.example/hook', resource: 'leads', action: 'create', profile };
  await browser.submit(`${page}/add`, `${page}/add`, fields);
  const badge = async () =>
    /<span class="badge state (\w+)">([^<]*)</.exec((await browser.get(page)).text)?.slice(1);
  assert.deepEqual(await badge(), ['good', 'Enabled']);
  await sql`update crm_event_subscriptions set failing_since = now() - interval '1 hour'
    where organization_id = ${gamma.id}::bigint`.execute(tablesOf(instance.database));
  assert.deepEqual(await badge(), ['bad', 'Failing']);
  assert.match((await linesOf(browser, 'gamma'))[0] ?? '', /^warn: .*deliveries are failing/);
});

test('charts show the number and the sum of the records in each stage that the member can list', async () => {
  const chartOf = async (browser: Visitor) => {
    const { text } = await browser.get('/setup/o/acme');
    const [chart = ''] = /<section class="chart"[\s\S]*?<\/section>/.exec(text) ?? [];
    return [...chart.matchAll(/<tr><th scope="row">([\s\S]*?)<\/tr>/g)].map(([, row = '']) =>
      [
        ...[...row.matchAll(/>([^<>]+)</g)].map(([, part = '']) => readable(part.trim())).filter(Boolean),
        /rect width="(\d+)"/.exec(row)?.[1],
      ].join(' '),
    );
  };
  assert.deepEqual(await chartOf(admin), [], 'no chart without records');
  for (const [stage, amount] of [
    ['Prospecting', '1000.5'],
    ['Prospecting', '500'],
    ['Closed Won', '0'],
  ])
    assert.equal(
      (
        await instance.call('POST /api/v1/opportunities', {
          key: acme.key,
          body: { name: 'x', stage, amount: Number(amount) },
        })
      ).status,
      201,
    );
  assert.deepEqual(await chartOf(admin), [
    'Prospecting 2 1,500.5 100',
    'Qualification 0 0',
    'Needs Analysis 0 0',
    'Value Proposition 0 0',
    'Negotiation 0 0',
    'Closed Won 1 0 50',
    'Closed Lost 0 0',
  ]);
  const grants = [{ object: 'leads', actions: ['list', 'read'] as const }];
  const other = await makePerson(instance, [{ organization: acme, grants }]);
  assert.deepEqual(await chartOf(await signIn(instance, other)), []);
});
