// OpenID Connect logins: which user is logged in, which accounts are linked, and rejected logins.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tablesOf, transaction } from '../../../engine/tables/handle.ts';
import { linkIdentity } from '../../../plugins/access/identity/identities.ts';
import { disableUser, findUserBy, unlinkUser } from '../../../plugins/access/identity/operator-users.ts';
import { claimForm } from '../../../plugins/admin-ui/shell/form.ts';
import {
  administratorOf,
  optionOf,
  problemOf,
  readable,
  signIn,
  type Visitor,
  visitor,
} from '../../support/forms.ts';
import { type Instance, type Organization, startInstance } from '../../support/instance.ts';
import { logged } from '../../support/logged.ts';
import { type OpenIdProvider, startProvider } from '../../support/openid-provider.ts';
import { settingsFile } from '../../support/partners.ts';
import { activityOf, command, dump, fresh, logIn, makePerson, soonerThan } from '../../support/people.ts';
import { until } from '../../support/process.ts';
import { patientSignals } from '../../support/promised.ts';
import { codeOf, forgetStep, setUpApp } from '../../support/second-factors.ts';

const begin = '/setup/login/with/idp';

describe('OpenID Connect logins', () => {
  patientSignals();
  let instance: Instance;
  let acme: Organization;
  let idp: OpenIdProvider;
  const settings = settingsFile({});
  const configure = async (more: object = {}, second_factor = 'off', read_only = false) => {
    const { issuer, secret: client_secret } = idp;
    const name = fresh('Example');
    const idps = { idp: { name, issuer, client_id: 'crm', client_secret, ...more } };
    const down = { ...idps.idp, name: 'Down', issuer: 'http://127.0.0.1:1' };
    settings.write({
      read_only,
      login: { second_factor, providers: { ...idps, down, off: { ...down, client_id: '' } } },
    });
    await until(
      async () => (await visitor(instance).get('/setup/login')).text.includes(`Log in with ${name}`),
      'the settings are in force',
    );
    return name;
  };
  before(async () => {
    idp = await startProvider();
    instance = await startInstance('postgresql', { environment: settings.environment });
    await idp.serve(`${instance.url}${begin}/callback`);
    acme = await instance.organization('acme');
    await configure();
  });
  after(async () => {
    await instance.close();
    await idp.close();
  });

  /** Logs in at the provider. @returns the path and query of the redirect back to the callback */
  const depart = async (browser: Visitor, change: (address: URL) => void = () => {}): Promise<string> => {
    const answer = await browser.get(`${begin}?next=%2Fsetup%2Fme`);
    assert.equal(answer.status, 303, problemOf(answer));
    const address = new URL(answer.headers.get('location') ?? '');
    change(address);
    const { pathname, search } = await idp.follow(address.href);
    return `${pathname}${search}`;
  };
  const arrive = async (browser = visitor(instance)) =>
    Object.assign(await browser.get(await depart(browser)), { browser });
  const isIn = async (browser: Visitor) => (await browser.get('/setup/me')).status === 200;
  const address = () => `${fresh('person')}@people.example`;

  test('links a verified email address to its account; later logins use the link, whatever the email address', async () => {
    const name = await configure();
    const person = await makePerson(instance, [{ organization: acme }], { verified: true });
    const before = await logIn(instance, person);
    const subject = fresh('subject');
    idp.comes(subject, { email: person.email.toUpperCase(), email_verified: true });
    const { status, headers, browser } = await arrive();
    assert.equal(status, 303);
    assert.equal(headers.get('location'), '/setup/me');
    const page = (await browser.get('/setup/me')).text;
    assert.ok(page.includes(person.email) && page.includes(name), 'the session names the provider');
    assert.ok(page.includes(`You logged in with ${name}, which protects your account.`));
    assert.ok(!browser.cookies.has('crm_provider_login'));
    assert.equal((await instance.call('GET /auth/me', { headers: before.byToken })).status, 200);
    assert.ok(await logIn(instance, person), 'the password still works');
    for (const account of [{ email: address(), email_verified: true }, { email_verified: false }, {}]) {
      idp.comes(subject, account);
      assert.ok((await (await arrive()).browser.get('/setup/me')).text.includes(person.email));
    }
  });

  for (const account of [{}, { email_verified: false }, { email_verified: 'true' }, { email_verified: 1 }]) {
    test(`does not link an unverified email address: ${JSON.stringify(account)}`, async () => {
      const person = await makePerson(instance, [{ organization: acme }], { verified: true });
      idp.comes(fresh('subject'), { email: person.email, ...account });
      const answer = await arrive();
      assert.equal(answer.status, 403);
      assert.match(problemOf(answer), /has not verified your email address/);
      assert.ok(!(await isIn(answer.browser)));
    });
  }

  test('links an unverified account and removes its password, second factor and sessions', async () => {
    const person = await makePerson(instance, [{ organization: acme }]);
    const attacker = await signIn(instance, person);
    await setUpApp(attacker);
    idp.comes(fresh('subject'), { email: person.email, email_verified: true });
    const { status, browser } = await arrive();
    assert.equal(status, 303);
    assert.ok(await isIn(browser));
    await soonerThan(1000, async () => !(await isIn(attacker)));
    const { email, password } = person;
    const answer = await instance.call('POST /auth/login', { body: { email, password } });
    assert.equal(answer.json.code, 'unauthenticated');
    const user = await transaction(instance.database, (tables) => findUserBy(tables, person.id));
    assert.notEqual(user.verified_at, null);
    assert.equal(user.second_factor, false);
  });

  test('links the verified account with an email address, even if an unverified account is older', async () => {
    const email = address();
    const unverified = await makePerson(instance, [{ organization: acme }], { email });
    const beta = await instance.organization(fresh('org'));
    const password = 'the password of the verified account';
    const { id } = await makePerson(instance, [{ organization: beta }], { email, password, verified: true });
    idp.comes(fresh('subject'), { email, email_verified: true });
    const { status, browser } = await arrive();
    assert.equal(status, 303);
    assert.equal((await browser.get('/setup')).headers.get('location'), `/setup/o/${beta.slug}`);
    assert.ok(await logIn(instance, unverified), 'the unverified account is unchanged');
    const entries = (await activityOf(instance, beta.id)).map(
      ({ actor, did }) => `${actor}: ${did.replace(/\d+$/, 'n')}`,
    );
    assert.deepEqual(entries.slice(-2), [
      `user ${id}: link provider session null`,
      `user ${id}: login session n`,
    ]);
  });

  test('finds the account that is linked to the subject of this provider, not of another one', async () => {
    const [own, other] = [
      await makePerson(instance, [{ organization: acme }], { verified: true }),
      await makePerson(instance, [{ organization: acme }], { verified: true }),
    ];
    const subject = fresh('subject');
    await linkIdentity(tablesOf(instance.database), other.id, {
      issuer: 'https://other.example',
      subject,
    });
    idp.comes(subject, { email: own.email, email_verified: true });
    assert.ok((await (await arrive()).browser.get('/setup/me')).text.includes(own.email));
    await tablesOf(instance.database).deleteFrom('crm_identities').where('user_id', '=', other.id).execute();
  });

  test('rejects an email address with several unverified accounts', async () => {
    const email = address();
    for (const organization of [acme, await instance.organization(fresh('org'))]) {
      await makePerson(instance, [{ organization }], { email });
    }
    idp.comes(fresh('subject'), { email, email_verified: true });
    const answer = await arrive();
    assert.equal(answer.status, 403);
    assert.match(problemOf(answer), /Several users/);
  });

  test("rejects another person with a linked account's email address until the account is unlinked", async () => {
    const person = await makePerson(instance, [{ organization: acme }], { verified: true });
    const account = { email: person.email, email_verified: true };
    const bystander = await makePerson(instance, [{ organization: acme }], { verified: true });
    const linked = fresh('subject');
    idp.comes(linked, { email: bystander.email, email_verified: true });
    assert.equal((await arrive()).status, 303);
    idp.comes(fresh('subject'), account);
    assert.equal((await arrive()).status, 303);
    idp.comes(fresh('subject'), account);
    const answer = await arrive();
    assert.equal(answer.status, 403);
    assert.match(problemOf(answer), /linked to another login/);
    await transaction(instance.database, async (tables) =>
      unlinkUser(tables, command(instance), await findUserBy(tables, person.id)),
    );
    assert.equal((await arrive()).status, 303);
    idp.comes(linked, {});
    assert.equal((await arrive()).status, 303, 'another account is still linked');
  });

  test('rejects a disabled account, linked or not', async () => {
    const person = await makePerson(instance, [{ organization: acme }], { verified: true });
    idp.comes(fresh('subject'), { email: person.email, email_verified: true });
    assert.equal((await arrive()).status, 303);
    await transaction(instance.database, async (tables) =>
      disableUser(tables, command(instance), await findUserBy(tables, person.id)),
    );
    const answer = await arrive();
    assert.equal(answer.status, 403);
    assert.match(problemOf(answer), /disabled/);
    idp.comes(fresh('subject'), { email: person.email, email_verified: true });
    assert.equal((await arrive()).status, 403);
  });

  test('creates a user for an invitation or a domain only if the settings allow it', async () => {
    const email = address();
    idp.comes(fresh('subject'), { email, email_verified: true });
    const refused = await arrive();
    assert.equal(refused.status, 403);
    assert.match(problemOf(refused), /is not registered here/);
    const admin = await signIn(instance, administratorOf(acme));
    const invite = '/setup/o/acme/members/invite';
    const profile = await optionOf(admin, invite, 'read-only');
    await admin.submit(invite, invite, { email, profile });
    assert.equal((await arrive()).status, 403, 'an invitation alone is not enough');
    await configure({ new_users: { invited: true } });
    const { browser } = await arrive();
    assert.match((await browser.get('/setup/me')).text, /acme<\/a> \(acme\), as read-only/);
    await admin.submit(invite, invite, { email: address(), profile });
    for (const values of [{ expires_at: new Date(Date.now() - 1000) }, { used_at: new Date() }]) {
      const former = address();
      await admin.submit(invite, invite, { email: former, profile });
      const invites = tablesOf(instance.database).updateTable('crm_invites').where('email', '=', former);
      await invites.set(values).execute();
      idp.comes(fresh('subject'), { email: former, email_verified: true });
      assert.equal((await arrive()).status, 403, Object.keys(values).join());
    }
    const named = address();
    for (const name of ['Ada Byron', 'Ada Lovelace'])
      await admin.submit(invite, invite, { email: named, name, profile });
    idp.comes(fresh('subject'), { email: named, email_verified: true });
    assert.match((await (await arrive()).browser.get('/setup/me')).text, /value="Ada Lovelace"/);

    const domains = { 'people.example': { organization: 'acme', profile: 'read-only' } };
    await configure({ new_users: { domains } });
    for (const [status, other] of [
      [303, address()],
      [403, `${fresh('x')}@other.example`],
      [403, 'x@toString'],
    ] as const) {
      idp.comes(fresh('subject'), { email: other, email_verified: true });
      assert.equal((await arrive()).status, status, other);
    }
    await configure({
      new_users: { domains: { 'people.example': { organization: 'none', profile: 'x' } } },
    });
    idp.comes(fresh('subject'), { email: address(), email_verified: true });
    const lines = await logged(async () => {
      const misconfigured = await arrive();
      assert.equal(misconfigured.status, 403);
      assert.doesNotMatch(problemOf(misconfigured), /none/);
    });
    assert.deepEqual(
      lines.flatMap(({ msg, level, provider, reason }) =>
        msg === 'login with a provider failed' ? [[level, provider, reason]] : [],
      ),
      [[40, 'idp', 'organization "none" does not exist']],
    );
    await configure();
  });

  test('requires a second factor unless the provider verifies one', async () => {
    const name = await configure();
    const person = await makePerson(instance, [{ organization: acme }], { verified: true });
    const { secret } = await setUpApp(await signIn(instance, person));
    idp.comes(fresh('subject'), { email: person.email, email_verified: true });
    const { headers, browser } = await arrive();
    const step = '/setup/login/second-factor';
    assert.equal(headers.get('location'), step);
    await forgetStep(instance, person.id);
    const entered = await browser.submit(step, step, { code: codeOf(secret) });
    assert.equal(entered.headers.get('location'), '/setup/me');
    const { text } = await browser.get('/setup/me');
    assert.ok(
      text.includes(`You logged in with ${name}, which protects your account together with a second factor.`),
    );
    assert.ok(text.includes(`>${name} and code<`), text);
    const admin = await makePerson(instance, [{ organization: acme }], { verified: true });
    idp.comes(fresh('subject'), { email: admin.email, email_verified: true });
    await configure({}, 'everyone');
    const led = await (await arrive()).browser.get('/setup/me');
    assert.equal(led.headers.get('location'), '/setup/me/second-factor');
    await configure({ verifies_second_factor: true }, 'everyone');
    assert.ok(await isIn((await arrive()).browser));
    await configure();
  });

  describe('accepts a callback only once and only in the browser that started the login', () => {
    const comes = async () => {
      const person = await makePerson(instance, [{ organization: acme }], { verified: true });
      idp.comes(fresh('subject'), { email: person.email, email_verified: true });
    };
    const assertRefused = async (browser: Visitor, path: string, status: number, problem: RegExp) => {
      const answer = await browser.get(path);
      assert.equal(answer.status, status);
      assert.match(problemOf(answer), problem);
      assert.ok(!browser.cookies.has('crm_session'));
      assert.match(answer.text, /name="password"/, 'passwords still work');
    };
    const stale = /started in another browser/;
    const invalid = /is not valid/;

    test('rejects a replay with the original cookie', async () => {
      await comes();
      const browser = visitor(instance);
      const path = await depart(browser);
      const cookie = browser.cookies.get('crm_provider_login') ?? '';
      assert.equal((await browser.get(path)).status, 303);
      browser.cookies.clear();
      browser.cookies.set('crm_provider_login', cookie);
      // The provider also accepts its code only once.
      await assertRefused(browser, path, 401, invalid);
    });
    test('rejects a state that has been used, whatever the provider accepts', async () => {
      await comes();
      const browser = visitor(instance);
      const path = await depart(browser);
      const state = new URL(path, instance.url).searchParams.get('state') ?? '';
      await transaction(instance.database, (tables) => claimForm(tables, state));
      await assertRefused(browser, path, 400, stale);
    });
    test('rejects a login that started at another provider', async () => {
      await comes();
      const browser = visitor(instance);
      const path = await depart(browser);
      await assertRefused(browser, path.replace('/idp/', '/down/'), 400, stale);
    });
    test('rejects another browser and an altered cookie', async () => {
      await comes();
      const browser = visitor(instance);
      const path = await depart(browser);
      await assertRefused(visitor(instance), path, 400, stale);
      const forged = visitor(instance);
      forged.cookies.set('crm_provider_login', browser.cookies.get('crm_provider_login')?.slice(0, -2) ?? '');
      await assertRefused(forged, path, 400, stale);
    });
    test("rejects another login's code", async () => {
      await comes();
      const [one, other] = [visitor(instance), visitor(instance)];
      const [mine, theirs] = [await depart(one), await depart(other)];
      await assertRefused(one, theirs, 401, invalid);
      // The state belongs to the browser, but the code was issued for another verifier.
      const again = visitor(instance);
      const own = new URL(await depart(again), instance.url);
      own.searchParams.set('code', new URL(mine, instance.url).searchParams.get('code') ?? '');
      await assertRefused(again, `${own.pathname}${own.search}`, 401, invalid);
    });
    test('rejects an ID token for another nonce', async () => {
      await comes();
      const browser = visitor(instance);
      const path = await depart(browser, ({ searchParams }) => searchParams.set('nonce', 'another'));
      await assertRefused(browser, path, 401, invalid);
    });
    test('rejects a callback without a state or with another issuer', async () => {
      await comes();
      for (const [name, value] of [
        ['state', ''],
        ['iss', 'https://other.example'],
      ] as const) {
        const browser = visitor(instance);
        const path = new URL(await depart(browser), instance.url);
        path.searchParams.set(name, value);
        await assertRefused(browser, `${path.pathname}${path.search}`, 401, invalid);
      }
    });
    test('reports a login canceled at the provider', async () => {
      idp.comes(undefined);
      const browser = visitor(instance);
      const path = await depart(browser);
      const lines = await logged(() => assertRefused(browser, path, 401, /did not log you in/));
      const [line] = lines.filter(({ msg }) => msg === 'login with a provider failed');
      assert.equal(line?.reason, 'access_denied');
      const german = await browser.get(await depart(browser), { 'accept-language': 'de' });
      assert.match(problemOf(german), / hat Sie nicht angemeldet\./);
    });
  });

  test('read-only mode: linked users can log in, and no user is linked', async () => {
    const person = await makePerson(instance, [{ organization: acme }], { verified: true });
    const account = { email: person.email, email_verified: true };
    const subject = fresh('subject');
    idp.comes(subject, account);
    assert.equal((await arrive()).status, 303);
    await configure({}, 'off', true);
    assert.equal((await arrive()).status, 303);
    idp.comes(fresh('subject'), { email: address(), email_verified: true });
    const answer = await arrive();
    assert.equal(answer.status, 403);
    assert.match(problemOf(answer), /This instance is read-only/);
    await configure();
  });

  test('shows an error page for an unreachable provider, and 404 for a disabled one', async () => {
    const answer = await visitor(instance).get('/setup/login/with/down');
    assert.equal(answer.status, 502);
    assert.match(problemOf(answer), /^Down cannot be reached/);
    assert.match(answer.text, /name="password"/);
    for (const name of ['off', 'unknown', 'toString']) {
      assert.equal((await visitor(instance).get(`/setup/login/with/${name}`)).status, 404);
      assert.equal((await visitor(instance).get(`/setup/login/with/${name}/callback`)).status, 404);
    }
    assert.doesNotMatch((await visitor(instance).get('/setup/login')).text, /with\/off/);
  });

  test('logs in at a provider that accepts the client secret only in the body, and sends the email address in the ID token', async () => {
    const other = await startProvider('client_secret_post');
    try {
      const { issuer, secret: client_secret } = other;
      await configure({ issuer, client_secret });
      await other.serve(`${instance.url}${begin}/callback`);
      for (const [email_verified, status] of [
        [false, 403],
        [true, 303],
      ] as const) {
        const { email } = await makePerson(instance, [{ organization: acme }], { verified: true });
        other.comes(fresh('subject'), { email, email_verified });
        const browser = visitor(instance);
        const start = await browser.get(begin);
        const { pathname, search } = await other.follow(start.headers.get('location') ?? '');
        const answer = await browser.get(`${pathname}${search}`);
        assert.equal(answer.status, status, problemOf(answer));
        assert.equal((await browser.get('/setup/me')).text.includes(email), email_verified);
      }
    } finally {
      await tablesOf(instance.database)
        .deleteFrom('crm_identities')
        .where('issuer', '=', other.issuer)
        .execute();
      await configure();
      await other.close();
    }
  });

  test('uses the client ID and secret that are in the settings at the time of the login', async () => {
    const person = await makePerson(instance, [{ organization: acme }], { verified: true });
    idp.comes(fresh('subject'), { email: person.email, email_verified: true });
    assert.equal((await arrive()).status, 303);
    await configure({ client_secret: 'a secret that the provider does not know' });
    const refused = await arrive();
    assert.equal(refused.status, 401);
    assert.match(problemOf(refused), /is not valid/);
    await configure({ client_id: 'another client' });
    const start = new URL((await visitor(instance).get(begin)).headers.get('location') ?? '');
    assert.equal(start.searchParams.get('client_id'), 'another client');
    await configure();
    assert.equal((await arrive()).status, 303);
  });

  test('never reveals the client secret, and keeps "next" on this site', async () => {
    const browser = visitor(instance);
    const answer = await browser.get(`${begin}?next=https%3A%2F%2Fevil.example`);
    const { searchParams } = new URL(answer.headers.get('location') ?? '');
    assert.equal(searchParams.get('code_challenge_method'), 'S256');
    const [cookie = ''] = answer.headers.getSetCookie();
    assert.match(
      cookie,
      /^crm_provider_login=[^;]+; Max-Age=600; Path=\/setup\/login\/with; HttpOnly; SameSite=Lax$/,
    );
    const login = await visitor(instance).get('/setup/login?next=%2Fsetup%2Fme%3Fa%3Db');
    assert.ok(readable(login.text).includes(`href="${begin}?next=%2Fsetup%2Fme%3Fa%3Db"`));
    const text = JSON.stringify([...answer.headers, ...browser.cookies, answer.text]);
    assert.ok(!text.includes(idp.secret));
    assert.ok(!(await dump(instance)).includes(idp.secret));
    const person = await makePerson(instance, [{ organization: acme }], { verified: true });
    idp.comes(fresh('subject'), { email: person.email, email_verified: true });
    const { pathname, search } = await idp.follow(answer.headers.get('location') ?? '');
    assert.equal((await browser.get(`${pathname}${search}`)).headers.get('location'), '/setup');
  });

  test('stores each link with its issuer', async () => {
    const rows = await tablesOf(instance.database).selectFrom('crm_identities').selectAll().execute();
    assert.ok(rows.length > 5);
    assert.ok(rows.every(({ issuer }) => issuer === idp.issuer));
  });
});
