// The authorization code flow: from the metadata to requests with an access token.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { tablesOf } from '../../engine/tables/index.ts';
import { administratorOf, problemOf, readable, signIn, visitor } from '../support/forms.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import {
  authorizeUrl,
  type ClientHost,
  callback,
  connect,
  consent,
  decide,
  oauthSettings,
  openConsent,
  pkce,
  post,
  refresh,
  returned,
  startClientHost,
  tokensIn,
} from '../support/oauth-client.ts';
import { makePerson } from '../support/people.ts';
import { patientSignals } from '../support/promised.ts';

for (const driver of drivers) {
  describe(`the authorization code flow (${driver})`, () => {
    patientSignals();
    let instance: Instance;
    let host: ClientHost;
    let acme: Organization;
    let beta: Organization;
    let client = '';
    before(async () => {
      host = await startClientHost();
      client = host.serve('/client.json');
      const { environment } = oauthSettings([host.port]);
      instance = await startInstance(driver, { environment });
      acme = await instance.organization('acme');
      beta = await instance.organization('beta');
    });
    after(async () => {
      await instance.close();
      await host.close();
    });

    test('the metadata names the endpoints', async () => {
      const { url } = instance;
      const server = await instance.call('GET /.well-known/oauth-authorization-server');
      assert.deepEqual(server.json, {
        issuer: url,
        authorization_endpoint: `${url}/oauth/authorize`,
        token_endpoint: `${url}/oauth/token`,
        revocation_endpoint: `${url}/oauth/revoke`,
        response_types_supported: ['code'],
        response_modes_supported: ['query'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
        revocation_endpoint_auth_methods_supported: ['none'],
        authorization_response_iss_parameter_supported: true,
        client_id_metadata_document_supported: true,
      });
      const resource = await instance.call('GET /.well-known/oauth-protected-resource/mcp');
      assert.deepEqual(resource.json, {
        resource: `${url}/mcp`,
        authorization_servers: [url],
        bearer_methods_supported: ['header'],
      });
    });

    test('the endpoints accept only their own methods', async () => {
      for (const [path, method, allow] of [
        ['/.well-known/oauth-authorization-server', 'POST', 'GET, HEAD, OPTIONS'],
        ['/.well-known/oauth-protected-resource/mcp', 'POST', 'GET, HEAD, OPTIONS'],
        ['/oauth/authorize', 'POST', 'GET, HEAD, OPTIONS'],
        ['/oauth/token', 'GET', 'POST, OPTIONS'],
        ['/oauth/revoke', 'GET', 'POST, OPTIONS'],
        ['/oauth/register', 'GET', 'POST, OPTIONS'],
      ] as const) {
        const answer = await instance.call(`${method} ${path}`);
        assert.deepEqual([answer.status, answer.headers.get('allow')], [405, allow], path);
      }
    });

    test('a user logs in, allows the client, and the client reads and writes as the user', async () => {
      const person = await makePerson(instance, [{ organization: acme }]);
      const browser = visitor(instance);
      const { verifier, challenge } = pkce();
      const start = await browser.get(authorizeUrl(instance, client, challenge));
      assert.equal(start.headers.get('cache-control'), 'no-store');
      const page = start.headers.get('location') ?? '';
      const login = (await browser.get(page)).headers.get('location') ?? '';
      assert.match(login, /^\/setup\/login\?next=/);
      const loggedIn = await browser.submit(login, '/setup/login', {
        email: person.email,
        password: person.password,
      });
      assert.equal(loggedIn.headers.get('location'), page, 'the login returns to the request');
      const answer = await browser.get(page);
      assert.equal(answer.status, 200, answer.text);
      assert.match(readable(answer.text), /Connect 127\.0\.0\.1/);
      assert.match(readable(answer.text), /calls itself “Assistant”/);

      assert.match(readable(answer.text), /<option value="propose" selected[^>]*>Read and propose</);

      const result = returned(await decide(browser, answer, { access: 'write' }));
      assert.equal(result.get('state'), 'state of the client');
      assert.equal(result.get('iss'), instance.url);
      const token = await post(instance, '/oauth/token', {
        ...{ grant_type: 'authorization_code', client_id: client, code: result.get('code') ?? '' },
        ...{ redirect_uri: callback, code_verifier: verifier, resource: `${instance.url}/mcp` },
      });
      assert.equal(token.headers.get('cache-control'), 'no-store');
      assert.equal(token.json.token_type, 'Bearer');
      assert.equal(token.json.expires_in, 600);
      const { access: key } = tokensIn(token);
      assert.deepEqual(decodeProtectedHeader(key), { alg: 'HS256', typ: 'at+jwt' });
      const { iss, aud, sub, client_id, organization, iat = 0, exp = 0 } = decodeJwt(key);
      assert.deepEqual(
        { iss, aud, sub, client_id, organization, seconds: exp - iat },
        {
          ...{ iss: instance.url, aud: instance.url, sub: person.id, client_id: client },
          ...{ organization: acme.id, seconds: 600 },
        },
      );

      const lead = await instance.call('POST /api/v1/leads', { key, body: { last_name: 'Lovelace' } });
      assert.equal(lead.status, 201, lead.text);
      assert.equal(lead.json.created_by_id, Number(person.id));
      const history = await instance.call(`GET /api/v1/leads/${lead.json.id}/history`, { key });
      const [{ actor }] = history.json.data as [{ actor: { kind: string; name: string } }];
      assert.equal(actor.kind, 'key');
      assert.equal(actor.name, `Assistant (127.0.0.1) on behalf of ${person.email}`);
    });

    test('a login returns to a request whatever its state contains', async () => {
      const person = administratorOf(acme);
      const state = "a*b ../..+c&d=e%2E.~'(f)!";
      const browser = visitor(instance);
      const { page, answer: start } = await openConsent(instance, browser, client, { changes: { state } });
      const login = start.headers.get('location') ?? '';
      const loggedIn = await browser.submit(login, '/setup/login', {
        email: person.email,
        password: person.password,
      });
      assert.equal(loggedIn.headers.get('location'), page);
      const denied = await decide(browser, await browser.get(page), { step: 'deny' });
      assert.equal(returned(denied).get('state'), state);
    });

    test('a refresh token is exchanged for new tokens', async () => {
      const first = await connect(instance, administratorOf(acme), client);
      const second = tokensIn(await refresh(instance, client, first));
      assert.notEqual(second.refresh, first.refresh);
      for (const { access: key } of [first, second])
        assert.equal((await instance.call('GET /api/v1/leads', { key })).status, 200);
    });

    test('a consent lasts as long as the user chooses, and no other key expires with it', async () => {
      const browser = await signIn(instance, administratorOf(acme));
      const tables = tablesOf(instance.database);
      const hoursOf = async (key: string) => {
        const { created_at, expires_at } = await tables
          .selectFrom('crm_api_keys')
          .select(['created_at', 'expires_at'])
          .where('organization_id', '=', acme.id)
          .where('id', '=', key)
          .executeTakeFirstOrThrow();
        return ((expires_at?.getTime() ?? Number.NaN) - created_at.getTime()) / 3_600_000;
      };
      const { answer } = await openConsent(instance, browser, client);
      const [, options = ''] = /<select[^>]* name="expires"[^>]*>(.*?)<\/select>/s.exec(answer.text) ?? [];
      assert.deepEqual(
        [...options.matchAll(/value="(\d+)"( selected)?/g)].map(([, days, selected]) => [
          Number(days),
          selected !== undefined,
        ]),
        [
          [1, false],
          [7, false],
          [30, true],
          [90, false],
        ],
      );
      const keys: string[] = [];
      for (const days of [1, 7, 30, 90]) {
        const { exchange, code } = await consent(instance, browser, client, { expires: String(days) });
        const [, key = ''] = code.split('.');
        assert.equal(Math.round((await hoursOf(key)) * 60), 1, 'in minutes, until the code is exchanged');
        const { created_at, code_expires_at } = await tables
          .selectFrom('crm_connected_apps')
          .select(['created_at', 'code_expires_at'])
          .where('organization_id', '=', acme.id)
          .where('key_id', '=', key)
          .executeTakeFirstOrThrow();
        assert.equal(
          Math.round((code_expires_at.getTime() - created_at.getTime()) / 60_000),
          1,
          'in minutes',
        );
        tokensIn(await post(instance, '/oauth/token', exchange));
        keys.push(key);
      }
      assert.deepEqual(
        await Promise.all(keys.map(async (key) => Math.round((await hoursOf(key)) / 24))),
        [1, 7, 30, 90],
      );
      const rows = await tables
        .selectFrom('crm_api_keys')
        .select('id')
        .where('organization_id', '=', acme.id)
        .where('client_id', 'is', null)
        .where('expires_at', 'is not', null)
        .execute();
      assert.deepEqual(rows, []);
    });

    test('no token outlasts the consent', async () => {
      const connected = await connect(instance, administratorOf(acme), client);
      const [organization = '', key = ''] = connected.refresh.split('.');
      const expireIn = (seconds: number) =>
        tablesOf(instance.database)
          .updateTable('crm_connected_apps')
          .set({ expires_at: new Date(Date.now() + seconds * 1000) })
          .where('organization_id', '=', organization)
          .where('key_id', '=', key)
          .execute();
      await expireIn(100);
      const answer = await refresh(instance, client, connected);
      const { expires_in } = answer.json as { expires_in: number };
      assert.ok(expires_in <= 100 && expires_in > 0, answer.text);
      const next = tokensIn(answer);
      const { iat = 0, exp = 0 } = decodeJwt(next.access);
      assert.equal(exp - iat, expires_in);
      await expireIn(-1);
      const rejected = await refresh(instance, client, next);
      assert.deepEqual([rejected.status, rejected.json.error], [400, 'invalid_grant']);
    });

    test('a refresh does not affect another app of the organization', async () => {
      const [one, other] = [
        await connect(instance, administratorOf(acme), client),
        await connect(instance, administratorOf(acme), client),
      ];
      tokensIn(await refresh(instance, client, one));
      tokensIn(await refresh(instance, client, other));
    });

    test('the resource can be the origin, the URL of the MCP endpoint or missing', async () => {
      const browser = await signIn(instance, administratorOf(acme));
      const { url } = instance;
      for (const resource of [url, `${url}/`, `${url}/mcp`, undefined]) {
        const { answer } = await openConsent(instance, browser, client, { changes: { resource } });
        assert.equal(answer.status, 200, resource);
        const { exchange } = await consent(instance, browser, client);
        const { resource: _, ...rest } = exchange;
        tokensIn(await post(instance, '/oauth/token', { ...rest, resource }));
      }
    });

    test('the result is added to the query string of the redirect URI, without a state if the client sent none', async () => {
      const browser = await signIn(instance, administratorOf(acme));
      const redirect_uri = 'https://app.example/callback?tenant=1';
      const id = host.serve('/tenant.json', { redirect_uris: [redirect_uri] });
      for (const [state, added] of [
        [undefined, ''],
        ['', '&state='],
      ] as const) {
        const { answer } = await openConsent(instance, browser, id, { changes: { redirect_uri, state } });
        const denied = await decide(browser, answer, { step: 'deny' });
        assert.equal(
          denied.headers.get('location'),
          `${redirect_uri}&error=access_denied${added}&iss=${encodeURIComponent(instance.url)}`,
        );
      }
    });

    test('a member of several organizations chooses one', async () => {
      const person = await makePerson(instance, [{ organization: acme }, { organization: beta }]);
      const browser = await signIn(instance, person);
      const { answer } = await openConsent(instance, browser, client);
      const [, options = ''] =
        /<select[^>]* name="organization"[^>]*>(.*?)<\/select>/s.exec(answer.text) ?? [];
      assert.deepEqual(
        [...options.matchAll(/value="([^"]*)"/g)].map(([, slug]) => slug),
        ['acme', 'beta'],
      );
      assert.doesNotMatch(answer.text, / name="(?:profile|access|expires)"/);
      const next = await decide(browser, answer, { step: 'organization', organization: 'beta' });
      assert.equal(next.status, 200, problemOf(next));
      const code = returned(await decide(browser, next)).get('code') ?? '';
      assert.ok(code.startsWith(`${beta.id}.`), code);
    });

    test('a code is exchanged without the redirect URI, which OAuth 2.1 omits', async () => {
      const { exchange } = await consent(instance, administratorOf(acme), client);
      tokensIn(await post(instance, '/oauth/token', { ...exchange, redirect_uri: undefined }));
    });

    test('a client that is denied gets no code', async () => {
      const browser = await signIn(instance, administratorOf(acme));
      const { answer } = await openConsent(instance, browser, client);
      const result = returned(await decide(browser, answer, { step: 'deny' }));
      assert.deepEqual(
        [...result],
        [
          ['error', 'access_denied'],
          ['state', 'state of the client'],
          ['iss', instance.url],
        ],
      );
    });

    test('a read-only app cannot write', async () => {
      const { access: key } = await connect(instance, administratorOf(acme), client, { access: 'read-only' });
      assert.equal((await instance.call('GET /api/v1/leads', { key })).status, 200);
      assert.equal((await instance.call('POST /api/v1/leads', { key, body: {} })).status, 403);
    });

    test('consent to an unknown access is rejected', async () => {
      const browser = await signIn(instance, administratorOf(acme));
      const { answer } = await openConsent(instance, browser, client);
      const rejected = await decide(browser, answer, { access: 'all', expires: '7' });
      assert.equal(rejected.status, 400);
      assert.equal(problemOf(rejected), 'choose what the app can do');
      assert.match(rejected.text, /<option value="7" selected/, 'the form keeps the other values');
    });
  });
}
