// How clients identify themselves: client ID metadata documents, which are downloaded under the restrictions on URLs, and
// registration.
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/index.ts';
import { clientDocuments, clientOf } from '../../plugins/access/oauth/clients.ts';
import { clientsRetention } from '../../plugins/access/oauth/registration.ts';
import { administratorOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import {
  type ClientHost,
  callback,
  connect,
  decide,
  type Metadata,
  oauthSettings,
  openConsent,
  pkce,
  post,
  sendJson,
  startClientHost,
} from '../support/oauth-client.ts';
import { settingsFile } from '../support/partners.ts';
import { until } from '../support/process.ts';

describe('client ID metadata documents', () => {
  let host: ClientHost;
  before(async () => {
    host = await startClientHost();
  });
  after(() => host.close());
  const policy = () => ({ allow_private_addresses: true, allow_http: true, ports: [host.port] });
  const find = (id: string) => clientDocuments(policy).find(id);

  test('identify a client by the host of their URL', async () => {
    const id = host.serve('/valid.json');
    assert.deepEqual(await find(id), {
      ...{ id, name: 'Assistant', host: '127.0.0.1', redirectUris: [callback] },
    });
  });

  test('are cached, but failures are not', async () => {
    const id = host.serve('/cached.json');
    const documents = clientDocuments(policy);
    await Promise.all([documents.find(id), documents.find(id)]);
    await documents.find(id);
    assert.equal(host.requests(id), 1);
    const missing = `${id}-missing`;
    await assert.rejects(documents.find(missing));
    await assert.rejects(documents.find(missing));
    assert.equal(host.requests(missing), 2);
  });

  /** Sends the valid document of the requested client, with this status and these headers. */
  const valid =
    (status: number, headers: Readonly<Record<string, string>> = {}, more: Metadata = {}) =>
    (response: ServerResponse) => {
      const { req: request } = response;
      const client_id = `http://${request.headers.host}${request.url}`;
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify({ client_id, redirect_uris: [callback], ...more }));
    };
  for (const [name, document] of [
    ['of another client', { client_id: 'https://other.example/client.json' }],
    ['without redirect URIs', { redirect_uris: [] }],
    ['with redirect URIs that are not a list', { redirect_uris: callback }],
    ['with a redirect URI of another scheme', { redirect_uris: ['javascript:alert(1)'] }],
    ['with a redirect URI without TLS', { redirect_uris: ['http://app.example/callback'] }],
    ['with too many redirect URIs', { redirect_uris: Array(21).fill(callback) }],
    ['of a confidential client', { token_endpoint_auth_method: 'client_secret_basic' }],
    ['that are not JSON', (response) => sendJson(response, '{')],
    ['that are a list', (response) => sendJson(response, '[]')],
    ['that are larger than 5 KB', valid(200, {}, { filler: 'x'.repeat(5 * 1024) })],
    ['that are endless', endless],
    ['of another type', valid(200, { 'content-type': 'text/html' })],
    ['that are missing', valid(404)],
    ['of a server that fails', valid(500)],
    ['that redirect', valid(302, { location: '/valid.json' })],
    ['that switch protocols', (response) => response.writeHead(101, { upgrade: 'x' }).end()],
  ] satisfies readonly (readonly [string, Metadata | ((response: ServerResponse) => void)])[]) {
    test(`${name} are rejected`, async () => {
      host.serve('/valid.json');
      await assert.rejects(find(host.serve('/document.json', document)), { name: 'UserError' });
    });
  }

  test('can have a one-line name, which is shortened to 60 characters', () => {
    const nameOf = (client_name: unknown) => clientOf('x', { client_name, redirect_uris: [callback] }).name;
    for (const [name, shown] of [
      ['x'.repeat(60), 'x'.repeat(60)],
      ['x'.repeat(61), 'x'.repeat(60)],
      [`${'x'.repeat(59)}\u{1f600}`, `${'x'.repeat(59)}\ufffd`],
      ['Claude\nasks nothing', 'Claude asks nothing'],
      [7, ''],
      [undefined, ''],
    ] as const)
      assert.equal(nameOf(name), shown);
  });

  test('can have 20 redirect URIs of 1,000 characters', () => {
    const uris = (count: number, length: number) =>
      Array<string>(count).fill('https://app.example/'.padEnd(length, 'x'));
    assert.equal(clientOf('x', { redirect_uris: uris(20, 1000) }).redirectUris.length, 20);
    for (const redirect_uris of [uris(21, 1000), uris(20, 1001)])
      assert.throws(() => clientOf('x', { redirect_uris }), { name: 'UserError' });
  });

  test('can have a more specific type of JSON, and up to 5 KB', async () => {
    for (const document of [
      valid(200, { 'content-type': 'application/vnd.client+json; charset=utf-8' }),
      valid(200, {}, { filler: 'x'.repeat(4900) }),
    ])
      assert.deepEqual((await find(host.serve('/specific.json', document))).redirectUris, [callback]);
  });

  test('have a URL of up to 500 characters', async () => {
    const start = host.serve('/').length;
    for (const [length, isValid] of [
      [500, true],
      [501, false],
    ] as const) {
      const id = host.serve(`/${'x'.repeat(length - start)}`);
      assert.equal(id.length, length);
      if (isValid) assert.equal((await find(id)).id, id);
      else await assert.rejects(find(id), { message: /must be the URL of a client ID metadata document/ });
    }
  });

  test('are downloaded from the IP address to which their host name was resolved', async () => {
    const id = `http://app.example:${host.port}/named.json`;
    host.serve('/named.json', { client_id: id });
    const documents = clientDocuments(policy, async () => [{ address: '127.0.0.1', family: 4 }]);
    assert.equal((await documents.find(id)).host, 'app.example');
  });

  test('can have redirect URIs with a private-use scheme that belongs to their host', () => {
    const id = 'https://app.example.com/client.json';
    for (const uri of [
      'com.example.app:/callback',
      'com.example.app:/',
      'com.example.app.beta:/oauth/callback?client=crm',
    ])
      assert.deepEqual(clientOf(id, { redirect_uris: [uri] }, 'app.example.com').redirectUris, [uri]);
    for (const uri of [
      ...['com.example:/callback', 'com.example.other:/callback', 'com.example.apps:/callback'],
      ...[
        'com.example.app://callback',
        'com.example.app://evil.example/callback',
        'com.example.app:callback',
      ],
      ...['com.example.app:/callback#fragment', 'com.example.app:', 'COM.EXAMPLE.APP:/callback'],
      ...['app.example.com:/callback', 'com.example.app:/\\evil', 'com.example.app:/call back'],
      ...['com:/callback', 'example:/callback', 'javascript:/callback', 'com.example.app:/callb\u00e4ck'],
    ])
      assert.throws(
        () => clientOf(id, { redirect_uris: [uri] }, 'app.example.com'),
        { name: 'UserError' },
        uri,
      );
    const registered = { redirect_uris: ['com.example.app:/callback'] };
    assert.throws(() => clientOf('registered-x', registered), /https URLs, or http URLs on loopback$/);
  });

  test('that are slow are rejected after three seconds', async () => {
    const id = host.serve('/slow.json', (response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).write('{');
    });
    await assert.rejects(find(id), { name: 'UserError' });
  });

  test('must have a normalized https URL that the settings permit', async () => {
    const id = host.serve('/valid.json');
    const secure = { allow_private_addresses: false, allow_http: false, ports: [443] };
    const { port } = host;
    for (const [url, restrictions] of [
      [id, { ...policy(), allow_http: false }],
      [id, { ...policy(), allow_private_addresses: false }],
      [id, { ...policy(), ports: [443] }],
      ['', secure],
      ['client', secure],
      ['https://127.0.0.1/client.json', secure],
      ['https://[::ffff:127.0.0.1]/client.json', secure],
      ['https://10.0.0.1/client.json', secure],
      ['https://localhost/client.json', secure],
      ['https://169.254.169.254/client.json', { ...secure, allow_private_addresses: true }],
      [`http://127.0.0.1:${port}/a/../valid.json`, policy()],
      [`http://127.0.0.1:${port}/`, policy()],
      [`http://user@127.0.0.1:${port}/valid.json`, policy()],
      [`http://127.0.0.1:${port}/valid.json#fragment`, policy()],
      [`http://0x7f000001:${port}/valid.json`, policy()],
      [`http://127.0.0.1:${port}/${'x'.repeat(500)}`, policy()],
      ['file:///etc/passwd', policy()],
    ] as const) {
      const requests = host.requests(id);
      await assert.rejects(clientDocuments(() => restrictions).find(url), { name: 'UserError' }, url);
      assert.equal(host.requests(id), requests, url);
    }
  });

  test('are not downloaded from a host name with a private address among others', async () => {
    const addresses = [
      { address: '93.184.216.34', family: 4 },
      { address: '127.0.0.1', family: 4 },
    ];
    const restrictions = { ...policy(), allow_private_addresses: false };
    const documents = clientDocuments(
      () => restrictions,
      async () => addresses,
    );
    const id = `http://app.example:${host.port}/valid.json`;
    await assert.rejects(documents.find(id), ({ cause }) => /private IP address/.test(String(cause)));
  });

  /** Sends a document that never ends, until the client closes the connection. */
  function endless(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'application/json' });
    const send = () => {
      while (!response.destroyed && response.write(' '.repeat(1024))) {}
    };
    response.on('drain', send);
    send();
  }
});

for (const driver of drivers) {
  describe(`OAuth clients (${driver})`, () => {
    let instance: Instance;
    let host: ClientHost;
    let acme: Organization;
    let browser: Visitor;
    let settings: ReturnType<typeof settingsFile>;
    before(async () => {
      host = await startClientHost();
      settings = oauthSettings([host.port], { mcp: { registration: true } });
      instance = await startInstance(driver, { environment: settings.environment });
      acme = await instance.organization('acme');
      browser = await signIn(instance, administratorOf(acme));
    });
    after(async () => {
      await instance.close();
      await host.close();
    });
    const register = (body: object) => instance.call('POST /oauth/register', { body });

    test('a client that cannot be read is an error page, not a redirect', async () => {
      for (const id of [
        `http://127.0.0.1:${host.port}/missing.json`,
        'https://127.0.0.1/x',
        'registered-x',
        '',
      ]) {
        const { answer } = await openConsent(instance, browser, id);
        assert.deepEqual([answer.status, answer.headers.get('location')], [400, null]);
        assert.match(readable(answer.text), /client_id is not valid/);
      }
    });

    test('a client registers, and its redirect URI identifies it', async () => {
      const metadata = await instance.call('GET /.well-known/oauth-authorization-server');
      assert.equal(metadata.json.registration_endpoint, `${instance.url}/oauth/register`);
      const answer = await register({
        client_name: 'Bank of Trust',
        redirect_uris: [callback],
        logo_uri: 'x',
      });
      assert.equal(answer.status, 201, answer.text);
      const { client_id, client_id_issued_at, ...rest } = answer.json;
      assert.deepEqual(rest, {
        client_name: 'Bank of Trust',
        redirect_uris: [callback],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      });
      assert.ok(Math.abs(Number(client_id_issued_at) - Date.now() / 1000) < 3600, 'in seconds');
      const { answer: page } = await openConsent(instance, browser, String(client_id));
      assert.match(readable(page.text), /Connect 127\.0\.0\.1/);
      const { access: key } = await connect(instance, browser, String(client_id));
      assert.equal((await instance.call('GET /api/v1/leads', { key })).status, 200);
    });

    test('a native app gets the code through its private-use scheme', async () => {
      const redirect_uri = 'localhost.app:/callback';
      const id = `http://localhost:${host.port}/native.json`;
      host.serve('/native.json', {
        client_id: id,
        redirect_uris: [redirect_uri, 'http://127.0.0.1/callback'],
      });
      const { verifier, challenge } = pkce();
      const options = { challenge, changes: { redirect_uri } };
      const { answer } = await openConsent(instance, browser, id, options);
      assert.match(readable(answer.text), /You return to localhost\.app afterwards/);
      const policy = answer.headers.get('content-security-policy') ?? '';
      assert.match(policy, /form-action 'self' localhost\.app:(;|$)/);
      const consented = await decide(browser, answer);
      const location = consented.headers.get('location') ?? '';
      assert.ok(location.startsWith(`${redirect_uri}?code=`), location);
      const tokens = await post(instance, '/oauth/token', {
        ...{ grant_type: 'authorization_code', client_id: id, redirect_uri, code_verifier: verifier },
        code: new URL(location).searchParams.get('code') ?? '',
      });
      assert.equal(tokens.status, 200, tokens.text);
      for (const wrong of [
        ...['localhost.app:/callback/', 'localhost.app://callback', 'localhost.app:/callback?next=evil'],
        ...[
          'localhost.app:/',
          'localhost.other:/callback',
          'LOCALHOST.app:/callback',
          'localhost.app:/%63allback',
        ],
      ]) {
        const { answer: rejected } = await openConsent(instance, browser, id, {
          changes: { redirect_uri: wrong },
        });
        assert.deepEqual([rejected.status, rejected.headers.get('location')], [400, null], wrong);
      }
    });

    test('a native app gets the code on an IPv6 loopback address, which policies cannot name', async () => {
      const redirect_uri = 'http://[::1]:7/callback';
      const id = host.serve('/ipv6.json', { redirect_uris: ['http://[::1]/callback'] });
      const { answer } = await openConsent(instance, browser, id, { changes: { redirect_uri } });
      assert.match(readable(answer.text), /You return to \[::1\]:7 afterwards/);
      const policy = answer.headers.get('content-security-policy') ?? '';
      assert.match(policy, /form-action 'self' http:(;|$)/);
      const location = (await decide(browser, answer)).headers.get('location') ?? '';
      assert.ok(location.startsWith(`${redirect_uri}?code=`), location);
    });

    test('a registration chooses neither its ID nor how users see it', async () => {
      const document = host.serve('/victim.json');
      const answer = await register({
        ...{ client_id: document, client_uri: 'https://claude.ai', logo_uri: 'https://claude.ai/logo.png' },
        ...{ client_name: '<b>Claude</b>\u202e', redirect_uris: ['https://evil.example/callback'] },
        ...{ grant_types: ['client_credentials', 'password'], scope: 'admin', organization: acme.id },
      });
      assert.equal(answer.status, 201, answer.text);
      const id = String(answer.json.client_id);
      assert.match(id, /^registered-[\w-]{12}$/);
      const changes = { redirect_uri: 'https://evil.example/callback' };
      const { answer: page } = await openConsent(instance, browser, id, { changes });
      assert.match(readable(page.text), /evil\.example asks to read and change records/);
      assert.ok(!/<b>Claude|\u202e|claude\.ai/.test(page.text), page.text);
      const { answer: victim } = await openConsent(instance, browser, document, { changes });
      assert.equal(victim.status, 400, 'the client of the document has no further redirect URI');
      for (const grant_type of ['client_credentials', 'password', 'implicit']) {
        const token = await post(instance, '/oauth/token', { grant_type, client_id: id });
        assert.deepEqual([token.status, token.json.error], [400, 'unsupported_grant_type']);
      }
    });

    test('invalid and large registrations are rejected', async () => {
      for (const body of [
        {},
        { redirect_uris: ['http://app.example/'] },
        { redirect_uris: ['com.example.app:/callback'] },
        { redirect_uris: 'x' },
        [],
      ]) {
        const answer = await register(body);
        assert.equal(answer.status, 400, answer.text);
      }
      const large = await register({ redirect_uris: [callback], client_name: 'x'.repeat(6000) });
      assert.equal(large.status, 413);
    });

    test('a client that a user has allowed remains registered', async () => {
      const tables = tablesOf(instance.database);
      const idOf = async () => String((await register({ redirect_uris: [callback] })).json.client_id);
      const [allowed, other] = [await idOf(), await idOf()];
      const unnamed = await register({ redirect_uris: [callback], client_name: ' ' });
      assert.deepEqual([unnamed.status, Object.hasOwn(unnamed.json, 'client_name')], [201, false]);
      const { answer } = await openConsent(instance, browser, allowed);
      assert.doesNotMatch(readable(answer.text), /It calls itself/);
      await connect(instance, browser, allowed);
      const apps = await tables
        .selectFrom('crm_api_keys')
        .select('name')
        .where('client_id', '=', allowed)
        .execute();
      assert.deepEqual(apps, [{ name: '127.0.0.1' }], 'without a name of its own');
      await tables
        .updateTable('crm_oauth_clients')
        .set({ created_at: new Date(Date.now() - 2 * 86_400_000) })
        .where('id', 'in', [allowed, other])
        .execute();
      await clientsRetention(tables);
      const rows = await tables.selectFrom('crm_oauth_clients').select('id').execute();
      const ids = rows.map(({ id }) => id);
      assert.deepEqual([ids.includes(allowed), ids.includes(other)], [true, false]);
    });

    test('unused clients expire after a day, used ones after 90 days', async () => {
      const tables = tablesOf(instance.database);
      const idOf = async () => String((await register({ redirect_uris: [callback] })).json.client_id);
      const [unused, used, old] = [await idOf(), await idOf(), await idOf()];
      const ago = (days: number) => new Date(Date.now() - days * 86_400_000);
      for (const [id, last_used_at] of [
        [unused, null],
        [used, ago(89)],
        [old, ago(91)],
      ] as const)
        await tables
          .updateTable('crm_oauth_clients')
          .set({ created_at: ago(100), last_used_at })
          .where('id', '=', id)
          .execute();
      assert.equal(await clientsRetention(tables), 2);
      const rows = await tables.selectFrom('crm_oauth_clients').select('id').execute();
      const ids = rows.map(({ id }) => id);
      assert.deepEqual(
        [unused, used, old].map((id) => ids.includes(id)),
        [false, true, false],
      );
    });

    test('registrations are limited for each network and in total', async () => {
      await tablesOf(instance.database)
        .insertInto('crm_oauth_clients')
        .values(
          Array.from({ length: 1000 }, () => ({
            ...{ id: `registered-${pkce().challenge}`, name: '', redirect_uris: '[]', last_used_at: null },
          })),
        )
        .execute();
      const full = await register({ redirect_uris: [callback] });
      assert.equal(full.status, 429);
      await tablesOf(instance.database)
        .updateTable('crm_oauth_clients')
        .set({ last_used_at: new Date() })
        .where('redirect_uris', '=', '[]')
        .execute();
      const again = await register({ redirect_uris: [callback] });
      assert.equal(again.status, 201, 'used clients do not count');
      await tablesOf(instance.database).deleteFrom('crm_oauth_clients').execute();
      let status = 0;
      for (let count = 0; count < 21 && status !== 429; count++)
        ({ status } = await register({ redirect_uris: [callback] }));
      assert.equal(status, 429);
      const spoofed = await instance.call('POST /oauth/register', {
        body: { redirect_uris: [callback] },
        headers: { 'x-forwarded-for': '203.0.113.9', forwarded: 'for=203.0.113.9' },
      });
      assert.equal(spoofed.status, 429, 'a caller cannot claim to be in another network');
    });

    test('the issuer follows public_url', async () => {
      const issuer = async () =>
        (await instance.call('GET /.well-known/oauth-authorization-server')).json.issuer;
      for (const public_url of ['https://one.example', 'https://two.example']) {
        settings.write({ mcp: { registration: true }, public_url });
        await until(async () => (await issuer()) === public_url, 'the URL is in force');
      }
      settings.write({ mcp: { registration: true } });
      await until(async () => (await issuer()) === instance.url, 'no URL is set');
    });

    test('without the setting, clients cannot register, and registered clients cannot be used', async () => {
      const id = 'registered-kept';
      await tablesOf(instance.database)
        .insertInto('crm_oauth_clients')
        .values({ id, name: 'Kept', redirect_uris: JSON.stringify([callback]), last_used_at: new Date() })
        .execute();
      assert.equal((await openConsent(instance, browser, id)).answer.status, 200);
      settings.write({ mcp: true });
      await until(
        async () => (await register({ redirect_uris: [callback] })).status === 404,
        'registration is disabled',
      );
      assert.equal((await openConsent(instance, browser, id)).answer.status, 400);
      const metadata = await instance.call('GET /.well-known/oauth-authorization-server');
      assert.equal(Object.hasOwn(metadata.json, 'registration_endpoint'), false);
    });

    test('without mcp, everything is 404, and tokens are rejected', async () => {
      settings.write({
        mcp: true,
        events: { allow_private_addresses: true, allow_http: true, ports: [host.port] },
      });
      await until(
        async () => (await openConsent(instance, browser, host.serve('/c.json'))).answer.status === 200,
        'local documents can be read',
      );
      const { access: key } = await connect(instance, browser, host.serve('/c.json'));
      settings.write({ mcp: false });
      await until(
        async () => (await instance.call('GET /.well-known/oauth-authorization-server')).status === 404,
        'OAuth is disabled',
      );
      const form = { headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: 'a=b' };
      for (const path of ['/oauth/token', '/oauth/revoke'])
        assert.equal((await instance.call(`POST ${path}`, form)).status, 404, path);
      for (const path of ['/oauth/authorize', '/.well-known/oauth-protected-resource/mcp'])
        assert.equal((await instance.call(`GET ${path}`)).status, 404, path);
      assert.equal((await browser.get('/setup/connect')).status, 404);
      assert.equal((await instance.call('GET /api/v1/leads', { key })).status, 401);
    });
  });
}

describe('the issuer', () => {
  const issuerOf = async (settings: object, environment: Record<string, string>, host?: string) => {
    const instance = await startInstance('embedded', {
      environment: { ...settingsFile({ mcp: true, ...settings }).environment, ...environment },
    });
    try {
      const answer = await instance.call('GET /.well-known/oauth-authorization-server', {
        headers: host === undefined ? {} : { host },
      });
      return answer.status === 200 ? answer.json.issuer : answer.status;
    } finally {
      await instance.close();
    }
  };
  test('is public_url', async () => {
    assert.equal(
      await issuerOf({ public_url: 'https://crm.example/' }, { HOST: '0.0.0.0' }),
      'https://crm.example',
    );
  });
  test('is undefined without public_url, unless the instance listens on loopback', async () => {
    assert.equal(await issuerOf({}, { HOST: '0.0.0.0' }), 404);
    assert.equal(await issuerOf({}, {}, 'evil.example'), 404);
    assert.match(String(await issuerOf({}, {})), /^http:\/\/127\.0\.0\.1:\d+$/);
  });
  test('needs TLS, except on loopback', async () => {
    assert.equal(await issuerOf({ public_url: 'http://crm.example' }, {}), 404);
    assert.equal(
      await issuerOf({ public_url: 'http://localhost:3000/' }, { HOST: '0.0.0.0' }),
      'http://localhost:3000',
    );
  });
});
