// Endpoints and channels that write retired resources are not served, and configuring them is an error.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { leadgenBody } from '../support/channels.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { ownFiles } from '../support/own-files.ts';
import { deliver, inboxOf, integrate, settingsFile } from '../support/partners.ts';
import { crm, until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const retired = ['leads', 'opportunities'].map((name) => ({
  file: `resources/own-${name}.yaml`,
  text: `extends: ${name}\nretired: true\n`,
}));

onBothDrivers(
  'retired resources of webhooks',
  (instance) => {
    let acme: Organization;
    let browser: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      browser = await signIn(instance(), administratorOf(acme));
    });

    test('their endpoints do not exist', async () => {
      for (const path of [
        '/webhooks/inbound-leads',
        '/webhooks/acme-payment',
        '/webhooks/channels/meta-lead-ads/abcdefghijkl',
        '/api/v1/leads',
      ])
        assert.equal((await instance().call(`POST ${path}`, { key: acme.key, body: {} })).status, 404, path);
      assert.equal((await instance().call('POST /api/booking-forms/whatsapp', { body: {} })).status, 501);
    });

    test('an integration added before its resource was retired receives nothing, and its stored events become dead letters', async () => {
      const page = await integrate(instance(), acme, 'meta-lead-ads');
      assert.equal((await deliver(instance(), page, leadgenBody({ leadgen: '"1"' }))).status, 404);
      await tablesOf(instance().database)
        .insertInto('crm_inbox')
        .values({
          ...{ organization_id: acme.id, integration_id: page.id, event_id: '1', done_at: null },
          payload: '{"leadgen":"1"}',
        })
        .execute();
      const item = async () => (await inboxOf(instance(), page))[0];
      await until(async () => (await item())?.error !== '', 'fail');
      const { status, attempts, error } = (await item()) ?? assert.fail();
      assert.deepEqual([status, Number(attempts), error], ['dead', 1, 'leads is retired']);
    });

    test('the admin UI explains why the integration rejects deliveries', async () => {
      const page = await integrate(instance(), acme, 'meta-lead-ads');
      const path = `/setup/o/acme/integrations/integration?id=${page.id}`;
      const reason = 'leads is retired, so deliveries are rejected';
      assert(readable((await browser.get(path)).text).includes(reason));
      const home = readable((await browser.get('/setup/o/acme')).text);
      assert(home.includes(`meta-lead-ads (Meta Lead Ads): ${reason}.`), home);
      assert(home.includes(path), home);
    });

    test('the API description does not mention them', async () => {
      const { text, json } = await instance().call('GET /docs/openapi.json');
      const paths = Object.keys(json.paths as object);
      assert.deepEqual(
        paths.filter((path) => /lead|opportunit|payment/i.test(path)),
        [],
      );
      assert(paths.includes('/api/booking-forms/whatsapp'));
      assert(!text.includes('inboundSecret'));
      assert(text.includes('"partnerToken"'));
    });

    test('the admin UI does not offer them', async () => {
      const partners = await browser.get('/setup/o/acme/partners');
      assert.equal(partners.status, 200);
      assert(!partners.text.includes('inbound_leads') && !partners.text.includes('Payments without a lead'));
      const payments = await browser.get('/setup/o/acme/partners?show=payments');
      assert(payments.text.includes('To enable an endpoint') && !payments.text.includes('no lead has'));
      const { json } = await runCommand(instance(), ['partners']);
      const names = (json as { partners: { name: string }[] }).partners.map(({ name }) => name);
      assert.deepEqual(names, ['booking_forms_whatsapp']);
      const { text } = await browser.get('/setup/o/acme/integrations/add');
      assert(text.includes('Telegram') && !text.includes('Meta Lead Ads'));
      const form = await browser.get('/setup/o/acme/integrations/add?provider=meta-lead-ads');
      assert(!form.text.includes('name="secret"'));
      const fields = { name: 'Page', provider: 'meta-lead-ads', secret: 'typed', token: 'typed' };
      const added = await browser.submit(
        '/setup/o/acme/integrations/add?provider=telegram',
        '/setup/o/acme/integrations/add',
        fields,
      );
      assert.deepEqual([added.status, problemOf(added)], [400, 'this provider does not exist']);
    });
  },
  { sources: await sourcesWith(...retired) },
);

describe('crm check', { concurrency: 1 }, () => {
  const check = async (settings: object, variables: Readonly<Record<string, string>> = {}) => {
    const own = ownFiles();
    for (const name of ['leads', 'opportunities']) own.edit(name, /^singular: /m, 'retired: true\n$&');
    const { environment } = settingsFile(settings, variables);
    const created = await crm(['migrate', '--create', 'retire'], { ...own.environment, ...environment });
    const result = await crm(['check'], { ...own.environment, ...environment });
    const doctor = await crm(['doctor'], {
      DATA_DIR: join(own.path, 'none'),
      ...own.environment,
      ...environment,
    });
    own.remove();
    const { code, stdout, stderr } = result;
    return { created, code, stdout, stderr, doctor };
  };

  test('accepts retired resources of endpoints without secrets', async () => {
    const { created, code, stdout, stderr, doctor } = await check({});
    assert(!/cannot be configured|has no migration/.test(doctor.stdout), doctor.stdout);
    assert.equal(created.code, 0, created.stderr);
    assert.equal(code, 0, stderr);
    assert(!stdout.includes('leads'), stdout);
  });

  test('names the entries in config.yaml that are configured nevertheless', async () => {
    const payment = {
      organization: 'acme',
      verify: { header: 'X-Key', secrets: ['${KEY}'] },
      lead: { email: '{{email}}' },
    };
    const { code, stderr, doctor } = await check(
      { partners: { inbound_leads: { secrets: ['${SECRET}'] }, payments: { acme: payment } } },
      { SECRET: 'a secret of inbound leads' },
    );
    assert.equal(code, 1);
    assert.match(
      stderr,
      /config\.yaml:\d+:\d+ {2}inbound_leads cannot be configured, because it writes leads, which is retired\. Remove its secret, or "retired: true" of leads\.\n.*config\.yaml:\d+:\d+ {2}payments of acme cannot be configured, because it writes leads, which is retired\. Remove its entry, or "retired: true" of leads\.\n/,
    );
    assert.match(doctor.stdout, /payments of acme cannot be configured/);
  });
});
