// `crm doctor` checks the discovery documents of OpenID Connect providers.
import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { discoveryIssue, providersCheck } from '../../../plugins/access/openid-connect/check.ts';
import { isAvailable } from '../../../plugins/access/openid-connect/providers.ts';
import { type OpenIdProvider, startProvider } from '../../support/openid-provider.ts';
import { patienceMs } from '../../support/promised.ts';

describe('doctor checks OpenID Connect providers', () => {
  let idp: OpenIdProvider;
  let issuer = '';
  let respond: (response: ServerResponse) => void;
  const requests: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url);
    respond(response);
  });
  before(async () => {
    idp = await startProvider();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(async () => {
    await idp.close();
    server.closeAllConnections();
    server.close();
  });
  const settings = (url: string) => ({
    name: 'Example',
    issuer: url,
    client_id: 'crm',
    client_secret: 'the-secret-of-the-client',
  });
  const whole = () => ({
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
  });
  const json = (body: unknown) => (response: ServerResponse) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));

  test('accepts a working provider, and reports one that responds 503', async () => {
    assert.equal(
      await discoveryIssue(settings(idp.issuer), patienceMs / 1000),
      `${idp.issuer} responded with 503 to the request for its discovery document`,
    );
    await idp.serve('http://127.0.0.1/callback');
    assert.equal(await discoveryIssue(settings(idp.issuer), patienceMs / 1000), undefined);
  });

  const silent = 'no response';
  const faults: Readonly<Record<string, readonly [(response: ServerResponse) => void, says: () => string]>> =
    {
      'a missing document': [
        (response) => response.writeHead(404).end('the-secret-of-the-client'),
        () => `${issuer} responded with 404 to the request for its discovery document`,
      ],
      'an HTML page': [
        (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
        () => `${issuer} does not have a usable discovery document (OAUTH_RESPONSE_IS_NOT_JSON)`,
      ],
      'invalid JSON': [
        (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{'),
        () => `${issuer} does not have a usable discovery document (OAUTH_PARSE_ERROR)`,
      ],
      'another issuer': [
        (response) => json({ ...whole(), issuer: 'https://other.example' })(response),
        () => `${issuer} has a discovery document for another issuer: "https://other.example"`,
      ],
      'an issuer that is not a URL': [
        (response) => json({ ...whole(), issuer: 'other' })(response),
        () => `${issuer} does not have a usable discovery document (ERR_INVALID_URL)`,
      ],
      'missing endpoints': [
        (response) => json({ ...whole(), token_endpoint: undefined, jwks_uri: 'keys' })(response),
        () => 'its discovery document lacks token_endpoint and jwks_uri',
      ],
      [silent]: [() => {}, () => `${issuer} did not respond within 0.2 s`],
    };
  for (const [name, [response, says]] of Object.entries(faults)) {
    test(name, async () => {
      respond = response;
      // On a busy machine, a response can take longer than the limit.
      const limitSeconds = name === silent ? 0.2 : patienceMs / 1000;
      assert.equal(await discoveryIssue(settings(issuer), limitSeconds), says());
      assert.equal(requests.at(-1), '/.well-known/openid-configuration');
    });
  }

  test('reports an unreachable provider, and a remote one without TLS without connecting to it', async () => {
    assert.equal(
      await discoveryIssue(settings('http://127.0.0.1:2')),
      'http://127.0.0.1:2 cannot be reached (ECONNREFUSED)',
    );
    assert.equal(
      await discoveryIssue(settings('http://idp.example')),
      'http://idp.example does not use TLS, which is only allowed for a provider on this machine',
    );
  });

  test('a provider is disabled while one of its strings is blank, or its issuer is not a URL', () => {
    const complete = settings(issuer);
    assert.ok(isAvailable(complete));
    for (const name of ['name', 'issuer', 'client_id', 'client_secret'])
      for (const blank of ['', ' ']) assert.ok(!isAvailable({ ...complete, [name]: blank }), name);
    assert.ok(!isAvailable(settings('login.example.com')));
  });

  test('reports each provider with its location, and a disabled one as a note', async () => {
    respond = json(whole());
    const providers = {
      well: settings(issuer),
      away: settings('http://127.0.0.1:2'),
      off: { ...settings(issuer), client_id: ' ' },
      typo: settings('login.example.com'),
    };
    const findings = await providersCheck.run({ settings: { login: { providers } } });
    assert.deepEqual(
      findings.map(({ location, isNote }) => [location, isNote]),
      [
        ['login.providers.away', undefined],
        ['login.providers.off', true],
        ['login.providers.typo.issuer', undefined],
      ],
    );
    assert.doesNotMatch(JSON.stringify(findings), /the-secret/);
  });
});
