// Attacks on OAuth that use a valid client, token or session for more than it allows. test/oauth/refusals.test.ts has invalid
// requests, and test/oauth/clients.test.ts attacks with documents and registrations of clients.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { SignJWT, UnsecuredJWT } from 'jose';
import { transaction } from '../../engine/tables/index.ts';
import { disableUser, findUserBy } from '../../plugins/access/identity/index.ts';
import { changeMember, removeMember } from '../../plugins/access/members/members.ts';
import { createProfile } from '../../plugins/access/profiles/profiles.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { failTool, sendMessage, useTool } from '../support/agents.ts';
import { administratorOf, formsOf, readable, signIn, visitor } from '../support/forms.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import {
  type ClientHost,
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
import { command, fresh, makePerson, soonerThan } from '../support/people.ts';
import { patientSignals } from '../support/promised.ts';

for (const driver of drivers) {
  describe(`attacks on OAuth (${driver})`, () => {
    patientSignals();
    let instance: Instance;
    let host: ClientHost;
    let acme: Organization;
    let beta: Organization;
    let client = '';
    before(async () => {
      host = await startClientHost();
      client = host.serve('/client.json');
      instance = await startInstance(driver, { environment: oauthSettings([host.port]).environment });
      acme = await instance.organization('acme');
      beta = await instance.organization('beta');
    });
    after(async () => {
      await instance.close();
      await host.close();
    });
    const admin = () => administratorOf(acme);
    const listTools = (key: string) => sendMessage(instance, key, { method: 'tools/list' });

    describe('a token of another organization', () => {
      test('does not reach records, whatever the request names', async () => {
        const body = { last_name: 'Beta' };
        const { id } = (await instance.call('POST /api/v1/leads', { key: beta.key, body })).json;
        const { access: key } = await connect(instance, admin(), client);
        for (const [tool, input] of [
          ['get', {}],
          ['update', { values: body }],
          ['delete', {}],
          ['history', {}],
        ] as const) {
          const failure = await failTool(instance, key, tool, { resource: 'leads', id, ...input });
          assert.equal(failure.code, 'not_found', tool);
        }
        const message = {
          ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
          params: { name: 'find', arguments: { resource: 'leads' } },
        };
        const found = await instance.call('POST /mcp?org=beta', { key, body: message });
        assert.ok(!found.text.includes('Beta'), found.text);
        for (const method of ['GET', 'PATCH', 'DELETE'])
          assert.equal(
            (await instance.call(`${method} /api/v1/leads/${id}?org=beta`, { key, body })).status,
            404,
            method,
          );
      });

      test('does not become one of the organization in the consent, if the user is not a member', async () => {
        const browser = await signIn(instance, admin());
        const { answer } = await openConsent(instance, browser, client);
        const rejected = await decide(browser, answer, { organization: 'beta' });
        assert.deepEqual([rejected.status, rejected.headers.get('location')], [400, null]);
      });
    });

    test('a token with another algorithm, type, issuer, audience or key is rejected by /mcp', async () => {
      const { refresh: refreshToken } = await connect(instance, admin(), client);
      const [organization = '', connection = ''] = refreshToken.split('.');
      const [key = Buffer.alloc(0)] = instanceSecrets(instance.config).keys('OAuth access tokens');
      const own = { iss: instance.url, aud: instance.url, typ: 'at+jwt' };
      const claims = { client_id: client, organization, connection, sub: acme.user, jti: 'id' };
      const token = ({ iss, aud, typ }: typeof own, secret = key) =>
        new SignJWT(claims)
          .setProtectedHeader({ alg: 'HS256', typ })
          .setIssuer(iss)
          .setAudience(aud)
          .setIssuedAt()
          .setExpirationTime('10m')
          .sign(secret);
      assert.equal((await listTools(await token(own))).status, 200, 'the test signs as the instance does');
      const unsecured = new UnsecuredJWT(claims)
        .setIssuer(own.iss)
        .setAudience(own.aud)
        .setIssuedAt()
        .setExpirationTime('10m');
      for (const [name, attempt] of [
        ['no algorithm', unsecured.encode()],
        ['another type', await token({ ...own, typ: 'JWT' })],
        ['another issuer', await token({ ...own, iss: 'https://other.example' })],
        ['the token of another instance', await token({ ...own, aud: 'https://other.example' })],
        ['another key', await token(own, Buffer.alloc(32))],
      ] as const)
        assert.equal((await listTools(attempt)).status, 401, name);
    });

    test('an access token does not open pages: they respond as without it', async () => {
      const { access: key } = await connect(instance, admin(), client);
      const told = async (path: string, options = {}) => {
        const { status, headers, text } = await instance.call(path, options);
        return [status, headers.get('location'), text.includes('Organization acme')];
      };
      for (const path of [
        ...['/', '/setup', '/setup/login', '/setup/me', '/setup/o/acme', '/setup/o/acme/keys'],
        ...[
          '/setup/connect',
          '/auth/me',
          '/auth/members',
          '/auth/sessions',
          '/events',
          '/events/subscriptions',
        ],
        ...['/fields/leads', '/metrics', '/docs/openapi.json?org=acme'],
      ])
        assert.deepEqual(await told(`GET ${path}`, { key }), await told(`GET ${path}`), path);
      for (const path of ['/auth/login', '/auth/logout', '/setup/login', '/setup/connect', '/oauth/token'])
        assert.deepEqual(
          (await told(`POST ${path}`, { key, body: {} }))[0],
          (await told(`POST ${path}`, { body: {} }))[0],
          path,
        );
    });

    describe('a confused deputy', () => {
      test('gets no code without a new consent, even if the user has allowed the client before', async () => {
        const browser = await signIn(instance, admin());
        await connect(instance, browser, client);
        for (const changes of [{}, { prompt: 'none' }]) {
          const { page, answer } = await openConsent(instance, browser, client, { changes });
          assert.equal(answer.status, 200);
          assert.ok(formsOf(answer).some(({ action }) => action === '/setup/connect'));
          // The browser does not submit the form for a link or an image.
          const again = await browser.get(`${page}&step=allow&organization=acme&expires=30`);
          assert.deepEqual([again.status, again.headers.get('location')], [200, null]);
        }
      });

      test('cannot exchange the request of a form for another client or redirect URI', async () => {
        const browser = await signIn(instance, admin());
        const evil = host.serve('/evil.json', { redirect_uris: ['https://evil.example/callback'] });
        const { answer } = await openConsent(instance, browser, client);
        const request =
          formsOf(answer).find(({ action }) => action === '/setup/connect')?.values.request ?? '';
        const changed = (changes: Readonly<Record<string, string>>) =>
          String(new URLSearchParams({ ...Object.fromEntries(new URLSearchParams(request)), ...changes }));
        for (const [attempt, status] of [
          [changed({ redirect_uri: 'https://evil.example/callback' }), 400],
          [changed({ client_id: evil }), 400],
          [changed({ resource: 'https://other.example/mcp' }), 400],
          [changed({ code_challenge_method: 'plain' }), 400],
          [`${request}&client_id=${encodeURIComponent(evil)}`, 400],
          ['', 400],
        ] as const) {
          const rejected = await decide(browser, answer, { request: attempt });
          assert.deepEqual([rejected.status, rejected.headers.get('location')], [status, null], attempt);
        }
        // A code for a client is worthless to the other, which does not have the verifier either.
        const { exchange } = await consent(instance, browser, client);
        for (const changes of [{ client_id: evil }, { client_id: evil, code_verifier: pkce().verifier }])
          assert.equal((await post(instance, '/oauth/token', { ...exchange, ...changes })).status, 400);
      });

      test('shows the host of the client and the host that gets the code', async () => {
        const browser = await signIn(instance, admin());
        const redirect_uri = 'https://evil.example/callback';
        const id = host.serve('/phishing.json', { client_name: 'Claude', redirect_uris: [redirect_uri] });
        const { answer } = await openConsent(instance, browser, id, { changes: { redirect_uri } });
        const text = readable(answer.text);
        assert.match(text, /127\.0\.0\.1 asks to read and change records/);
        assert.match(text, /It calls itself “Claude”/);
        assert.match(text, /You return to evil\.example/);
      });
    });

    describe('redirect tricks', () => {
      test('an invalid request never redirects to a redirect URI that is not the client’s', async () => {
        const browser = await signIn(instance, admin());
        for (const changes of [
          { response_type: 'token' },
          { code_challenge: undefined },
          { resource: 'https://other.example/mcp' },
          { response_mode: 'fragment' },
        ]) {
          const evil = { ...changes, redirect_uri: 'https://evil.example/callback' };
          const { answer } = await openConsent(instance, browser, client, { changes: evil });
          assert.deepEqual([answer.status, answer.headers.get('location')], [400, null]);
          assert.ok(!answer.text.includes('href="https://evil.example'));
        }
      });

      test('nothing redirects before the user has logged in', async () => {
        const { page, answer } = await openConsent(instance, visitor(instance), client, {
          changes: { response_type: 'token' },
        });
        assert.ok(page.startsWith('/setup/connect?'), page);
        assert.match(answer.headers.get('location') ?? '', /^\/setup\/login\?next=%2Fsetup%2Fconnect/);
      });

      test('the state returns unchanged and encoded, and is never part of a page or header', async () => {
        const browser = await signIn(instance, admin());
        const state = '"><script>alert(1)</script>\r\nSet-Cookie: a=b&code=stolen#x';
        const { answer } = await openConsent(instance, browser, client, { changes: { state } });
        assert.ok(!answer.text.includes('<script>alert'), 'the page has the state encoded');
        const denied = await decide(browser, answer, { step: 'deny' });
        assert.equal(denied.headers.get('set-cookie')?.includes('a=b') ?? false, false);
        const result = returned(denied);
        assert.deepEqual([...result.keys()], ['error', 'state', 'iss']);
        assert.equal(result.get('state'), state);
      });
    });

    describe('a refresh', () => {
      test('does not extend what the user has allowed', async () => {
        const connected = await connect(instance, admin(), client, { access: 'read-only' });
        const answer = await post(instance, '/oauth/token', {
          ...{ grant_type: 'refresh_token', client_id: client, refresh_token: connected.refresh },
          ...{ scope: 'write admin *', access: 'write', profile: '1', organization: beta.id },
        });
        const { access: key } = tokensIn(answer);
        const { code } = await failTool(instance, key, 'create', {
          resource: 'leads',
          values: { last_name: 'x' },
        });
        assert.equal(code, 'forbidden');
        assert.equal((await instance.call('POST /api/v1/leads', { key, body: {} })).status, 403);
      });

      test('for another instance is rejected, and the refresh token remains valid', async () => {
        const connected = await connect(instance, admin(), client);
        const rejected = await post(instance, '/oauth/token', {
          ...{ grant_type: 'refresh_token', client_id: client, refresh_token: connected.refresh },
          resource: 'https://other.example/mcp',
        });
        assert.deepEqual([rejected.status, rejected.json.error], [400, 'invalid_target']);
        tokensIn(await refresh(instance, client, connected));
      });

      test('by an attacker and by the client at the same time disconnects the app', async () => {
        const connected = await connect(instance, admin(), client);
        const answers = await sendBoth(instance, () => refresh(instance, client, connected));
        const refreshed = answers.filter(({ status }) => status === 200).map(tokensIn);
        assert.equal(refreshed.length, 1);
        for (const { access, refresh: next } of refreshed) {
          await soonerThan(1000, async () => (await listTools(access)).status === 401);
          assert.equal((await refresh(instance, client, { refresh: next })).status, 400);
        }
      });

      test('with an access token, a code or an API key is rejected', async () => {
        const { exchange, code } = await consent(instance, admin(), client);
        const { access } = tokensIn(await post(instance, '/oauth/token', exchange));
        for (const token of [access, code, acme.key]) {
          const rejected = await refresh(instance, client, { refresh: token });
          assert.deepEqual([rejected.status, rejected.json.error], [400, 'invalid_grant']);
        }
      });
    });

    describe('a user who loses access takes it from their apps within a second', () => {
      const connectMember = async () => {
        const person = await makePerson(instance, [{ organization: acme }]);
        const { access } = await connect(instance, person, client);
        await useTool(instance, access, 'find', { resource: 'leads' });
        return { person, access };
      };

      test('when they are disabled', async () => {
        const { person, access } = await connectMember();
        await transaction(instance.database, async (tables) =>
          disableUser(tables, command(instance), await findUserBy(tables, person.id)),
        );
        await soonerThan(1000, async () => (await listTools(access)).status === 401);
      });

      test('when they are removed from the organization', async () => {
        const { person, access } = await connectMember();
        await transaction(instance.database, (tables) =>
          removeMember(tables, command(instance), acme.id, person.id),
        );
        await soonerThan(1000, async () => (await listTools(access)).status === 401);
      });

      test('when they get a narrower profile', async () => {
        const { person, access } = await connectMember();
        await transaction(instance.database, async (tables) => {
          const grants = [{ object: 'cases', actions: ['list'] }] as const;
          const profile = await createProfile(tables, command(instance), acme.id, fresh('narrow'), grants);
          await changeMember(tables, command(instance), acme.id, person.id, profile);
        });
        const find = { method: 'tools/call', params: { name: 'find', arguments: { resource: 'leads' } } };
        await soonerThan(1000, async () =>
          (await sendMessage(instance, access, find)).text.includes('"code":"forbidden"'),
        );
        assert.equal((await instance.call('GET /api/v1/leads', { key: access })).status, 403);
        await useTool(instance, access, 'find', { resource: 'cases' });
      });
    });
  });
}
