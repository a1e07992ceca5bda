// User tokens (JWT): only live tokens signed by this instance are accepted, and all other tokens result in
// the same response. Tokens are validated before any table is read, so one driver is sufficient.

import assert from 'node:assert/strict';
import { createHmac, createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  decodeJwt,
  decodeProtectedHeader,
  EncryptJWT,
  type JWTHeaderParameters,
  jwtDecrypt,
  SignJWT,
} from 'jose';
import { readConfig } from '../../../app/config.ts';
import { tablesOf } from '../../../engine/tables/handle.ts';
import { tokens } from '../../../plugins/access/identity/tokens.ts';
import { accessTokens } from '../../../plugins/access/oauth/access-tokens.ts';
import { instanceSecrets } from '../../../plugins/access/secrets/instance-secrets.ts';
import { generateCode } from '../../../plugins/access/secrets/secrets.ts';
import { tickets } from '../../../plugins/access/secrets/signing.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../../support/instance.ts';
import {
  type LoggedIn,
  logIn,
  makePerson,
  type Node,
  type Person,
  secondNode,
  soonerThan,
  told,
} from '../../support/people.ts';

const secret = randomBytes(32).toString('hex');
const oldSecret = randomBytes(32).toString('hex');
const foreignSecret = randomBytes(32).toString('hex');
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = String(createPublicKey(rsa.privateKey).export({ type: 'spki', format: 'pem' }));

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const seconds = (): number => Math.floor(Date.now() / 1000);

describe('tokens', () => {
  let instance: Instance;
  let acme: Organization;
  let ann: Person;
  let session: LoggedIn;
  let other: LoggedIn;
  let refused: ReturnType<typeof told>;
  before(async () => {
    instance = await startInstance('postgresql', { environment: { AUTH_SECRETS: secret } });
    acme = await instance.organization('acme');
    ann = await makePerson(instance, [{ organization: acme }]);
    session = await logIn(instance, ann);
    other = await logIn(instance, await makePerson(instance, [{ organization: acme }]));
    refused = told(await instance.call('GET /api/v1/leads'));
  });
  after(() => instance.close());

  const send = (token: string, node: Pick<Node, 'call'> = instance): Promise<Answer> =>
    node.call('GET /api/v1/leads', { headers: { authorization: `Bearer ${token}` } });
  const header = () => decodeProtectedHeader(session.token) as JWTHeaderParameters;
  const claims = () => decodeJwt(session.token);
  type Changes = Readonly<Record<string, unknown>>;
  /** Signs a copy of the real token with changes, by default with our own secret. */
  const forge = (changes: Changes = {}, head: Changes = {}, key = secret): Promise<string> =>
    new SignJWT(JSON.parse(JSON.stringify({ ...claims(), ...changes })))
      .setProtectedHeader(JSON.parse(JSON.stringify({ ...header(), ...head })))
      .sign(Buffer.from(key));
  /** Signs a token without jose, for tokens that jose does not sign. */
  const byHand = (head: unknown, payload: unknown, key = secret, hash = 'sha256'): string => {
    const body = `${encode(head)}.${encode(payload)}`;
    return `${body}.${createHmac(hash, key).update(body).digest('base64url')}`;
  };
  const parts = (): [string, string, string] => {
    const [head = '', payload = '', signature = ''] = session.token.split('.');
    return [head, payload, signature];
  };
  const flip = (text: string, at: number): string =>
    text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);

  test('contain no role and no organization, and are signed by a named key with HS256', () => {
    assert.deepEqual(Object.keys(header()).sort(), ['alg', 'kid', 'typ']);
    assert.equal(header().alg, 'HS256');
    assert.equal(header().typ, 'at+jwt');
    assert.match(String(header().kid), /^[0-9a-f]{16}$/);
    assert.ok(!secret.includes(String(header().kid)));
    assert.deepEqual(Object.keys(claims()).sort(), ['aud', 'exp', 'iat', 'iss', 'jti', 'sub', 'ver']);
    assert.equal(claims().sub, ann.id);
  });

  test('control: unchanged copies signed by the test are accepted', async () => {
    assert.equal((await send(session.token)).status, 200);
    assert.equal((await send(await forge())).status, 200);
    assert.equal((await send(byHand(header(), claims()))).status, 200);
    assert.equal((await send(await forge({ nbf: seconds() - 60 }))).status, 200);
  });

  const bad: Readonly<Record<string, () => string | Promise<string>>> = {
    'alg none, no signature': () => `${encode({ ...header(), alg: 'none' })}.${parts()[1]}.`,
    'alg None, our signature': () => byHand({ ...header(), alg: 'None' }, claims()),
    'alg nOnE, two parts': () => `${encode({ ...header(), alg: 'nOnE' })}.${parts()[1]}`,
    'no alg': () => byHand({ ...header(), alg: undefined }, claims()),
    'alg as an array': () => byHand({ ...header(), alg: ['HS256'] }, claims()),
    HS384: () => byHand({ ...header(), alg: 'HS384' }, claims(), secret, 'sha384'),
    HS512: () => forge({}, { alg: 'HS512' }),
    'RS256 with its own key': () =>
      new SignJWT(claims()).setProtectedHeader({ ...header(), alg: 'RS256' }).sign(rsa.privateKey),
    'HS256 with a PEM public key as secret': () => byHand(header(), claims(), pem),
    'RS256 claimed, HMAC with our secret': () => byHand({ ...header(), alg: 'RS256' }, claims()),
    'RS256 claimed, HMAC with the PEM': () => byHand({ ...header(), alg: 'RS256' }, claims(), pem),
    'another issuer': () => forge({ iss: 'https://elsewhere.example' }),
    'no issuer': () => forge({ iss: undefined }),
    'the issuer as an array': () => forge({ iss: ['crm'] }),
    'another audience': () => forge({ aud: 'crm-api-2' }),
    'no audience': () => forge({ aud: undefined }),
    'an empty array of audiences': () => forge({ aud: [] }),
    expired: () => forge({ exp: seconds() - 6 }),
    'expired long ago': () => forge({ exp: 1 }),
    'no expiry': () => forge({ exp: undefined }),
    'the expiry as a string': () => byHand(header(), { ...claims(), exp: '9999999999' }),
    'not yet valid': () => forge({ nbf: seconds() + 3600 }),
    'issued in the future': () => forge({ iat: seconds() + 3600 }),
    'no issue time': () => forge({ iat: undefined }),
    'no subject': () => forge({ sub: undefined }),
    'no jti': () => forge({ jti: undefined }),
    'no version': () => forge({ ver: undefined }),
    'the version as a string': () => forge({ ver: '1' }),
    'another version': () => forge({ ver: 2 }),
    'version 0': () => forge({ ver: 0 }),
    "another user's subject": () => forge({ sub: String(Number(ann.id) + 1) }),
    "another user's session": () => forge({ jti: other.jti }),
    'a session that never existed': () => forge({ jti: 'never' }),
    'SQL as jti': () => forge({ jti: "' or 1=1 --" }),
    'a jti with a NUL character': () => forge({ jti: 'a\0b' }),
    'an object as jti': () => byHand(header(), { ...claims(), jti: { $ne: null } }),
    'an unknown kid': () => forge({}, { kid: '0123456789abcdef' }),
    'no kid': () => forge({}, { kid: undefined }),
    'an empty kid': () => forge({}, { kid: '' }),
    'a path as kid': () => forge({}, { kid: '../../../dev/null' }, ''.padEnd(32, '\0')),
    'SQL as kid': () => forge({}, { kid: "' union select 'x" }),
    'a property of every object as kid': () => forge({}, { kid: 'constructor' }),
    'an array as kid': () => byHand({ ...header(), kid: [header().kid] }, claims()),
    'another type': () => forge({}, { typ: 'JWT' }),
    'no type': () => forge({}, { typ: undefined }),
    'an unknown critical header': () => byHand({ ...header(), crit: ['x'], x: 1 }, claims()),
    'unencoded payload': () => byHand({ ...header(), crit: ['b64'], b64: false }, claims()),
    'a key in the header': () => forge({}, { jwk: { kty: 'oct', k: encode(foreignSecret) } }, foreignSecret),
    'a remote key set': () => forge({}, { jku: 'http://127.0.0.1:1/keys' }, foreignSecret),
    'a foreign key': () => forge({}, {}, foreignSecret),
    'an empty key': () => byHand(header(), claims(), ''),
    'the kid as the key': () => byHand(header(), claims(), String(header().kid)),
    'no signature': () => `${parts()[0]}.${parts()[1]}.`,
    'two parts': () => `${parts()[0]}.${parts()[1]}`,
    'four parts': () => `${session.token}.${parts()[2]}`,
    'only dots': () => '..',
    'the signature of another token': () => `${parts()[0]}.${parts()[1]}.${other.token.split('.')[2]}`,
    'other claims with the old signature': () =>
      `${parts()[0]}.${encode({ ...claims(), sub: '1' })}.${parts()[2]}`,
    'a changed header': () => `${flip(parts()[0], 5)}.${parts()[1]}.${parts()[2]}`,
    'changed claims': () => `${parts()[0]}.${flip(parts()[1], 20)}.${parts()[2]}`,
    'a changed signature': () => `${parts()[0]}.${parts()[1]}.${flip(parts()[2], 0)}`,
    'a truncated signature': () => session.token.slice(0, -2),
    'claims that are not an object': () => byHand(header(), [claims()]),
    'claims that are not JSON': () => {
      const body = `${parts()[0]}.${Buffer.from('{').toString('base64url')}`;
      return `${body}.${createHmac('sha256', secret).update(body).digest('base64url')}`;
    },
    'a nested token': () => byHand({ ...header(), cty: 'JWT' }, session.token),
    encrypted: () =>
      new EncryptJWT(claims())
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
        .encrypt(Buffer.from(secret, 'hex')),
    'an oversized claim': () => forge({ filler: 'x'.repeat(1000) }),
    'an oversized header': () => forge({}, { filler: 'x'.repeat(1000) }),
    'a token of 12 kB': () => forge({ filler: 'x'.repeat(9000) }),
    'one character longer than any valid token': () => session.token.padEnd(1025, 'A'),
  };
  for (const [name, make] of Object.entries(bad)) {
    test(`${name} → 401`, async () => {
      assert.deepEqual(told(await send(await make())), refused);
    });
  }

  test('a change to any character of the signature → 401', async () => {
    const [head, payload, signature] = parts();
    for (let at = 0; at < signature.length - 1; at++) {
      const { status } = await send(`${head}.${payload}.${flip(signature, at)}`);
      assert.equal(status, 401, `character ${at}`);
    }
  });

  test('an invalid token is rejected despite a valid cookie', async () => {
    const headers = { ...session.byCookie, authorization: `Bearer ${await forge({ exp: 1 })}` };
    assert.deepEqual(told(await instance.call('GET /api/v1/leads', { headers })), refused);
  });

  test('"everywhere" revokes every earlier token, even if its session reappears', async () => {
    const bea = await makePerson(instance, [{ organization: acme }]);
    const first = await logIn(instance, bea);
    const rows = tablesOf(instance.database);
    const row = await rows
      .selectFrom('crm_sessions')
      .selectAll()
      .where('id', '=', first.session)
      .executeTakeFirstOrThrow();
    await instance.call('POST /auth/logout-everywhere', { headers: first.byToken });
    await soonerThan(1000, async () => (await send(first.token)).status === 401);
    await rows.insertInto('crm_sessions').values(row).execute();
    await soonerThan(1000, async () => {
      const me = await instance.call('GET /auth/me', { headers: first.byCookie });
      return me.status === 200;
    });
    assert.deepEqual(told(await send(first.token)), refused, 'its version is outdated');
    assert.equal((await send((await logIn(instance, bea)).token)).status, 200);
  });

  test('a deleted user’s token is rejected for a new user with the same ID', async () => {
    const deleted = await makePerson(instance, [{ organization: acme }]);
    const { token } = await logIn(instance, deleted);
    assert.equal((await send(token)).status, 200);
    const rows = tablesOf(instance.database);
    const user = await rows
      .selectFrom('crm_users')
      .selectAll()
      .where('id', '=', deleted.id)
      .executeTakeFirstOrThrow();
    await rows.deleteFrom('crm_users').where('id', '=', deleted.id).execute();
    await rows.insertInto('crm_users').values(user).execute();
    await soonerThan(1000, async () => (await send(token)).status === 401);
  });

  describe('with two secrets', () => {
    const on = async (authSecrets: readonly string[], work: (node: Node) => Promise<void>) => {
      const node = await secondNode(instance, { authSecrets });
      try {
        await work(node);
      } finally {
        await node.close();
      }
    };

    test('signs with the first and accepts tokens of both until the old one is removed', async () => {
      let before = session.token;
      await on([oldSecret], async (node) => {
        before = (await logIn(instance, ann, { url: node.url })).token;
        assert.equal((await send(before, node)).status, 200);
        assert.deepEqual(told(await send(session.token, node)), refused, 'an unlisted secret');
      });
      await on([secret, oldSecret], async (node) => {
        assert.equal((await send(before, node)).status, 200);
        assert.equal((await send(session.token, node)).status, 200);
        const { token } = await logIn(instance, ann, { url: node.url });
        assert.equal(decodeProtectedHeader(token).kid, header().kid, 'signed with the first secret');
        assert.equal((await send(token)).status, 200);
      });
      assert.deepEqual(told(await send(before)), refused, 'the old secret is no longer listed');
    });

    test('nodes that list them in a different order accept each other’s tokens', () =>
      on([oldSecret, secret], async (node) => {
        const { token } = await logIn(instance, ann, { url: node.url });
        assert.equal((await send(session.token, node)).status, 200);
        assert.equal((await send(token, node)).status, 200);
        assert.equal((await send(token)).status, 401, 'the first node does not list it');
      }));

    test('verifies a token only with the key that it names', () =>
      on([secret, oldSecret], async (node) => {
        assert.equal((await send(await forge({}, {}, oldSecret), node)).status, 401);
      }));
  });

  test('rejects short secrets at startup', () => {
    for (const AUTH_SECRETS of ['short', `${secret},short`, `${secret},`, ',', 'x'.repeat(31)]) {
      assert.throws(() => readConfig({ AUTH_SECRETS }), /AUTH_SECRETS must be secrets of at least 32/);
    }
  });

  test('reads secrets without the blanks around them', () => {
    const { authSecrets } = readConfig({ AUTH_SECRETS: ` ${secret} , ${oldSecret}\n` });
    assert.deepEqual(authSecrets, [secret, oldSecret]);
  });

  test('accepts the clocks of other nodes if they differ by a few seconds', async ({ mock }) => {
    mock.timers.enable({ apis: ['Date'], now: Date.now() });
    const { verify } = tokens(instanceSecrets(instance.config));
    const behind = await forge({ exp: seconds() - 2 });
    const ahead = await forge({ iat: seconds() + 3, nbf: seconds() + 3 });
    for (const token of [behind, ahead]) assert.equal((await verify(token))?.user, ann.id);
  });

  test('generates and stores a secret if AUTH_SECRETS is not set', async () => {
    const folder = join(instance.config.dataFolder, 'other');
    const reopened = () => tokens(instanceSecrets(readConfig({ DATA_DIR: folder })));
    const [one, two] = [reopened(), reopened()];
    const token = await one.sign({ user: '7', jti: 'j', version: 1 }, new Date(Date.now() + 3_600_000));
    assert.deepEqual(await two.verify(token), { user: '7', jti: 'j', version: 1 });
    const file = join(folder, 'auth-secret');
    assert.deepEqual(
      [folder, file].map((path) => statSync(path).mode & 0o777),
      [0o700, 0o600],
    );
    writeFileSync(file, ` ${secret}\n`);
    assert.deepEqual(instanceSecrets(readConfig({ DATA_DIR: folder })).all, [secret]);
    writeFileSync(file, 'x'.repeat(31));
    assert.throws(reopened, {
      name: 'UserError',
      message: `${file} does not contain a valid secret. Delete the file or set AUTH_SECRETS.`,
    });
  });
});

describe('access tokens of connected apps', () => {
  const issuer = 'https://crm.example';
  const claims = { organization: '1', key: '2', user: '3', client: 'https://app.example/client.json' };
  const tokensOf = (...authSecrets: readonly string[]) =>
    accessTokens(instanceSecrets({ authSecrets, dataFolder: '' }));

  test('are signed with the first secret, and verified with each of them', async () => {
    const [before, during] = [tokensOf(oldSecret), tokensOf(secret, oldSecret)];
    assert.deepEqual(await during.verify(issuer, await before.sign(issuer, claims, 60)), claims);
    const token = await during.sign(issuer, claims, 60);
    assert.deepEqual(await tokensOf(secret).verify(issuer, token), claims);
    assert.equal(await before.verify(issuer, token), undefined);
  });

  test('are valid for as long as they were signed, and a few seconds longer on a node with another clock', async ({
    mock,
  }) => {
    mock.timers.enable({ apis: ['Date'], now: Date.now() });
    const { sign, verify } = tokensOf(secret);
    assert.deepEqual(await verify(issuer, await sign(issuer, claims, -2)), claims);
    assert.equal(await verify(issuer, await sign(issuer, claims, -60)), undefined);
  });

  test('contain IDs', async () => {
    const { sign, verify } = tokensOf(secret);
    for (const name of ['organization', 'key', 'user'] as const)
      for (const value of ['x', '0', '9'.repeat(20)])
        assert.equal(await verify(issuer, await sign(issuer, { ...claims, [name]: value }, 60)), undefined);
    const longest = { ...claims, client: 'https://app.example/'.padEnd(500, 'x') };
    const longer = `https://${'x'.repeat(100)}.example`;
    assert.deepEqual(await verify(longer, await sign(longer, longest, 60)), longest);
    const long = { ...claims, client: 'x'.repeat(2000) };
    assert.equal(await verify(issuer, await sign(issuer, long, 60)), undefined);
  });
});

test('codes that people copy contain no characters that look alike', () => {
  for (let count = 0; count < 100; count++)
    assert.match(generateCode(), /^[A-HJ-NP-Z2-9]{4}(?:-[A-HJ-NP-Z2-9]{4}){3}$/);
});

describe('tickets, which browsers keep between the steps of a login', () => {
  const secretsOf = (...authSecrets: readonly string[]) => instanceSecrets({ authSecrets, dataFolder: '' });
  const ticketsOf = (...authSecrets: readonly string[]) =>
    tickets<{ user: string }>(secretsOf(...authSecrets), 'a purpose', 10);

  test('open for their purpose only, and cannot be read or changed', async () => {
    const { issue, open } = ticketsOf(secret);
    const ticket = await issue({ user: 'Ada Lovelace' });
    assert.deepEqual(await open(ticket), { user: 'Ada Lovelace' });
    for (const part of ticket.split('.')) assert.ok(!Buffer.from(part, 'base64url').includes('Ada Lovelace'));
    const others = [
      tickets(secretsOf(secret), 'another purpose', 10),
      tickets(secretsOf(secret), '', 10),
      ticketsOf(foreignSecret),
    ];
    for (const other of others) assert.equal(await other.open(ticket), undefined);
    for (const wrong of [undefined, '', 'x', ticket.slice(0, -1), `${ticket}${'x'.repeat(4000)}`])
      assert.equal(await open(wrong), undefined);
  });

  test('expire', async () => {
    const { issue, open } = tickets<{ user: string }>(secretsOf(secret), 'a purpose', -1);
    assert.equal(await open(await issue({ user: 'Ada' })), undefined);
    const [key = Buffer.alloc(0)] = secretsOf(secret).keys('ticket: a purpose');
    const start = seconds();
    const { payload } = await jwtDecrypt(await ticketsOf(secret).issue({ user: 'Ada' }), key);
    const { exp = 0 } = payload;
    assert.ok(exp >= start + 600 && exp <= seconds() + 600, 'after ten minutes');
  });

  test('are issued with the first secret, and open with each of them', async () => {
    const [before, during] = [ticketsOf(oldSecret), ticketsOf(secret, oldSecret)];
    const content = { user: 'Ada' };
    assert.deepEqual(await during.open(await before.issue(content)), content);
    assert.deepEqual(await ticketsOf(secret).open(await during.issue(content)), content);
    assert.equal(await before.open(await during.issue(content)), undefined);
  });
});
