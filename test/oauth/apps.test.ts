// Connected apps: the lists of the user and of administrators, disconnecting, the change log, and retention.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/index.ts';
import { appsRetention } from '../../plugins/access/oauth/apps.ts';
import { administratorOf, formsOf, problemOf, readable, signIn } from '../support/forms.ts';
import { assertGerman, namesIn } from '../support/german.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import {
  type ClientHost,
  connect,
  oauthSettings,
  openConsent,
  refresh,
  startClientHost,
} from '../support/oauth-client.ts';
import { activityOf, logIn, makePerson, soonerThan } from '../support/people.ts';
import { until } from '../support/process.ts';
import { patientSignals } from '../support/promised.ts';

for (const driver of drivers) {
  describe(`connected apps (${driver})`, () => {
    patientSignals();
    let instance: Instance;
    let host: ClientHost;
    let acme: Organization;
    let settings: ReturnType<typeof oauthSettings>;
    let client = '';
    before(async () => {
      host = await startClientHost();
      client = host.serve('/client.json');
      settings = oauthSettings([host.port]);
      instance = await startInstance(driver, { environment: settings.environment });
      acme = await instance.organization('acme');
    });
    after(async () => {
      await instance.close();
      await host.close();
    });
    const statusOf = async (key: string) => (await instance.call('GET /api/v1/leads', { key })).status;
    const idOf = ({ refresh: token }: { refresh: string }) => token.split('.')[1] ?? '';
    const isRejected = async (connected: { access: string; refresh: string }) => {
      await soonerThan(1000, async () => (await statusOf(connected.access)) === 401);
      assert.equal((await refresh(instance, client, connected)).status, 400);
    };

    test('a user sees and disconnects their own apps only', async () => {
      const [ada, bob] = [
        await makePerson(instance, [{ organization: acme }]),
        await makePerson(instance, [{ organization: acme, grants: [] }]),
      ];
      const connected = await connect(instance, ada, client, { access: 'read-only' });
      const browser = await signIn(instance, ada);
      assert.match(
        readable((await browser.get('/setup/me')).text),
        /href="\/setup\/me\/apps">Show connected apps/,
      );
      const page = await browser.get('/setup/me/apps');
      assert.match(readable(page.text), /Assistant \(127\.0\.0\.1\)/);
      assert.match(readable(page.text), /read only/);
      const admin = await signIn(instance, administratorOf(acme));
      const lastUse = async () =>
        Promise.all(
          [await browser.get('/setup/me/apps'), await admin.get(`/setup/o/acme/apps?q=${ada.email}`)].map(
            ({ text }) => / data-label="Last used"[^>]*>(?:<([a-z]+)|([^<]*))/.exec(text)?.slice(1),
          ),
        );
      const never = [undefined, 'never'];
      assert.deepEqual(await lastUse(), [never, never]);
      assert.equal(await statusOf(connected.access), 200);
      const time = ['time', undefined];
      assert.deepEqual(await lastUse(), [time, time]);

      const stranger = await signIn(instance, bob);
      assert.ok(!(await stranger.get('/setup/me/apps')).text.includes('Assistant'));
      const id = idOf(connected);
      const token = await stranger.token('/setup/me');
      const rejected = await stranger.post('/setup/me/apps/disconnect', { _csrf: token, id });
      assert.equal(rejected.status, 400);
      const withoutToken = await browser.post('/setup/me/apps/disconnect', { id });
      assert.equal(withoutToken.status, 403);
      assert.equal(await statusOf(connected.access), 200);

      const answer = await browser.submit('/setup/me/apps', '/setup/me/apps/disconnect', { id });
      assert.equal(answer.headers.get('location'), '/setup/me/apps?done=disconnected');
      await isRejected(connected);
      assert.ok(!formsOf(await browser.get('/setup/me/apps')).some(({ values }) => values.id === id));
    });

    test('an administrator sees and disconnects all apps of the organization, but no others', async () => {
      const beta = await instance.organization('beta');
      const ada = await makePerson(instance, [{ organization: acme }]);
      const connected = await connect(instance, ada, client);
      const other = await connect(instance, administratorOf(beta), client);
      const browser = await signIn(instance, administratorOf(acme));
      const page = await browser.get('/setup/o/acme/apps');
      assert.ok(readable(page.text).includes(ada.email));
      assert.match(page.text, /<span class="badge state good">connected, expires</);
      assert.ok(!readable(page.text).includes('admin@beta.example'));
      const foreign = await browser.get(`/setup/o/acme/apps/disconnect?id=${idOf(other)}`);
      assert.equal(foreign.status, 404);
      const id = idOf(connected);
      const answer = await browser.submit(
        `/setup/o/acme/apps/disconnect?id=${id}`,
        '/setup/o/acme/apps/disconnect',
        { id },
      );
      assert.equal(answer.status, 303, answer.text);
      await isRejected(connected);
      assert.equal(await statusOf(other.access), 200);
      const ended = readable((await browser.get('/setup/o/acme/apps?show=ended')).text);
      assert.ok(ended.includes(ada.email) && ended.includes('disconnected'));
    });

    test('the pages are in the browser’s language', async () => {
      const german = { 'accept-language': 'de' };
      const ada = await makePerson(instance, [{ organization: acme }]);
      const connected = await connect(instance, ada, client, { access: 'read-only' });
      const [browser, admin] = [await signIn(instance, ada), await signIn(instance, administratorOf(acme))];
      const app = 'Assistant (127.0.0.1)';
      const names = namesIn(instance, [
        'acme',
        'Organisation acme',
        'administrator',
        app,
        ada.email,
        'admin@acme.example',
      ]);
      const { page } = await openConsent(instance, browser, client);
      for (const path of [page, '/setup/me/apps']) assertGerman(await browser.get(path, german), names);
      const me = await browser.get('/setup/me', german);
      assert.match(readable(me.text), />Verbundene Apps anzeigen</);
      const query = `q=${encodeURIComponent(ada.email)}`;
      for (const path of [`apps?${query}`, `apps?show=all&${query}`, `apps/disconnect?id=${idOf(connected)}`])
        assertGerman(await admin.get(`/setup/o/acme/${path}`, german), names);
      const token = await browser.token('/setup/me');
      const missing = await browser.post('/setup/me/apps/disconnect', { _csrf: token, id: '999' }, german);
      assert.equal(problemOf(missing), 'Die verbundene App 999 existiert nicht.');
    });

    test('members who are not administrators cannot open the list of the organization', async () => {
      const member = await makePerson(instance, [{ organization: acme, grants: [] }]);
      const answer = await (await signIn(instance, member)).get('/setup/o/acme/apps');
      assert.equal(answer.status, 403);
    });

    test('consents and disconnections are in the activity', async () => {
      const gamma = await instance.organization('gamma');
      const person = administratorOf(gamma);
      const connected = await connect(instance, person, client);
      const browser = await signIn(instance, person);
      await browser.submit('/setup/me/apps', '/setup/me/apps/disconnect', { id: idOf(connected) });
      const reused = await connect(instance, person, client);
      await refresh(instance, client, reused);
      await refresh(instance, client, reused);
      const entries = (await activityOf(instance, gamma.id)).filter(({ did }) => did.includes(' app '));
      assert.deepEqual(
        entries.map(({ actor, did }) => [actor, did]),
        [
          [`user ${gamma.user}`, `create app ${idOf(connected)}`],
          [`user ${gamma.user}`, `revoke app ${idOf(connected)}`],
          [`user ${gamma.user}`, `create app ${idOf(reused)}`],
          [`key ${idOf(reused)}`, `revoke app ${idOf(reused)}`],
        ],
      );
      const page = readable((await browser.get('/setup/o/gamma/activity')).text);
      assert.match(page, /App “Assistant \(127\.0\.0\.1\)” connected/);
      assert.match(page, /App “Assistant \(127\.0\.0\.1\)” disconnected/);
    });

    test('an app is not an API key', async () => {
      const connected = await connect(instance, administratorOf(acme), client);
      const browser = await signIn(instance, administratorOf(acme));
      const keys = await browser.get('/setup/o/acme/keys');
      assert.ok(!readable(keys.text).includes('Assistant'));
      for (const page of ['rotate', 'revoke'])
        assert.equal((await browser.get(`/setup/o/acme/keys/${page}?id=${idOf(connected)}`)).status, 404);
    });

    test('a profile that changes changes what the app can do within a second', async () => {
      const person = await makePerson(instance, [
        { organization: acme, grants: [{ object: 'leads', actions: ['list'] }] },
      ]);
      const { access } = await connect(instance, person, client);
      assert.equal(await statusOf(access), 200);
      await tablesOf(instance.database)
        .deleteFrom('crm_grants')
        .where('organization_id', '=', acme.id)
        .where('profile_id', 'in', (query) =>
          query.selectFrom('crm_memberships').select('profile_id').where('user_id', '=', person.id),
        )
        .execute();
      await soonerThan(1000, async () => (await statusOf(access)) === 403);
    });

    test('logging out does not disconnect apps', async () => {
      const person = await makePerson(instance, [{ organization: acme }]);
      const { access } = await connect(instance, person, client);
      const { byToken } = await logIn(instance, person);
      await instance.call('POST /auth/logout-everywhere', { headers: byToken });
      assert.equal(await statusOf(access), 200);
    });

    test('an app expires with the consent, and is deleted a month after it has expired or has been disconnected', async () => {
      const tables = tablesOf(instance.database);
      const ago = (days: number) => new Date(Date.now() - days * 86_400_000);
      const set = (id: string, values: { expires_at?: Date; revoked_at?: Date }) =>
        tables
          .updateTable('crm_api_keys')
          .set(values)
          .where('organization_id', '=', acme.id)
          .where('id', '=', id)
          .execute();
      const connectApp = () => connect(instance, administratorOf(acme), client);
      const [connected, disconnected] = [await connectApp(), await connectApp()];
      const { id: ordinary } = await acme.makeKey();
      await set(ordinary, { expires_at: ago(100), revoked_at: ago(100) });
      const ids = [idOf(connected), idOf(disconnected), ordinary];
      const existing = async () => {
        const rows = await tables.selectFrom('crm_api_keys').select('id').where('id', 'in', ids).execute();
        return ids.map((id) => rows.some((row) => row.id === id));
      };
      await set(idOf(connected), { expires_at: ago(29) });
      await set(idOf(disconnected), { revoked_at: ago(29) });
      for (const { access } of [connected, disconnected])
        await soonerThan(1000, async () => (await statusOf(access)) === 401);
      const admin = await signIn(instance, administratorOf(acme));
      const ended = readable((await admin.get('/setup/o/acme/apps?show=ended')).text);
      const states = [...ended.matchAll(/<span class="badge state \w+">([^<]*)</g)].map(([, state]) => state);
      assert.deepEqual(states.slice(0, 2), ['disconnected', 'expired'], 'the newest are first');
      assert.ok(!ended.includes('/apps/disconnect?id='), 'not offered');
      assert.equal(await appsRetention(tables), 0);
      assert.deepEqual(await existing(), [true, true, true]);
      await set(idOf(connected), { expires_at: ago(31) });
      await set(idOf(disconnected), { revoked_at: ago(31) });
      assert.equal(await appsRetention(tables), 2);
      assert.deepEqual(await existing(), [false, false, true], 'other keys remain');
      const apps = await tables.selectFrom('crm_connected_apps').select('key_id').execute();
      assert.ok(!apps.some(({ key_id }) => ids.includes(key_id)));
    });

    test('the pages are listed only while OAuth is enabled', async () => {
      // Its home page does not link to apps in recent activity.
      const delta = await instance.organization('delta');
      const browser = await signIn(instance, administratorOf(delta));
      const isListed = async () => {
        const [home, me] = [await browser.get('/setup/o/delta'), await browser.get('/setup/me')];
        return [home.text.includes('/setup/o/delta/apps'), me.text.includes('/setup/me/apps')];
      };
      assert.deepEqual(await isListed(), [true, true]);
      settings.write({});
      await until(async () => !(await isListed()).includes(true), 'the pages are no longer listed');
    });
  });
}
