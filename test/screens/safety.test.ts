// Admin UI security: headers, cookies, redirects after the login, and secrets in URLs.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { administratorOf, formsOf, shownIn, type Visitor, visitor } from '../support/forms.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { activityOf, dump, exchange } from '../support/people.ts';
import { openScreens, type Screens, sections } from '../support/screens.ts';

const csp =
  "default-src 'none';script-src 'self';style-src 'self' 'sha256-WAyOw4V+FqDc35lQPyRADLBWbuNK8ahvYEaQIYF1+Ps=';img-src 'self' data:;font-src 'self';connect-src 'self';form-action 'self';frame-ancestors 'none';base-uri 'none'";

describe('security of the admin UI', () => {
  let instance: Instance;
  let acme: Organization;
  let admin: Visitor;
  let screens: Screens;
  before(async () => {
    instance = await startInstance('postgresql');
    screens = await openScreens(instance);
    ({ acme, admin } = screens);
  });
  after(() => instance.close());

  describe('headers', () => {
    const pages: readonly [path: string, status: number, signedIn: boolean][] = [
      ['/setup/login', 200, false],
      ['/setup/login?next=/setup/me', 200, true],
      ['/setup/invite/unknown', 200, false],
      ['/setup', 303, true],
      ['/setup/me', 303, false],
      ['/setup/me', 200, true],
      ...sections.map((path): [string, number, boolean] => [path, 200, true]),
      ['/setup/o/beta/keys', 403, true],
      ['/setup/nowhere', 404, true],
      ['/setup/nowhere', 404, false],
      ['/setup/o/acme/keys/create', 200, true],
      ['/setup/o/acme/keys/revoke', 404, true],
      ['/setup/o/acme/integrations/switch', 303, true],
      ['/setup/o/acme', 200, true],
      ['/setup/o/beta', 403, true],
      ['/setup/o/acme/integrations/add', 200, true],
      ['/setup/o/acme/integrations/add?provider=twilio', 200, true],
      ['/setup/o/acme/deliveries/replay', 303, true],
      ['/setup/o/acme/partners/x', 404, true],
      ['/setup/o/beta/integrations', 403, true],
      ...['status=dead&before=1', 'status=<script>', "before=1'or'1'='1", `before=${'9'.repeat(30)}`].map(
        (query): [string, number, boolean] => [`/setup/o/acme/deliveries?${query}`, 200, true],
      ),
    ];
    const check = (answer: Answer) => {
      const get = (name: string) => answer.headers.get(name);
      assert.equal(get('content-security-policy'), csp);
      assert.equal(get('x-content-type-options'), 'nosniff');
      assert.equal(get('x-frame-options'), 'DENY');
      assert.equal(get('cross-origin-opener-policy'), 'same-origin');
      assert.equal(get('cross-origin-resource-policy'), 'same-origin');
      assert.equal(get('referrer-policy'), 'no-referrer');
      assert.equal(get('cache-control'), 'no-store');
      for (const name of ['x-powered-by', 'server', 'access-control-allow-origin'])
        assert.equal(get(name), null);
      if (answer.status !== 303) assert.equal(get('content-type'), 'text/html; charset=utf-8');
      assert.doesNotMatch(
        answer.text,
        /<script(?![^>]* src="\/setup\/assets\/)|<style| style=| on\w+="|javascript:/,
      );
      assert.doesNotMatch(
        answer.text,
        /(?:src|href|action)="(?!\/(?!\/)|data:,|#content")/,
        'only URLs of this origin',
      );
      // Forms that close a dialog send nothing.
      for (const [form] of answer.text.matchAll(/<form(?![^>]* method="(?:post|dialog)")[\s\S]*?<\/form>/g)) {
        assert.match(form, /^<form role="search"[^>]* method="get"/, 'only search forms use GET');
        assert.doesNotMatch(form, /_csrf|password/);
      }
    };
    for (const [path, status, signedIn] of pages) {
      test(`GET ${path} ${signedIn ? 'logged in' : 'logged out'} → ${status}`, async () => {
        const answer = await (signedIn ? admin : visitor(instance)).get(path);
        assert.equal(answer.status, status);
        check(answer);
      });
    }
    test('a rejected, an invalid and an oversized form', async () => {
      const bad = await admin.submit('/setup/o/acme/keys', '/setup/o/acme/keys/revoke', { id: 'x' });
      const large = await admin.post('/setup/login', { email: 'x'.repeat(300_000) });
      const foreign = await admin.post('/setup/login', {});
      for (const [answer, status] of [
        [bad, 400],
        [large, 413],
        [foreign, 403],
      ] as const) {
        assert.equal(answer.status, status);
        check(answer);
      }
    });
    for (const [name, type] of [
      ['setup.css', 'text/css'],
      ['setup.js', 'text/javascript'],
      ['icons.svg', 'image/svg+xml'],
      ['inter-latin.woff2', 'font/woff2'],
    ] as const) {
      test(`asset ${name}`, async () => {
        const answer = await visitor(instance).get(`/setup/assets/any/${name}`);
        assert.equal(answer.status, 200);
        assert.equal(
          answer.headers.get('content-type'),
          type.startsWith('text/') ? `${type}; charset=utf-8` : type,
        );
        assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
        assert.deepEqual(answer.headers.getSetCookie(), []);
        assert.doesNotMatch(
          answer.text,
          /@import|url\((?!['"]?(?:data:|[\w-]+\.woff2))|\/\/# sourceMappingURL|eval\(|innerHTML/,
        );
      });
    }
  });

  test('form cookies are HttpOnly and limited to /setup, and Secure except on loopback', async () => {
    for (const [host, secure] of [
      ['127.0.0.1:80', false],
      ['crm.example', true],
    ] as const) {
      const answer = await exchange(instance.url, 'GET /setup/login', ['host', host]);
      const [cookie = '', ...more] = answer.headers.getSetCookie();
      assert.deepEqual(more, []);
      const flags = cookie.split('; ').slice(1).sort();
      assert.deepEqual(
        flags,
        ['HttpOnly', 'Path=/setup', 'SameSite=Lax', ...(secure ? ['Secure'] : [])].sort(),
      );
    }
  });

  describe('the login redirects only within this site', () => {
    const targets: readonly [next: string, location: string][] = [
      ['/setup/me', '/setup/me'],
      ['/setup/o/acme/keys?done=key-revoked', '/setup/o/acme/keys?done=key-revoked'],
      ...[
        ...['//elsewhere.example', '///elsewhere.example', '/\\elsewhere.example', '\\\\elsewhere.example'],
        ...['https://elsewhere.example', 'https:elsewhere.example', 'HTTP://elsewhere.example/setup'],
        ...[
          'javascript:alert(1)',
          'data:text/html,x',
          '/%2f%2felsewhere.example',
          '/setup//elsewhere.example/..',
        ],
        ...['/setup/../docs', '/setup/%2e%2e/../x', '/setup@elsewhere.example', '/setup.elsewhere.example'],
        ...['/setup/\r\nset-cookie: a=b', '/setup/\t/x', '/setup/ x', ' /setup/me', '/SETUP/me', 'setup/me'],
        ...[
          '/docs@elsewhere.example',
          '/docs/../auth/logout',
          '/auth/logout',
          '',
          '/',
          '.',
          '/setup/"><script>',
          '/setup/me#x',
          '/setup/é',
          '/setup/\0',
        ],
      ].map((next): [string, string] => [next, '/setup']),
    ];
    for (const [next, location] of targets) {
      test(JSON.stringify(next), async () => {
        const browser = visitor(instance);
        const page = `/setup/login?next=${encodeURIComponent(next)}`;
        const [form] = formsOf(await browser.get(page));
        assert.equal(form?.values.next, location, 'the form already contains the safe URL');
        const { email, password } = administratorOf(acme);
        const answer = await browser.post('/setup/login', { ...form?.values, next, email, password });
        assert.equal(answer.status, 303);
        assert.equal(answer.headers.get('location'), location);
      });
    }
    test('a repeated "next", or one as an object', async () => {
      for (const query of ['next=/setup/me&next=//elsewhere.example', 'next[x]=//elsewhere.example']) {
        const [form] = formsOf(await visitor(instance).get(`/setup/login?${query}`));
        assert.equal(form?.values.next, '/setup');
      }
    });
  });

  test('changing the password is recorded in the activity and ends every session', async () => {
    const own = await screens.administrator();
    const changed = await own.browser.submit('/setup/me', '/setup/me/password', {
      current: own.password,
      new: 'another password',
      again: 'another password',
    });
    assert.equal(changed.headers.get('location'), '/setup/me?done=password-changed');
    const lines = (await activityOf(instance, acme.id)).map(({ did }) => did.replace(/\d+$/, 'n'));
    assert.deepEqual(lines.slice(-3), [
      'change password session null',
      'logout everywhere session null',
      'login session n',
    ]);
  });

  test('no URL contains a secret', async () => {
    const own = await screens.administrator();
    const { path, code } = await screens.invitation();
    const form = await screens.ready('/setup/o/acme/keys/create', own);
    const key = await own.browser.submit(form.page, form.action, form.fields);
    const plaintext = shownIn(key, 'plaintext');
    assert.match(plaintext, /^crm_/);
    const bot = { provider: 'whatsapp', name: 'Bot', secret: 'the-secret-of-the-bot' };
    const integrations = '/setup/o/acme/integrations';
    const integration = await own.browser.submit(integrations, `${integrations}/add`, bot);
    const verifyToken = shownIn(integration, 'verify-token');
    assert.match(verifyToken, /^[\w-]{20,}$/);
    const answers = [key, integration, await visitor(instance).get(path)];
    for (const page of ['/setup', '/setup/me', ...sections]) answers.push(await own.browser.get(page));
    const accepted = await visitor(instance).submit(path, path, { code, password: 'one of their own' });
    const changed = await own.browser.submit('/setup/me', '/setup/me/password', {
      current: own.password,
      new: 'another password',
      again: 'another password',
    });
    answers.push(accepted, changed, await own.browser.submit('/setup/me', '/setup/logout'));
    const secrets = [
      ...[plaintext, verifyToken, bot.secret, code, own.password, 'another password'],
      ...own.browser.cookies.values(),
    ];
    for (const answer of answers) {
      const addresses = [...answer.text.matchAll(/(?:href|src|action)="([^"]*)"/g)].map(
        ([, url]) => url ?? '',
      );
      for (const address of [...addresses, answer.headers.get('location') ?? '', path]) {
        for (const secret of secrets) assert.ok(!address.includes(secret), address);
        assert.doesNotMatch(address, /_csrf|token=|password=|code=/i);
      }
    }
    const shows = (secret: string) => answers.filter(({ text }) => text.includes(secret)).length;
    assert.equal(shows(plaintext), 1, 'the key is shown once');
    assert.equal(shows(verifyToken), 1, 'the verify token is shown once');
    assert.equal(shows(bot.secret), 0, 'a provider’s secret is never shown');
    assert.ok(!(await dump(instance)).includes(bot.secret), 'the secret is stored encrypted');
  });
});
