// Passkeys: which responses of an authenticator are accepted. A browser would not send most of them, so the tests
// create them. One driver is sufficient, because nothing here depends on the database.
import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { isoCBOR } from '@simplewebauthn/server/helpers';
import { tablesOf } from '../../../engine/tables/handle.ts';
import { problemOf, readable, shownIn, signIn, type Visitor, visitor } from '../../support/forms.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../../support/instance.ts';
import { activityOf, exchange, makePerson, type Person } from '../../support/people.ts';

const addPage = '/setup/me/second-factor/passkey';
const loginPage = '/setup/login';
const loginAction = '/setup/login/passkey';

/** Bits of the authenticator data that state whether the user was present and verified. */
const [present, verified, attested] = [1, 4, 64];

/** The signed content of a response. */
interface Content {
  readonly type: string;
  readonly challenge: string;
  readonly origin: string;
  readonly rpId: string;
  readonly flags: number;
  readonly counter: number;
}

/** Creates an authenticator with one passkey, which signs any content. */
function createAuthenticator() {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const id = randomBytes(16);
  const bytesOf = (text: string) => Uint8Array.from(Buffer.from(text, 'base64url'));
  // ES256 (RFC 9053)
  const key = new Map<number, number | Uint8Array>([
    [1, 2],
    [3, -7],
    [-1, 1],
    [-2, bytesOf(x)],
    [-3, bytesOf(y)],
  ]);
  const hash = (data: string | Buffer) => createHash('sha256').update(data).digest();
  const dataOf = ({ rpId, flags, counter }: Content, more: readonly Uint8Array[] = []) => {
    const head = Buffer.alloc(5);
    head.writeUInt8(flags);
    head.writeUInt32BE(counter, 1);
    return Buffer.concat([hash(rpId), head, ...more]);
  };
  const clientDataOf = ({ type, challenge, origin }: Content) =>
    Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }));
  const credential = (response: Readonly<Record<string, Uint8Array>>, credentialId = id) =>
    JSON.stringify({
      id: credentialId.toString('base64url'),
      rawId: credentialId.toString('base64url'),
      type: 'public-key',
      clientExtensionResults: {},
      response: Object.fromEntries(
        Object.entries(response).map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64url')]),
      ),
    });
  return {
    id,
    /** Returns the response to a registration. */
    create: (content: Content): string => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(id.length);
      const authData = dataOf({ ...content, flags: content.flags | attested }, [
        Buffer.alloc(16),
        length,
        id,
        isoCBOR.encode(key),
      ]);
      const attestationObject = isoCBOR.encode(
        new Map<string, string | Map<string, string> | Uint8Array>([
          ['fmt', 'none'],
          ['attStmt', new Map()],
          ['authData', Uint8Array.from(authData)],
        ]),
      );
      return credential({ clientDataJSON: clientDataOf(content), attestationObject });
    },
    /** Returns the response to a login. @param credentialId the passkey's ID, if it is another one */
    get: (content: Content, credentialId = id): string => {
      const [authenticatorData, clientDataJSON] = [dataOf(content), clientDataOf(content)];
      const signature = sign('sha256', Buffer.concat([authenticatorData, hash(clientDataJSON)]), privateKey);
      return credential({ authenticatorData, clientDataJSON, signature }, credentialId);
    },
  };
}

/** Differences from a valid response, each of which must be rejected. */
const deviations: readonly [name: string, change: Partial<Content>][] = [
  ['without user verification', { flags: present }],
  ['without user presence', { flags: verified }],
  ['for another origin', { origin: 'http://elsewhere.example' }],
  ['for another relying party', { rpId: 'elsewhere.example' }],
  ['to another challenge', { challenge: 'AAAA' }],
  ['of another type', { type: 'payment.get' }],
];

describe('responses of an authenticator', () => {
  let instance: Instance;
  let acme: Organization;
  let origin: string;
  before(async () => {
    instance = await startInstance('postgresql');
    acme = await instance.organization('acme');
    // Passkeys require a host name.
    origin = instance.url.replace('127.0.0.1', 'localhost');
  });
  after(() => instance.close());

  /** Opens a page, and returns the ticket and the content of a valid response to its offer. */
  const open = async (browser: Visitor, page: string, type: string) => {
    const { text } = await browser.get(page);
    const form = /<form[^>]*data-passkey[^>]*>[\s\S]*?<\/form>/.exec(text)?.[0] ?? assert.fail(text);
    const inputOf = (name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(form)?.[1] ?? '';
    const options = JSON.parse(readable(/data-options="([^"]*)"/.exec(form)?.[1] ?? '')) as {
      challenge: string;
      excludeCredentials?: readonly { readonly id: string }[];
      userVerification?: string;
      authenticatorSelection?: { userVerification?: string; residentKey?: string };
      rpId?: string;
      rp?: { id?: string };
    };
    const { authenticatorSelection = options } = options;
    assert.equal(authenticatorSelection.userVerification, 'required');
    assert.equal(options.rpId ?? options.rp?.id, 'localhost');
    const residentKey = page === addPage ? 'required' : undefined;
    assert.equal(options.authenticatorSelection?.residentKey, residentKey);
    const content: Content = {
      type,
      challenge: options.challenge,
      origin,
      rpId: 'localhost',
      flags: present | verified,
      counter: 1,
    };
    const excluded = options.excludeCredentials?.map(({ id }) => id);
    return { fields: { _csrf: inputOf('_csrf'), ticket: inputOf('ticket') }, content, excluded };
  };
  const add = async (
    browser: Visitor,
    { create }: ReturnType<typeof createAuthenticator>,
    change: Partial<Content> & { readonly ticket?: string } = {},
  ): Promise<Answer> => {
    const { ticket, ...content } = change;
    const offer = await open(browser, addPage, 'webauthn.create');
    return browser.post(addPage, {
      ...offer.fields,
      ...(ticket !== undefined && { ticket }),
      name: 'Laptop',
      credential: create({ ...offer.content, ...content }),
    });
  };
  const newUser = async () => {
    const person = await makePerson(instance, [{ organization: acme }]);
    return { person, browser: await signIn({ url: origin }, person) };
  };
  /** Creates a user with a passkey. */
  const withPasskey = async () => {
    const { person, browser } = await newUser();
    const authenticator = createAuthenticator();
    const answer = await add(browser, authenticator);
    assert.equal(shownIn(answer, 'codes').split('\n').length, 10, problemOf(answer));
    return { person, authenticator, browser };
  };
  const passkeysOf = ({ id }: Person) =>
    tablesOf(instance.database).selectFrom('crm_passkeys').select('id').where('user_id', '=', id).execute();

  test('accepts a registration once, and only with every part of it valid', async () => {
    const { person, browser } = await newUser();
    const authenticator = createAuthenticator();
    for (const [name, change] of deviations) {
      const answer = await add(browser, authenticator, change);
      assert.deepEqual([answer.status, await passkeysOf(person)], [400, []], name);
    }
    const stranger = await open((await newUser()).browser, addPage, 'webauthn.create');
    const atLogin = await open(visitor({ url: origin }), loginPage, 'webauthn.create');
    for (const { fields, content } of [stranger, atLogin]) {
      const { ticket } = fields;
      const answer = await add(browser, authenticator, { ...content, ticket });
      assert.deepEqual([answer.status, await passkeysOf(person)], [400, []], 'an offer to somebody else');
    }
    const { fields, content } = await open(browser, addPage, 'webauthn.create');
    const form = { ...fields, name: 'Laptop', credential: authenticator.create(content) };
    assert.equal((await browser.post(addPage, form)).status, 200);
    assert.equal((await browser.post(addPage, form)).status, 400);
    assert.equal((await passkeysOf(person)).length, 1);
  });

  test('are requested only by pages of a host name, because browsers require one', async () => {
    for (const [host, isOffered] of [
      [new URL(origin).host, true],
      [new URL(instance.url).host, false],
      ['[::1]:3000', false],
      ['[2001:db8::1]', false],
    ] as const) {
      const { text } = await exchange(instance.url, `GET ${loginPage}`, ['host', host]);
      assert.equal(text.includes('data-passkey'), isOffered, host);
    }
  });

  test('rejects a passkey that another user has registered', async () => {
    const { person, authenticator } = await withPasskey();
    const other = await newUser();
    const answer = await add(other.browser, authenticator);
    assert.deepEqual([answer.status, await passkeysOf(other.person)], [400, []]);
    assert.match(problemOf(answer), /already registered/);
    assert.equal((await passkeysOf(person)).length, 1);
    const stranger = visitor({ url: origin });
    const { fields, content } = await open(stranger, loginPage, 'webauthn.get');
    const credential = authenticator.get({ ...content, counter: 2 });
    assert.equal((await stranger.post(loginAction, { ...fields, credential })).status, 303);
    assert.match((await stranger.get('/setup/me')).text, new RegExp(person.email));
  });

  test('another passkey is added without new recovery codes, and each one logs in', async () => {
    const { person, authenticator, browser } = await withPasskey();
    const second = createAuthenticator();
    const { fields, content, excluded } = await open(browser, addPage, 'webauthn.create');
    assert.deepEqual(excluded, [authenticator.id.toString('base64url')], 'the own passkeys are excluded');
    const unnamed = await browser.post(addPage, { ...fields, name: ' ', credential: second.create(content) });
    assert.deepEqual([unnamed.status, (await passkeysOf(person)).length], [400, 1]);
    assert.match(problemOf(unnamed), /the name must have 1 to/);
    const answer = await add(browser, second);
    assert.equal(
      answer.headers.get('location'),
      '/setup/me/second-factor?done=passkey-added',
      problemOf(answer),
    );
    assert.equal((await passkeysOf(person)).length, 2);
    for (const { get } of [authenticator, second]) {
      const stranger = visitor({ url: origin });
      const { fields, content } = await open(stranger, loginPage, 'webauthn.get');
      const answer = await stranger.post(loginAction, {
        ...fields,
        credential: get({ ...content, counter: 2 }),
      });
      assert.equal(answer.status, 303);
    }
    const overview = readable((await browser.get('/setup/me/second-factor')).text);
    assert.match(overview, /<dt>Recovery codes left<\/dt><dd>10</);
    assert.ok(overview.includes('href="/setup/me/second-factor/recovery-codes"'));
    assert.ok(!overview.includes('href="/setup/me/second-factor/remove-app"'));
    const entries = (await activityOf(instance, acme.id)).filter(
      ({ actor }) => actor === `user ${person.id}`,
    );
    assert.equal(entries.filter(({ did }) => did.startsWith('add passkey session ')).length, 2);
    const lastUses = [...overview.matchAll(/Laptop, last used ?(<time )?/g)].map(([, time]) => time);
    assert.deepEqual(lastUses, ['<time ', '<time ']);
  });

  test('a login with a passkey without a counter is accepted once, too', async () => {
    const { browser } = await newUser();
    const authenticator = createAuthenticator();
    assert.equal((await add(browser, authenticator, { counter: 0 })).status, 200);
    const logIn = async (form?: Readonly<Record<string, string>>) => {
      const stranger = visitor({ url: origin });
      const { fields, content } = await open(stranger, loginPage, 'webauthn.get');
      const credential = authenticator.get({ ...content, counter: 0 });
      const sent = { ...fields, credential, ...form, _csrf: fields._csrf };
      return { sent, status: (await stranger.post(loginAction, sent)).status };
    };
    const { sent, status } = await logIn();
    assert.deepEqual([status, (await logIn(sent)).status, (await logIn()).status], [303, 401, 303]);
  });

  test('accepts a login once, and only with every part of it valid', async () => {
    const { person, authenticator } = await withPasskey();
    const other = await withPasskey();
    const browser = visitor({ url: origin });
    const logIn = async (
      change: Partial<Content>,
      signer = authenticator,
      credentialId = signer.id,
    ): Promise<number> => {
      const { fields, content } = await open(browser, loginPage, 'webauthn.get');
      const credential = signer.get({ ...content, counter: 2, ...change }, credentialId);
      const { status } = await browser.post(loginAction, { ...fields, credential });
      assert.equal(browser.cookies.has('crm_session'), status === 303);
      return status;
    };
    for (const [name, change] of [...deviations, ['with an old counter', { counter: 1 }]] as const) {
      assert.equal(await logIn(change), 401, name);
    }
    assert.equal(await logIn({}, other.authenticator, authenticator.id), 401, "with another user's key");
    assert.equal(await logIn({}, createAuthenticator()), 401, 'with an unknown passkey');

    const { fields, content } = await open(browser, loginPage, 'webauthn.get');
    const next = '/setup/me?from=login';
    const form = { ...fields, next, credential: authenticator.get({ ...content, counter: 2 }) };
    const loggedIn = await browser.post(loginAction, form);
    assert.deepEqual([loggedIn.status, loggedIn.headers.get('location')], [303, next]);
    const page = (await browser.get(next)).text;
    assert.match(page, new RegExp(person.email));
    assert.match(page, /Your account is protected by a password and a second factor\./);
    browser.cookies.clear();
    const { _csrf } = (await open(browser, loginPage, 'webauthn.get')).fields;
    assert.equal((await browser.post(loginAction, { ...form, _csrf })).status, 401, 'a second time');
    assert.equal(await logIn({}), 401, 'with the counter of the last login');
    assert.equal(await logIn({ counter: 3 }), 303);

    browser.cookies.clear();
    await tablesOf(instance.database)
      .updateTable('crm_users')
      .set({ disabled_at: new Date() })
      .where('id', '=', person.id)
      .execute();
    assert.equal(await logIn({ counter: 4 }), 401, 'of a disabled user');
  });
});
