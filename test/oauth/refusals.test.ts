// Requests that are refused: wrong verifiers, replayed codes and refresh tokens, redirects, and tokens of other kinds.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { SignJWT, UnsecuredJWT } from 'jose';
import { tablesOf, transaction } from '../../engine/tables/index.ts';
import { disableUser, enableUser, findUserBy, tokens } from '../../plugins/access/identity/index.ts';
import { removeMember } from '../../plugins/access/members/members.ts';
import { accessTokens } from '../../plugins/access/oauth/access-tokens.ts';
import { createProfile } from '../../plugins/access/profiles/profiles.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { administratorOf, formsOf, readable, signIn, type Visitor } from '../support/forms.ts';
import {
  type Answer,
  drivers,
  type Instance,
  type Organization,
  startInstance,
} from '../support/instance.ts';
import {
  authorizeUrl,
  type Changes,
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
  sendBoth,
  startClientHost,
  tokensIn,
} from '../support/oauth-client.ts';
import { command, dump, logIn, makePerson, secondNode, soonerThan } from '../support/people.ts';
import { patientSignals } from '../support/promised.ts';

for (const driver of drivers) {
  describe(`refused OAuth requests (${driver})`, () => {
    patientSignals();
    let instance: Instance;
    let host: ClientHost;
    let acme: Organization;
    let beta: Organization;
    let client = '';
    let otherClient = '';
    before(async () => {
      host = await startClientHost();
      client = host.serve('/client.json');
      otherClient = host.serve('/other.json');
      const { environment } = oauthSettings([host.port]);
      instance = await startInstance(driver, { environment });
      acme = await instance.organization('acme');
      beta = await instance.organization('beta');
    });
    after(async () => {
      await instance.close();
      await host.close();
    });
    const admin = () => administratorOf(acme);
    const listLeads = (key: string) => instance.call('GET /api/v1/leads', { key });
    const assertRejected = (answer: Answer, error = 'invalid_grant') => {
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.json.error, error);
      assert.equal(answer.headers.get('cache-control'), 'no-store');
    };

    describe('the token endpoint', () => {
      for (const [name, changes, error] of [
        ['a wrong verifier', { code_verifier: pkce().verifier }, 'invalid_grant'],
        ['no verifier', { code_verifier: undefined }, 'invalid_request'],
        ['another redirect URI', { redirect_uri: `${callback}/` }, 'invalid_grant'],
        [
          'the same redirect URI with another port',
          { redirect_uri: callback.replace(':7/', ':8/') },
          'invalid_grant',
        ],
        ['no client', { client_id: undefined }, 'invalid_request'],
        ['an unknown code', { code: `1.1.${pkce().verifier}` }, 'invalid_grant'],
        ['a malformed code', { code: '1.1' }, 'invalid_grant'],
        ['an ID out of range', { code: `${'9'.repeat(19)}.1.${pkce().verifier}` }, 'invalid_grant'],
        ['another resource', { resource: 'https://other.example/mcp' }, 'invalid_target'],
        ['another grant type', { grant_type: 'password' }, 'unsupported_grant_type'],
        ['no grant type', { grant_type: undefined }, 'invalid_request'],
      ] satisfies readonly (readonly [string, Changes, string])[]) {
        test(`rejects ${name}, and the code remains valid`, async () => {
          const { exchange } = await consent(instance, admin(), client);
          assertRejected(await post(instance, '/oauth/token', { ...exchange, ...changes }), error);
          tokensIn(await post(instance, '/oauth/token', exchange));
        });
      }

      test("rejects another client's code, and another code for the same consent", async () => {
        const { exchange, code } = await consent(instance, admin(), client);
        assertRejected(await post(instance, '/oauth/token', { ...exchange, client_id: otherClient }));
        const forged = code.replace(/[^.]+$/, pkce().verifier);
        assertRejected(await post(instance, '/oauth/token', { ...exchange, code: forged }));
        tokensIn(await post(instance, '/oauth/token', exchange));
      });

      test('rejects repeated parameters and other content types', async () => {
        const { exchange } = await consent(instance, admin(), client);
        const form = 'application/x-www-form-urlencoded';
        const repeated = await instance.call('POST /oauth/token', {
          headers: { 'content-type': form },
          body: `${new URLSearchParams(exchange)}&client_id=${encodeURIComponent(client)}`,
        });
        assertRejected(repeated, 'invalid_request');
        assertRejected(await instance.call('POST /oauth/token', { body: exchange }), 'invalid_request');
      });

      test('rejects large forms with the status of the API in the format of OAuth', async () => {
        for (const path of ['/oauth/token', '/oauth/revoke']) {
          const answer = await post(instance, path, { client_id: client, token: 'x'.repeat(17_000) });
          assert.deepEqual([answer.status, answer.json.error], [413, 'invalid_request'], path);
          assert.equal(answer.headers.get('cache-control'), 'no-store');
        }
      });

      test('a code that is used again revokes its tokens', async () => {
        const { exchange } = await consent(instance, admin(), client);
        const { access, refresh: refreshToken } = tokensIn(await post(instance, '/oauth/token', exchange));
        assert.equal((await listLeads(access)).status, 200);
        assertRejected(await post(instance, '/oauth/token', exchange));
        await soonerThan(1000, async () => (await listLeads(access)).status === 401);
        assertRejected(await refresh(instance, client, { refresh: refreshToken }));
      });

      test('concurrent requests exchange a code once, and revoke its tokens', async () => {
        const { exchange } = await consent(instance, admin(), client);
        const answers = await sendBoth(instance, () => post(instance, '/oauth/token', exchange));
        const connected = answers.filter(({ status }) => status === 200).map(tokensIn);
        assert.equal(connected.length, 1);
        for (const { access } of connected)
          await soonerThan(1000, async () => (await listLeads(access)).status === 401);
      });

      test('an expired code is rejected', async () => {
        const { exchange, code } = await consent(instance, admin(), client);
        const [organization = '', key = ''] = code.split('.');
        await tablesOf(instance.database)
          .updateTable('crm_connected_apps')
          .set({ code_expires_at: new Date(Date.now() - 1) })
          .where('organization_id', '=', organization)
          .where('key_id', '=', key)
          .execute();
        assertRejected(await post(instance, '/oauth/token', exchange));
      });

      test('a refresh token that is used again revokes the app', async () => {
        const first = await connect(instance, admin(), client);
        const second = tokensIn(await refresh(instance, client, first));
        assertRejected(await refresh(instance, client, first));
        assertRejected(await refresh(instance, client, second));
        await soonerThan(1000, async () => (await listLeads(second.access)).status === 401);
      });

      test("another client's refresh token is rejected, and remains valid", async () => {
        const connected = await connect(instance, admin(), client);
        assertRejected(await refresh(instance, otherClient, connected));
        tokensIn(await refresh(instance, client, connected));
      });

      test('a forged refresh token does not revoke the app', async () => {
        const connected = await connect(instance, admin(), client);
        const [organization, key, , signature] = connected.refresh.split('.');
        for (const forged of [
          `${organization}.${key}.${pkce().verifier}`,
          `${organization}.${key}.${pkce().verifier}.${signature}`,
          `${organization}.${key}`,
          connected.access,
        ])
          assertRejected(await refresh(instance, client, { refresh: forged }));
        tokensIn(await refresh(instance, client, connected));
      });
    });

    test('wrong tokens are limited for each network, and unreadable clients for each user', async () => {
      const node = await secondNode(instance);
      try {
        const send = () => refresh(node, client, { refresh: 'wrong' });
        for (let count = 0; count < 100; count++) assertRejected(await send());
        const limited = await send();
        assert.equal(limited.status, 429);
        assert.match(limited.headers.get('retry-after') ?? '', /^\d+$/);

        const [browser, other] = [
          await signIn(node, await makePerson(instance, [{ organization: acme }])),
          await signIn(node, await makePerson(instance, [{ organization: acme }])),
        ];
        const statusFor = async (by: Visitor, id: string) => (await openConsent(node, by, id)).answer.status;
        for (let count = 0; count < 30; count++) assert.equal(await statusFor(browser, 'wrong'), 400);
        assert.deepEqual([await statusFor(browser, client), await statusFor(other, client)], [429, 200]);
      } finally {
        await node.close();
      }
    });

    test('codes and tokens are only stored as hashes', async () => {
      const { exchange, code } = await consent(instance, admin(), client);
      const { access, refresh: refreshToken } = tokensIn(await post(instance, '/oauth/token', exchange));
      const all = await dump(instance);
      for (const secret of [code, access, refreshToken]) {
        assert.ok(!all.includes(secret));
        assert.ok(!all.includes(secret.split('.')[2] ?? ''));
      }
    });

    describe('the authorization request', () => {
      let browser: Visitor;
      before(async () => {
        browser = await signIn(instance, admin());
      });

      for (const [name, changes, error] of [
        ['plain PKCE', { code_challenge_method: 'plain' }, 'invalid_request'],
        ['no PKCE method', { code_challenge_method: undefined }, 'invalid_request'],
        ['no challenge', { code_challenge: undefined }, 'invalid_request'],
        ['a short challenge', { code_challenge: 'abc' }, 'invalid_request'],
        ['a long challenge', { code_challenge: 'x'.repeat(44) }, 'invalid_request'],
        ['a challenge in base64', { code_challenge: `${'x'.repeat(42)}+` }, 'invalid_request'],
        ['the implicit flow', { response_type: 'token' }, 'unsupported_response_type'],
        ['a fragment response', { response_mode: 'fragment' }, 'invalid_request'],
        ['a form response', { response_mode: 'form_post' }, 'invalid_request'],
        ['another resource', { resource: 'https://other.example/mcp' }, 'invalid_target'],
        ['a resource below', { resource: 'http://127.0.0.1/mcp' }, 'invalid_target'],
      ] satisfies readonly (readonly [string, Changes, string])[]) {
        test(`${name} returns an error to the client`, async () => {
          const { answer } = await openConsent(instance, browser, client, { changes });
          const result = returned(answer);
          assert.equal(result.get('error'), error);
          assert.equal(result.get('state'), 'state of the client');
          assert.equal(result.get('iss'), instance.url);
          assert.equal(result.get('code'), null);
        });
      }

      const registered = 'https://app.example/callback';
      const tricks = [
        ...['//evil.example', 'https://evil.example/callback', 'https://app.example.evil.example/callback'],
        ...['https://user@app.example/callback', 'https://app.example@evil.example/callback'],
        ...[
          'https://app.example:8443/callback',
          'http://app.example/callback',
          'https://app.example/callback/',
        ],
        ...['https://app.example/callback/../evil', 'https://app.example/callback/%2e%2e/evil'],
        ...['https://app.example/callback?next=evil', 'https://app.example/callback#fragment'],
        ...['https://app.example', 'https://APP.example/callback', 'https:app.example/callback'],
        ...[
          'https://app.example\\@evil.example/callback',
          'https://app.example/callback\n',
          'javascript:alert(1)',
        ],
        ...['data:text/html,evil', 'http://127.0.0.1.evil.example:7/native', 'http://127.0.0.2:7/native'],
        ...['http://user@127.0.0.1:7/native', 'http://127.0.0.1:7/native/', 'http://localhost:7/native', ''],
        ...['http://127.0.0.1:7@evil.example/native', 'http://0x7f000001:7/native'],
        'http://127.0.0.1:99999/native',
      ];
      for (const redirect_uri of [...tricks, undefined]) {
        test(`the redirect URI ${JSON.stringify(redirect_uri)} is an error page, not a redirect`, async () => {
          const redirect_uris = [registered, 'http://127.0.0.1/native'];
          const id = host.serve('/tricks.json', { redirect_uris });
          const { answer } = await openConsent(instance, browser, id, { changes: { redirect_uri } });
          assert.equal(answer.status, 400);
          assert.equal(answer.headers.get('location'), null);
          assert.match(readable(answer.text), /is not one of the redirect URIs of the client/);
        });
      }

      test('a native app on loopback listens on any port', async () => {
        const redirect_uris = [registered, 'http://127.0.0.1/native'];
        const id = host.serve('/tricks.json', { redirect_uris });
        for (const redirect_uri of ['http://127.0.0.1:54321/native', registered]) {
          const { answer } = await openConsent(instance, browser, id, { changes: { redirect_uri } });
          assert.equal(answer.status, 200, answer.text);
          returned(await decide(browser, answer, { step: 'deny' }), redirect_uri);
        }
      });

      test('repeated parameters and long requests are error pages', async () => {
        const { challenge } = pkce();
        for (const url of [
          `${authorizeUrl(instance, client, challenge)}&state=again`,
          `${authorizeUrl(instance, client, challenge)}&redirect_uri=https%3A%2F%2Fevil.example`,
        ]) {
          const page = (await browser.get(url)).headers.get('location') ?? '';
          const answer = await browser.get(page);
          assert.deepEqual([answer.status, answer.headers.get('location')], [400, null]);
        }
        const long = await browser.get(
          authorizeUrl(instance, client, challenge, { state: 'x'.repeat(2000) }),
        );
        assert.deepEqual([long.status, long.headers.get('location')], [400, null]);
      });
    });

    describe('the consent page', () => {
      test('cannot be framed, and its form can only lead to this origin and the client', async () => {
        const { answer } = await openConsent(instance, await signIn(instance, admin()), client);
        assert.equal(answer.headers.get('x-frame-options'), 'DENY');
        const policy = answer.headers.get('content-security-policy') ?? '';
        assert.match(policy, /frame-ancestors 'none'/);
        assert.match(policy, /form-action 'self' http:\/\/127\.0\.0\.1:7(;|$)/);
        assert.equal(answer.headers.get('cache-control'), 'no-store');
      });

      test('rejects forms without a token, of another session and from another site', async () => {
        const browser = await signIn(instance, admin());
        const { answer } = await openConsent(instance, browser, client);
        const form = formsOf(answer).find(({ action }) => action === '/setup/connect');
        assert.ok(form);
        const fields = { ...form.values, step: 'allow' };
        const otherBrowser = await signIn(instance, admin());
        const { answer: otherPage } = await openConsent(instance, otherBrowser, client);
        for (const rejected of [
          await browser.post('/setup/connect', { ...fields, _csrf: '' }),
          await browser.post('/setup/connect', {
            ...fields,
            _csrf: formsOf(otherPage)[0]?.values._csrf ?? '',
          }),
          await browser.post('/setup/connect', fields, { 'sec-fetch-site': 'cross-site' }),
        ])
          assert.deepEqual([rejected.status, rejected.headers.get('location')], [403, null]);
      });

      test('offers only profiles and organizations of the user', async () => {
        const member = await makePerson(instance, [
          { organization: acme, grants: [{ object: 'leads', actions: ['list'] }] },
        ]);
        await transaction(instance.database, (tables) =>
          createProfile(tables, command(instance), acme.id, 'a profile without grants', []),
        );
        const browser = await signIn(instance, member);
        const { answer } = await openConsent(instance, browser, client);
        assert.ok(!answer.text.includes('>administrator'), answer.text);
        const [, options = ''] = /<select[^>]* name="profile"[^>]*>(.*?)<\/select>/s.exec(answer.text) ?? [];
        const [first, ...profiles] = [
          ...options.matchAll(/<option value="\d+"( selected)?[^>]*>([^<]*)</g),
        ].map(([, selected, name = '']) => ({ name, isSelected: selected !== undefined }));
        assert.deepEqual(first, { name: 'a profile without grants', isSelected: false });
        const [selected, ...others] = profiles.filter(({ isSelected }) => isSelected);
        assert.deepEqual(others, []);
        assert.match(String(selected?.name), /^profile-\d+ \(yours\)$/);
        const administrator = await tablesOf(instance.database)
          .selectFrom('crm_profiles')
          .select('id')
          .where('organization_id', '=', acme.id)
          .where('name', '=', 'administrator')
          .executeTakeFirstOrThrow();
        for (const fields of [
          { profile: administrator.id },
          { organization: 'beta' },
          { expires: '3650' },
          { profile: '' },
        ]) {
          const rejected = await decide(browser, answer, fields);
          assert.deepEqual([rejected.status, rejected.headers.get('location')], [400, null]);
        }
        const { access: key } = await connect(instance, browser, client);
        assert.equal((await listLeads(key)).status, 200);
        assert.equal((await instance.call('POST /api/v1/leads', { key, body: {} })).status, 403);
      });

      test('shows the name of a client as text', async () => {
        const id = host.serve('/markup.json', { client_name: '<img src=x onerror=alert(1)>\u202e' });
        const { answer } = await openConsent(instance, await signIn(instance, admin()), id);
        assert.ok(!answer.text.includes('<img src=x'));
        assert.ok(!answer.text.includes('\u202e'));
      });
    });

    describe('access tokens', () => {
      test('are rejected by /auth, /events, /docs and /setup', async () => {
        const { access } = await connect(instance, admin(), client);
        for (const path of ['/auth/me', '/auth/permissions', '/auth/members', '/auth/sessions', '/events'])
          assert.equal((await instance.call(`GET ${path}`, { key: access })).status, 401, path);
        assert.equal((await instance.call('POST /auth/logout', { key: access })).status, 401);
        const setup = await instance.call('GET /setup/me', { key: access });
        assert.match(setup.headers.get('location') ?? '', /^\/setup\/login/);
      });

      test('do not reveal other organizations, whatever ?org= says', async () => {
        const lead = await instance.call('POST /api/v1/leads', {
          key: beta.key,
          body: { last_name: 'Beta' },
        });
        const { access: key } = await connect(instance, admin(), client);
        const answer = await instance.call(`GET /api/v1/leads/${lead.json.id}?org=beta`, { key });
        assert.equal(answer.status, 404);
      });

      test('are not logins, and logins are not access tokens', async () => {
        const secrets = instanceSecrets(instance.config);
        const login = await logIn(instance, admin());
        assert.equal(await accessTokens(secrets).verify(instance.url, login.token), undefined);
        const { access } = await connect(instance, admin(), client);
        assert.equal(await tokens(secrets).verify(access), undefined);
      });

      test('need the signature, the algorithm, the type, the issuer and the audience of this instance', async () => {
        const { access, refresh: refreshToken } = await connect(instance, admin(), client);
        const [organization = '', connection = ''] = refreshToken.split('.');
        const { url } = instance;
        const claims = { client_id: client, organization, connection };
        const [key = Buffer.alloc(0)] = instanceSecrets(instance.config).keys('OAuth access tokens');
        const signed = ({
          iss = url,
          aud = url,
          sub = acme.user,
          typ = 'at+jwt',
          alg = 'HS256',
          exp = '10m',
          ...more
        } = {}) =>
          new SignJWT({ ...claims, ...more })
            .setProtectedHeader({ alg, typ })
            .setIssuer(iss)
            .setAudience(aud)
            .setSubject(sub)
            .setJti('id')
            .setIssuedAt()
            .setExpirationTime(exp);
        assert.equal(
          (await listLeads(await signed().sign(key))).status,
          200,
          'the test signs as the instance does',
        );
        const unsecured = new UnsecuredJWT({ ...claims, jti: 'id' })
          .setIssuer(url)
          .setAudience(url)
          .setSubject(acme.user)
          .setIssuedAt()
          .setExpirationTime('10m')
          .encode();
        for (const [name, token] of [
          ['no algorithm', unsecured],
          ['another algorithm', await signed({ alg: 'HS512' }).sign(Buffer.concat([key, key]))],
          ['another key', await signed().sign(Buffer.alloc(32))],
          ['another type', await signed({ typ: 'JWT' }).sign(key)],
          ['another issuer', await signed({ iss: 'https://other.example' }).sign(key)],
          ['another audience', await signed({ aud: 'https://other.example' }).sign(key)],
          ['another user', await signed({ sub: beta.user }).sign(key)],
          ['an expired token', await signed({ exp: '-1m' }).sign(key)],
          ['a changed payload', access.replace(/\.[^.]+\./, (payload) => `${payload.slice(0, -2)}A.`)],
          ['a token without a signature', access.replace(/[^.]+$/, '')],
        ] as const)
          assert.equal((await listLeads(token)).status, 401, name);
        const others: Readonly<Record<string, string>>[] = [
          { client_id: otherClient },
          { organization: beta.id },
          { connection: '999999' },
        ];
        for (const change of others)
          assert.equal((await listLeads(await signed(change).sign(key))).status, 401, JSON.stringify(change));
      });

      test('an API key is not an access token of a connection', async () => {
        const { id } = await acme.makeKey();
        const claims = { organization: acme.id, key: id, user: acme.user, client };
        const token = await accessTokens(instanceSecrets(instance.config)).sign(instance.url, claims, 60);
        assert.equal((await listLeads(token)).status, 401);
      });
    });

    describe('the access ends within a second', () => {
      const connectPerson = async () => {
        const person = await makePerson(instance, [{ organization: acme }]);
        const connected = await connect(instance, person, client);
        assert.equal((await listLeads(connected.access)).status, 200);
        return { person, connected };
      };
      const hasEnded = async (connected: { access: string; refresh: string }) => {
        await soonerThan(1000, async () => (await listLeads(connected.access)).status === 401);
        assertRejected(await refresh(instance, client, connected));
      };

      test('when the client revokes its refresh token or access token', async () => {
        for (const kind of ['refresh', 'access'] as const) {
          const { connected } = await connectPerson();
          const token = connected[kind];
          const other = await post(instance, '/oauth/revoke', { token, client_id: otherClient });
          assert.equal(other.status, 200);
          assert.equal((await listLeads(connected.access)).status, 200, 'another client revokes nothing');
          const answer = await post(instance, '/oauth/revoke', { token, client_id: client });
          assert.equal(answer.status, 200, answer.text);
          await hasEnded(connected);
        }
        const unknown = await post(instance, '/oauth/revoke', { token: 'unknown', client_id: client });
        assert.equal(unknown.status, 200);
      });

      test('when the client revokes a former refresh token, but not a forged one or an unused code', async () => {
        const { person, connected } = await connectPerson();
        const { exchange, code } = await consent(instance, person, client);
        const [organization, key, secret, signature] = connected.refresh.split('.');
        for (const token of [
          code,
          `${organization}.${key}.${pkce().verifier}`,
          `${organization}.${key}.${pkce().verifier}.${signature}`,
          `${organization}.${key}.${secret}.${pkce().verifier}`,
        ])
          assert.equal((await post(instance, '/oauth/revoke', { token, client_id: client })).status, 200);
        tokensIn(await post(instance, '/oauth/token', exchange));
        const next = tokensIn(await refresh(instance, client, connected));
        const token = connected.refresh;
        assert.equal((await post(instance, '/oauth/revoke', { token, client_id: client })).status, 200);
        await hasEnded(next);
      });

      test('when the user is disabled, until they are enabled', async () => {
        const { person, connected } = await connectPerson();
        const { exchange } = await consent(instance, person, client);
        const actor = command(instance);
        await transaction(instance.database, async (tables) =>
          disableUser(tables, actor, await findUserBy(tables, person.id)),
        );
        await soonerThan(1000, async () => (await listLeads(connected.access)).status === 401);
        assertRejected(await refresh(instance, client, connected));
        assertRejected(await post(instance, '/oauth/token', exchange));
        await transaction(instance.database, async (tables) =>
          enableUser(tables, actor, await findUserBy(tables, person.id)),
        );
        await soonerThan(1000, async () => (await listLeads(connected.access)).status === 200);
        tokensIn(await refresh(instance, client, connected));
        tokensIn(await post(instance, '/oauth/token', exchange));
      });

      test('when the member is removed', async () => {
        const { person, connected } = await connectPerson();
        await transaction(instance.database, (tables) =>
          removeMember(tables, command(instance), acme.id, person.id),
        );
        await hasEnded(connected);
      });
    });
  });
}
