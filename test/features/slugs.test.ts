// Slugs do not grant authority: a former slug stays with its organization, and config.yaml controls the slugs that it
// names.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { commandLine } from '../../engine/effects/actor.ts';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import { findMemberships } from '../../plugins/access/identity/index.ts';
import { findOrLinkUser } from '../../plugins/access/openid-connect/linking.ts';
import { createOrganization, renameOrganization } from '../../plugins/tenants/organizations/index.ts';
import { partnerStatus } from '../../webhooks/partner-status/status.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { fresh, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';

const [leadSecret, formToken, paymentKey] = [
  'the-secret-of-inbound-leads',
  'the-token-of-booking-forms',
  'the-key-of-the-payment-hook',
];
const domains = { 'corp.example': { organization: 'acme', profile: 'read-only' } };
const naming = {
  partners: {
    inbound_leads: { secrets: [leadSecret] },
    booking_forms_whatsapp: { secrets: [formToken], organization: 'acme' },
    payments: {
      shop: {
        organization: 'acme',
        verify: { header: 'X-Shop-Key', secrets: [paymentKey] },
        event_id: '{{id}}',
        lead: { email: '{{email}}' },
      },
    },
  },
  messaging: { acme: { sender: 'log' } },
  quotas: { organizations: { acme: { records: 3, keys: 1 } } },
  new_organizations: 'administrators',
};
const initial = { new_organizations: 'administrators' };
const file = settingsFile(initial);

onBothDrivers(
  'slugs',
  (instance) => {
    let acme: Organization;
    let other: Organization;
    const run = (...args: string[]) => runCommand(instance(), args);
    const tables = () => tablesOf(instance().database);
    const set = (settings: object) => file.apply(instance(), settings);
    const leadsOf = async ({ key }: Organization) =>
      ((await instance().call('GET /api/v1/leads', { key })).json.data as { email: string }[]).map(
        ({ email }) => email,
      );

    before(async () => {
      await set(initial);
      acme = await instance().organization('acme');
      other = await instance().organization('other');
      await run('org', 'rename', 'acme', '--slug', 'acme-group');
    });

    test('a former slug is unavailable to other organizations, and its holder can return to it', async () => {
      for (const args of [
        ['create', 'acme'],
        ['rename', 'other', '--slug', 'acme'],
      ]) {
        await assert.rejects(run('org', ...args), /the slug "acme" is reserved\. Choose another one\./);
      }
      await run('org', 'rename', 'acme-group', '--slug', 'acme');
      await assert.rejects(run('org', 'create', 'acme-group'), /the slug "acme-group" is reserved/);
      await run('org', 'rename', 'acme', '--slug', 'acme-group');
      const { json } = await run('org', 'list');
      assert.deepEqual(
        (json.organizations as { slug: string }[]).map(({ slug }) => slug),
        ['acme-group', 'other'],
      );
    });

    test('a slug that two organizations claim at the same time belongs to exactly one of them', async () => {
      const actor = commandLine(instance().config);
      for (let round = 0; round < 10; round++) {
        const slug = fresh('contended');
        const { id } = await instance().organization(slug);
        const renamed = transaction(instance().database, (within) =>
          renameOrganization(within, actor, id, { slug: `${slug}-next`, configured: new Map() }),
        );
        const created = transaction(instance().database, (within) =>
          createOrganization(within, actor, slug, slug),
        );
        const [first, second] = await Promise.allSettled([renamed, created]);
        assert.deepEqual([first.status, second.status], ['fulfilled', 'rejected']);
      }
    });

    test('the slug of a deleted organization stays reserved', async () => {
      await instance().organization('short-lived');
      await run('org', 'delete', 'short-lived', '--yes', 'short-lived');
      await assert.rejects(run('org', 'create', 'short-lived'), /"short-lived" is reserved/);
      await assert.rejects(
        run('profile', 'list', '--org', 'short-lived'),
        /organization "short-lived" does not exist/,
      );
    });

    test('?org= and pages resolve a former slug to its organization, for its members only', async () => {
      const { json } = await instance().call('POST /auth/login', { body: administratorOf(acme) });
      const key = String(json.access_token);
      const response = await instance().call('GET /api/v1/leads?org=acme', { key });
      assert.equal(response.status, 200);
      const admin = await signIn(instance(), administratorOf(acme));
      for (const [from, to] of [
        ['/setup/o/acme', '/setup/o/acme-group'],
        ['/setup/o/acme/keys?sort=State', '/setup/o/acme-group/keys?sort=State'],
        ['/setup/o/acme/data/leads?q=acme', '/setup/o/acme-group/data/leads?q=acme'],
        ['/setup/organizations/acme/rename', '/setup/organizations/acme-group/rename'],
      ] as const) {
        const moved = await admin.get(from);
        assert.deepEqual([moved.status, moved.headers.get('location')], [307, to]);
      }
      const stranger = await signIn(instance(), administratorOf(other));
      assert.equal((await stranger.get('/setup/o/acme')).status, 403);
    });

    test('leads, payments, messages and logins for a former slug reach its organization', async () => {
      await set({
        ...naming,
        quotas: {},
      });
      const email = 'ada@people.example';
      const lead = await instance().call('POST /webhooks/inbound-leads', {
        headers: { 'x-inbound-secret': leadSecret, 'x-org-slug': 'acme' },
        body: { email },
      });
      assert.equal(lead.status, 201, lead.text);
      const paid = await instance().call('POST /webhooks/shop-payment', {
        headers: { 'x-shop-key': paymentKey },
        body: { id: 'one', email },
      });
      assert.equal(paid.json.lead_id, lead.json.id, paid.text);
      const response = await instance().call('POST /api/booking-forms/whatsapp', {
        headers: { authorization: `Bearer ${formToken}` },
        body: { to: '+49 40 66969 974', message: 'Booked.' },
      });
      assert.equal(response.status, 200, response.text);
      const user = await transaction(instance().database, (within) =>
        findOrLinkUser(
          within,
          { requestId: 'r', audited: true },
          {
            name: 'Corp',
            issuer: 'https://corp.example',
            client_id: 'crm',
            client_secret: 's',
            new_users: { domains },
          },
          {
            issuer: 'https://corp.example',
            subject: '1',
            email: 'eve@corp.example',
            isVerified: true,
            isReadOnly: false,
          },
        ),
      );
      assert.deepEqual([...(await findMemberships(tables(), user.id)).keys()], ['acme-group']);
      assert.deepEqual([await leadsOf(acme), await leadsOf(other)], [[email], []]);
      const messages = await tables().selectFrom('crm_messages').select('organization_id').execute();
      assert.deepEqual(
        messages.map(({ organization_id }) => organization_id),
        [acme.id],
      );
    });

    test('a sender for a former slug is reported as working, and so is one for the current slug', async () => {
      const problems = async (messaging: object, organization: string) => {
        const booking = { ...naming.partners.booking_forms_whatsapp, organization };
        await set({
          ...naming,
          messaging,
          partners: { ...naming.partners, booking_forms_whatsapp: booking },
        });
        const response = await instance().call('POST /api/booking-forms/whatsapp', {
          headers: { authorization: `Bearer ${formToken}` },
          body: { to: '+49 40 66969 974', message: 'Booked.' },
        });
        const status = await partnerStatus(tables(), instance().app.webhooks.settings.current);
        const problem = status.find(({ name }) => name === 'booking_forms_whatsapp')?.problem;
        return [response.status, problem?.('en')];
      };
      const sender = { sender: 'log' };
      for (const [messaging, organization] of [
        [{ acme: sender }, 'acme-group'],
        [{ 'acme-group': sender }, 'acme'],
      ] as const)
        assert.deepEqual(await problems(messaging, organization), [200, undefined], organization);
      assert.deepEqual(await problems({ other: sender }, 'acme'), [
        502,
        'messaging has no sender for "acme"',
      ]);
      const blank = { sender: 'whatsapp_cloud', phone_number_id: '1', access_token: '' };
      assert.deepEqual(await problems({ 'acme-group': blank }, 'acme'), [
        502,
        'messaging.acme-group.access_token is blank',
      ]);
    });

    test('a quota for a former slug stays in force', async () => {
      await set(naming);
      const create = () =>
        instance().call('POST /api/v1/leads', { key: acme.key, body: { last_name: 'More' } });
      await until(async () => (await create()).json.code === 'quota_exceeded', 'reach the quota');
      const admin = await signIn(instance(), administratorOf(acme));
      const home = readable((await admin.get('/setup/o/acme-group')).text);
      assert.match(home, /Records: \d of 3\./);
      assert.match(home, /API keys: \d of 1\./);
      const keys = '/setup/o/acme-group/keys';
      const profile = (await run('profile', 'list', '--org', 'acme-group')).json.profiles as { id: string }[];
      const response = await admin.submit(`${keys}/create`, `${keys}/create`, {
        name: 'Second',
        profile: profile[0]?.id ?? '',
        expires: 'never',
      });
      assert.match(readable(response.text), /limit of 1/);
    });

    test('a quota for the current slug precedes one for a former slug', async () => {
      const renamed = await instance().organization('before');
      await run('org', 'rename', 'before', '--slug', 'after');
      const organizations = { before: { records: 1, keys: 1 }, after: { records: 3, keys: 3 } };
      await set({ ...naming, quotas: { organizations } });
      for (const last_name of ['First', 'Second']) {
        const call = { key: renamed.key, body: { last_name } };
        const { status, text } = await instance().call('POST /api/v1/leads', call);
        assert.equal(status, 201, text);
      }
      const admin = await signIn(instance(), administratorOf(renamed));
      const home = readable((await admin.get('/setup/o/after')).text);
      assert.match(home, /Records: \d of 3\./);
      assert.match(home, /API keys: 1 of 3\./);
      const create = '/setup/o/after/keys/create';
      const profile = (await run('profile', 'list', '--org', 'after')).json.profiles as { id: string }[];
      const values = { name: 'Second', profile: profile[0]?.id ?? '', expires: 'never' };
      const response = await admin.submit(create, create, values);
      assert.equal(response.status, 200, problemOf(response));
    });

    describe('slugs named in config.yaml', () => {
      const base = '/setup/organizations';
      const [named, wanted] = ['named', 'wanted'];
      let admin: Visitor;
      before(async () => {
        const { id } = await instance().organization(named);
        admin = await signIn(
          instance(),
          await makePerson(instance(), [{ organization: { id } }, { organization: other }]),
        );
      });
      const rename = (organization: string, slug: string) => {
        const path = `${base}/${organization}/rename`;
        return admin.submit(path, path, { name: 'Renamed', slug });
      };
      const create = (slug: string) => admin.submit(`${base}/new`, `${base}/new`, { name: 'New', slug });
      const reserved = [400, `the slug "${wanted}" is reserved. Choose another one.`];

      /** Settings that name a slug, and the path that the error contains. */
      const sources: readonly (readonly [settings: (slug: string) => object, path: string])[] = [
        [(slug) => ({ messaging: { [slug]: { sender: 'log' } } }), 'messaging.named'],
        [
          (organization) => ({
            partners: { booking_forms_whatsapp: { secrets: [formToken], organization } },
          }),
          'partners.booking_forms_whatsapp.organization',
        ],
        [
          (organization) => ({
            partners: { payments: { shop: { ...naming.partners.payments.shop, organization } } },
          }),
          'partners.payments.shop.organization',
        ],
        [
          (organization) => ({
            login: {
              providers: {
                corp: {
                  ...{ name: 'Corp', issuer: 'https://corp.example', client_id: 'crm', client_secret: 's' },
                  new_users: { domains: { 'corp.example': { organization, profile: 'read-only' } } },
                },
              },
            },
          }),
          'login.providers.corp.new_users.domains.corp.example.organization',
        ],
        [(slug) => ({ quotas: { organizations: { [slug]: { keys: 3 } } } }), 'quotas.organizations.named'],
      ];
      for (const [settings, path] of sources)
        test(`${path}: the slug cannot be changed, nor assigned in the admin UI`, async () => {
          await set({ ...initial, ...settings(named) });
          const message = `the slug "named" cannot be changed: config.yaml names it in ${path}. Change config.yaml first.`;
          await assert.rejects(run('org', 'rename', named, '--slug', 'free'), { message });
          const response = await rename(named, 'free');
          assert.deepEqual([response.status, problemOf(response)], [400, message]);
          assert.equal((await rename(named, named)).status, 303, 'its name can be changed');

          await set({ ...initial, ...settings(wanted) });
          for (const taken of [await rename('other', wanted), await create(wanted)])
            assert.deepEqual([taken.status, problemOf(taken)], reserved);
        });

      test('the operator, who writes config.yaml, can assign them, and the command names the setting', async () => {
        const slugs = ['first', 'second', 'third'];
        const organizations = Object.fromEntries(slugs.map((slug) => [slug, { keys: 3 }]));
        await set({ ...initial, quotas: { organizations } });
        const note = (slug: string) =>
          `config.yaml names "${slug}" in quotas.organizations.${slug}, so its settings for this slug apply to the organization.`;
        assert.equal(
          (await run('org', 'create', 'first')).text,
          `Organization "first" created with the profiles administrator and read-only.\n${note('first')}`,
        );
        await run('org', 'create', 'plain');
        assert.equal(
          (await run('org', 'rename', 'plain', '--slug', 'second')).text,
          `"plain" now has the slug "second".\n${note('second')}`,
        );
        assert.doesNotMatch((await run('org', 'create', 'fourth')).text, /config\.yaml/);
        assert.doesNotMatch((await run('org', 'rename', 'second', '--name', 'S')).text, /config\.yaml/);
        await assert.rejects(run('org', 'rename', 'second', '--slug', 'third'), /cannot be changed/);
      });

      test('a slug that config.yaml no longer names can be changed and assigned', async () => {
        await set(initial);
        assert.equal((await create(wanted)).status, 303);
        assert.equal((await rename(named, 'renamed')).status, 303);
      });
    });
  },
  { environment: file.environment },
);
