// Login: its response, its cookie, and identical responses to an unknown email address and a wrong password.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { administratorOf, problemOf, signIn, visitor } from '../../support/forms.ts';
import { type Instance, type Organization, onBothDrivers, startInstance } from '../../support/instance.ts';
import { hashesDuring, realCost } from '../../support/low-cost.ts';
import { startProvider } from '../../support/openid-provider.ts';
import { settingsFile } from '../../support/partners.ts';
import {
  cookieOf,
  exchange,
  logIn,
  makePerson,
  type Node,
  type Person,
  secondNode,
  told,
} from '../../support/people.ts';
import { until } from '../../support/process.ts';
import { patientSignals } from '../../support/promised.ts';
import { assertErrorShape, errorOf } from '../../support/scenario.ts';

const twelveHours = 12 * 3600;
const actions = ['list', 'read', 'create', 'update', 'delete'];
const everything = { '*': actions, events: actions, members: actions, fields: actions };
const limits = { per_page: 20, body_bytes: 1024 * 1024, rate: null };

const settings = settingsFile({});

const suite = (instance: () => Instance): void => {
  patientSignals();
  let acme: Organization;
  let beta: Organization;
  let ann: Person;
  before(async () => {
    acme = await instance().organization('acme');
    beta = await instance().organization('beta');
    ann = await makePerson(instance(), [{ organization: beta }, { organization: acme }]);
  });
  const post = (body: unknown, headers: Record<string, string> = {}) =>
    instance().call('POST /auth/login', { body, headers });

  test('returns a token, the user and their organizations, and nothing else', async () => {
    const answer = await post({ email: ann.email, password: ann.password });
    assert.equal(answer.status, 200);
    const { access_token, expires_in, ...rest } = answer.json;
    assert.match(String(access_token), /^[\w-]+\.[\w-]+\.[\w-]+$/);
    assert.ok(Number(expires_in) > twelveHours - 60 && Number(expires_in) <= twelveHours, answer.text);
    assert.deepEqual(rest, {
      token_type: 'Bearer',
      user: { id: Number(ann.id), email: ann.email },
      organizations: [
        { id: Number(acme.id), slug: 'acme', name: 'acme' },
        { id: Number(beta.id), slug: 'beta', name: 'beta' },
      ],
    });
    assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
    assert.equal(answer.headers.get('cache-control'), 'no-store');
  });

  test('/auth/me returns the same user and organizations with their grants, by cookie and by token', async () => {
    const { json } = await post({ email: ann.email, password: ann.password });
    const { user } = json;
    const organizations = (json.organizations as object[]).map((organization) => ({
      ...organization,
      profile: 'administrator',
      grants: everything,
    }));
    const { byCookie, byToken } = await logIn(instance(), ann);
    for (const headers of [byCookie, byToken]) {
      const me = await instance().call('GET /auth/me', { headers });
      assert.equal(me.status, 200);
      assert.deepEqual(me.json, { user, organizations, limits });
      assert.equal(me.headers.get('cache-control'), 'no-store');
    }
  });

  test('ignores case and surrounding blanks in the email address', async () => {
    const answer = await post({ email: `  ${ann.email.toUpperCase()} `, password: ann.password });
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.json.user, { id: Number(ann.id), email: ann.email });
  });

  test('logs in a user without organizations', async () => {
    const nobody = await makePerson(instance(), []);
    const answer = await post({ email: nobody.email, password: nobody.password });
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.json.organizations, []);
    const browser = await signIn(instance(), nobody);
    assert.equal((await browser.get('/setup')).headers.get('location'), '/setup/me');
    assert.match((await browser.get('/setup/me')).text, /You are not a member of any organization\./);
  });

  describe('the cookie', () => {
    const plain = /^crm_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax$/;
    const secure = /^__Host-crm_session=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Lax$/;
    const hosts: readonly [host: string, cookie: RegExp][] = [
      ['127.0.0.1:3000', plain],
      ['127.0.0.1', plain],
      ['127.8.9.1', plain],
      ['localhost:3000', plain],
      ['LOCALHOST', plain],
      ['[::1]:3000', plain],
      ['crm.localhost', plain],
      ['crm.example', secure],
      ['crm.example:8443', secure],
      ['10.0.0.1', secure],
      ['[fe80::1]', secure],
      ['127.0.0.1.crm.example', secure],
      ['localhost.crm.example', secure],
      ['notlocalhost', secure],
      ['127.crm.example', secure],
    ];
    for (const [host, expected] of hosts) {
      test(`${host} → ${expected === plain ? 'without TLS' : '__Host- and Secure'}`, async () => {
        const { email, password } = ann;
        const answer = await exchange(instance().url, 'POST /auth/login', ['host', host], {
          email,
          password,
        });
        assert.equal(answer.status, 200, answer.text);
        const [session = '', device = '', ...more] = answer.headers.getSetCookie();
        assert.deepEqual(more, []);
        assert.match(session, expected);
        const remembered = /^(?:__Host-)?crm_device=[\w.-]+; Max-Age=34560000; (.*)$/.exec(device);
        assert.equal(remembered?.[1], session.split('; ').slice(1).join('; '), device);
        assert.equal(device.startsWith('__Host-'), expected === secure);

        const name = expected === plain ? 'crm_session' : '__Host-crm_session';
        const other = expected === plain ? '__Host-crm_session' : 'crm_session';
        const as = (cookie: string) => ['host', host, 'cookie', cookie, 'sec-fetch-site', 'same-origin'];
        const me = (cookie: string) => exchange(instance().url, 'GET /auth/me', as(cookie));
        assert.equal((await me(`${name}=${cookieOf(answer)}`)).status, 200);
        // Any sibling host could set a cookie without the prefix.
        assert.equal((await me(`${other}=${cookieOf(answer)}`)).status, 401);

        const out = await exchange(instance().url, 'POST /auth/logout', as(`${name}=${cookieOf(answer)}`));
        assert.deepEqual(out.json, { ok: true });
        const [cleared = ''] = out.headers.getSetCookie();
        assert.ok(cleared.startsWith(`${name}=; `) && cleared.includes('Expires=Thu, 01 Jan 1970'), cleared);
        assert.equal(
          cleared.includes('Secure'),
          expected === secure,
          'browsers ignore a __Host- cookie without Secure',
        );
      });
    }
  });

  describe('rejects a body without an email address and password → 400', () => {
    const right = { email: 'a@b.example', password: 'some password' };
    const values = [undefined, null, {}, [], ['x'], true, 7, { $ne: null }, 'a\0b'];
    const wrong: readonly [name: string, body: unknown, type?: string][] = [
      ['nothing', undefined],
      ['an empty body', ''],
      ['invalid JSON', '{'],
      ['null', 'null'],
      ['an array', []],
      ['a string', '"a@b.example"'],
      ['an empty object', {}],
      ['a form', 'email=a%40b.example&password=x', 'application/x-www-form-urlencoded'],
      ['JSON as text/plain', JSON.stringify(right), 'text/plain'],
      ['invalid UTF-8', Buffer.from('{"email":"a@b.example","password":"\xff"}', 'latin1')],
      ['a lone surrogate', '{"email":"a@b.example","password":"\\ud800"}'],
      ['organization: 7', { ...right, organization: 7 }],
      ['organization: "a\\0b"', { ...right, organization: 'a\0b' }],
      ...values.flatMap((value): [string, unknown][] => [
        [`email: ${JSON.stringify(value)}`, { ...right, email: value }],
        [`password: ${JSON.stringify(value)}`, { ...right, password: value }],
      ]),
    ];
    for (const [name, body, type] of wrong) {
      test(name, async () => {
        const answer = await instance().call('POST /auth/login', {
          ...(body === undefined ? {} : { body }),
          ...(type && { headers: { 'content-type': type } }),
        });
        assert.equal(answer.status, 400, answer.text);
        assertErrorShape(answer);
        assert.deepEqual(answer.headers.getSetCookie(), []);
      });
    }

    test('reports every invalid field', async () => {
      const { json } = await post({ email: 1 });
      assert.deepEqual(json.fields, [
        { field: 'email', message: 'email must be a string' },
        { field: 'password', message: 'password must be a string' },
      ]);
    });
  });

  describe('rejects wrong credentials → 401, with the same response for every reason', () => {
    const wrong: readonly [name: string, email: string | undefined, password: string][] = [
      ['another password', undefined, 'correct horse battery stapl'],
      ['the password in another case', undefined, 'CORRECT HORSE BATTERY STAPLE'],
      ['the password with a trailing blank', undefined, 'correct horse battery staple '],
      ['no password', undefined, ''],
      ['a password of 15 kB', undefined, 'x'.repeat(15_000)],
      ['an unknown email address', 'nobody@people.example', 'correct horse battery staple'],
      ['no email address', '', ''],
      ['an email address of 10 kB', `${'x'.repeat(10_000)}@people.example`, 'x'],
      ['SQL', "' or 1=1 --", "' or 1=1 --"],
      ['a LIKE pattern', '%@people.example', '%'],
      ['an email address with a surrogate pair', '😀@people.example', '😀'],
    ];
    /** The response to an unknown email address, including its headers. */
    let unknown: ReturnType<typeof told>;
    before(async () => {
      unknown = told(await post({ email: 'unknown@people.example', password: 'wrong' }));
    });
    for (const [name, email, password] of wrong) {
      test(name, async () => {
        const answer = await post({ email: email ?? ann.email, password });
        assert.equal(answer.status, 401);
        assert.deepEqual(told(answer), unknown);
        assert.deepEqual(errorOf(answer), { error: 'Wrong email or password', code: 'unauthenticated' });
      });
    }

    test('an unknown email address takes as long as a wrong password', async () => {
      const bea = await makePerson(instance(), [{ organization: acme }]);
      // Without the hash, a response for an unknown email address would be ten times faster.
      for (const email of [bea.email, 'missing@people.example'])
        assert.deepEqual(await hashesDuring(() => post({ email, password: 'wrong' })), [
          'm=19456,t=2, a short password',
        ]);
    });
  });

  test('rejects other methods → 405', async () => {
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH']) {
      const answer = await instance().call(`${method} /auth/login`);
      assert.equal(answer.status, 405);
      assert.equal(answer.headers.get('allow'), 'POST, OPTIONS');
      assertErrorShape(answer);
    }
  });

  test('/auth/me with an API key returns the key and its grants', async () => {
    const expiresAt = new Date(Date.now() + 86_400_000);
    const { id, key } = await acme.makeKey({ expiresAt });
    const me = await instance().call('GET /auth/me', { key });
    assert.equal(me.status, 200, me.text);
    const { name, profile } = me.json.key as Record<string, unknown>;
    assert.deepEqual(me.json, {
      user: null,
      organizations: [{ id: Number(acme.id), slug: 'acme', name: 'acme', profile, grants: everything }],
      key: { id: Number(id), name, last_four: key.slice(-4), profile, expires_at: expiresAt.toISOString() },
      grants: everything,
      limits,
    });
    assert.equal((await instance().call('GET /auth/me', { key: `${key}x` })).status, 401);
  });

  test('rejects API keys on session routes', async () => {
    for (const request of ['GET /auth/sessions', 'POST /auth/logout', 'DELETE /auth/sessions/1']) {
      assert.equal((await instance().call(request, { key: acme.key })).status, 401, request);
    }
  });

  test('forty concurrent logins do not delay other requests', async (t) => {
    t.after(realCost());
    /** Returns whether most logins were still in progress after five requests. */
    const isPrompt = async (node: Node): Promise<boolean> => {
      const list = async () => (await node.call('GET /api/v1/leads', { key: acme.key })).status;
      const login = (index: number) =>
        node.call('POST /auth/login', {
          body: { email: `crowd-${index}@people.example`, password: 'wrong' },
        });
      // Connects to the database.
      assert.deepEqual([(await login(0)).status, await list()], [401, 200]);
      let open = 40;
      const logins = Array.from({ length: open }, (_, index) => login(index).finally(() => open--));
      for (let call = 0; call < 5; call++) assert.equal(await list(), 200);
      const left = open;
      assert.deepEqual([...new Set((await Promise.all(logins)).map(({ status }) => status))], [401]);
      return left > 20;
    };
    // On a busy machine, the logins can overtake the requests. Each attempt has its own node, because nodes limit wrong
    // passwords.
    await until(async () => {
      const node = await secondNode(instance());
      return isPrompt(node).finally(node.close);
    }, 'serve the requests while logins are in progress');
  });

  test('contacts an unreachable OpenID Connect provider again at the next login', async () => {
    const late = await startProvider();
    const begin = '/setup/login/with/late';
    try {
      const { issuer, secret: client_secret } = late;
      const provider = { name: 'Late', issuer, client_id: 'crm', client_secret };
      settings.write({ login: { providers: { late: provider } } });
      await until(
        async () => (await visitor(instance()).get('/setup/login')).text.includes('Log in with Late'),
        'the settings are in force',
      );
      for (let time = 0; time < 2; time++)
        assert.equal((await visitor(instance()).get(begin)).status, 502, 'the provider does not respond yet');
      await late.serve(`${instance().url}${begin}/callback`);
      const answer = await visitor(instance()).get(begin);
      assert.equal(answer.status, 303, problemOf(answer));
      assert.equal(new URL(answer.headers.get('location') ?? '').origin, issuer);
    } finally {
      settings.write({});
      await late.close();
    }
  });
};

onBothDrivers('login', suite, { environment: settings.environment });

describe('PUBLIC_URL determines whether cookies are Secure, regardless of the Host header', () => {
  for (const [publicUrl, host, secure] of [
    ['https://crm.example', 'localhost:3000', true],
    ['https://crm.example/', '10.0.0.7:3000', true],
    ['https://localhost', '127.0.0.1', true],
    ['http://crm.example', 'localhost', true],
    ['http://localhost:3000', 'crm.example', false],
    ['', 'crm.example', true],
    ['', 'localhost:3000', false],
  ] as const) {
    test(`"${publicUrl}" with Host ${host}: ${secure ? 'Secure' : 'without TLS'}`, async () => {
      const instance = await startInstance('embedded', { environment: { PUBLIC_URL: publicUrl } });
      try {
        const acme = await instance.organization('acme');
        const { email, password } = administratorOf(acme);
        const login = await exchange(instance.url, 'POST /auth/login', ['host', host], { email, password });
        const page = await exchange(instance.url, 'GET /setup/login', ['host', host]);
        for (const cookie of [...login.headers.getSetCookie(), ...page.headers.getSetCookie()]) {
          assert.equal(cookie.includes('; Secure'), secure, cookie);
        }
        const name = secure ? '__Host-crm_session' : 'crm_session';
        const origin = publicUrl === '' ? `http://${host}` : new URL(publicUrl).origin;
        const head = ['host', host, 'cookie', `${name}=${cookieOf(login)}`, 'origin', origin];
        const out = await exchange(instance.url, 'POST /auth/logout', head);
        assert.equal(out.status, 200, 'pages of the public origin can write');
      } finally {
        await instance.close();
      }
    });
  }
});
