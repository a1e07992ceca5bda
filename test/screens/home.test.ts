// The organization's home page lists problems that need attention, each with its next step, worst first.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { transaction } from '../../engine/tables/handle.ts';
import { revokeKey } from '../../plugins/access/api-keys/keys.ts';
import { administratorOf, readable, signIn, type Visitor } from '../support/forms.ts';
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
  assert.match(well.text, /href="\/setup\/o\/acme\/data\/leads">Leads</);

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
