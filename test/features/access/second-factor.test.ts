// Second factors: single-use authenticator and recovery codes, and logins of users who must have a second factor.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tablesOf, transaction } from '../../../engine/tables/handle.ts';
import { findUserBy, resetSecondFactor } from '../../../plugins/access/identity/operator-users.ts';
import { createMailedResets, redeemReset } from '../../../plugins/access/identity/resets.ts';
import { startSession } from '../../../plugins/access/identity/sessions.ts';
import { generateTotpSecret, qrCode, stepOf } from '../../../plugins/access/second-factor/totp.ts';
import { formsOf, problemOf, readable, shownIn, signIn, type Visitor, visitor } from '../../support/forms.ts';
import { drivers, type Instance, type Organization, startInstance } from '../../support/instance.ts';
import { logged } from '../../support/logged.ts';
import { settingsFile } from '../../support/partners.ts';
import {
  activityOf,
  command,
  deviceOf,
  dump,
  fresh,
  logIn,
  makePerson,
  type Node,
  type Person,
  secondNode,
  soonerThan,
} from '../../support/people.ts';
import { until } from '../../support/process.ts';
import { assertErrorShape } from '../../support/scenario.ts';
import { addPasskey, codeOf, forgetStep, secretIn, setUpApp } from '../../support/second-factors.ts';
import { whileUncommitted } from '../../support/uncommitted.ts';

const overview = '/setup/me/second-factor';
const step = '/setup/login/second-factor';

test('accepts a code one time step early or late, but not two', () => {
  const secret = generateTotpSecret();
  const step = () => Math.floor(Date.now() / 30_000);
  let steps: (number | undefined)[];
  let now: number;
  // Repeat if a time step ended in between.
  do {
    now = step();
    steps = [-2, -1, 0, 1, 2].map((offset) => stepOf(secret, codeOf(secret, offset)));
  } while (step() !== now);
  assert.deepEqual(steps, [undefined, now - 1, now, now + 1, undefined]);
});

test('the QR code of an authenticator app contains the secret and the email address', () => {
  const [one, other] = [generateTotpSecret(), generateTotpSecret()];
  const codes = [qrCode(one, 'ada@a.example'), qrCode(one, 'bob@a.example'), qrCode(other, 'ada@a.example')];
  assert.equal(new Set(codes).size, 3);
});

for (const driver of drivers) {
  describe(`second factors (${driver})`, () => {
    let instance: Instance;
    let acme: Organization;
    const settings = settingsFile({ login: { second_factor: 'off' } });
    before(async () => {
      instance = await startInstance(driver, { environment: settings.environment });
      acme = await instance.organization('acme');
    });
    after(() => instance.close());

    const require = async (policy: 'off' | 'administrators' | 'everyone') => {
      settings.write({ login: { second_factor: policy } });
      const { needsSecondFactor } = instance.app;
      const isAsked = (profile: string) => needsSecondFactor([{ profile }]);
      await until(
        () => isAsked('administrator') === (policy !== 'off') && isAsked('other') === (policy === 'everyone'),
        'the settings are in force',
      );
    };
    /** Creates a user with an authenticator app, set up in the returned browser. */
    const withApp = async () => {
      const person = await makePerson(instance, [{ organization: acme }]);
      const browser = await signIn(instance, person);
      return { person, browser, ...(await setUpApp(browser)) };
    };
    const post = ({ email, password }: Person, more: object = {}, headers: Record<string, string> = {}) =>
      instance.call('POST /auth/login', { body: { email, password, ...more }, headers });
    /** Returns a browser in which the user has entered the password but no code. */
    const firstStep = async (person: Person, page = '/setup/login') => {
      const browser = visitor(instance);
      const answer = await browser.submit(page, '/setup/login', { ...person });
      assert.equal(answer.headers.get('location'), step, problemOf(answer));
      assert.ok(!browser.cookies.has('crm_session'), 'no session yet');
      const cookie = answer.headers.getSetCookie().find((each) => each.startsWith('crm_first_step='));
      assert.match(
        cookie ?? '',
        /; Max-Age=600; Path=\/setup\/login\/second-factor; HttpOnly; SameSite=Lax$/,
      );
      return browser;
    };
    const isIn = async (browser: Visitor) => (await browser.get('/setup/me')).status === 200;
    /** Returns the account page's description of the account's protection. */
    const protectionOf = async (browser: Visitor) => {
      const { text } = await browser.get('/setup/me');
      return /<h2 id="second-factor">[^<]*<\/h2>\s*<p>([^<]*)</.exec(text)?.[1];
    };
    /** Returns the rows of a user's second factors, sorted. */
    const factorsOf = ({ id }: Person) =>
      Promise.all(
        (['crm_totps', 'crm_passkeys', 'crm_recovery_codes'] as const).map(async (table) => {
          const rows = await tablesOf(instance.database)
            .selectFrom(table)
            .selectAll()
            .where('user_id', '=', id)
            .execute();
          return rows.map((row) => JSON.stringify(row)).sort();
        }),
      );
    const countsOf = async (person: Person) => (await factorsOf(person)).map((rows) => rows.length);

    test('sets up an authenticator app only with its code; then each login requires a fresh code', async () => {
      const person = await makePerson(instance, [{ organization: acme }]);
      const browser = await signIn(instance, person);
      const elsewhere = await signIn(instance, person);
      const program = await logIn(instance, person);
      assert.equal(await protectionOf(browser), 'Your account is protected only by a password.');
      const shown = await browser.get(`${overview}/app`);
      const secret = secretIn(shown);
      assert.match(shown.text, /<svg [^>]*>/);
      const [form] = formsOf(shown).filter(({ action }) => action === `${overview}/app`);
      const wrong = await browser.post(`${overview}/app`, { ...form?.values, code: '000000' });
      assert.equal(wrong.status, 400);
      assert.equal(secretIn(wrong), secret, 'the page still shows the same secret');
      assert.equal((await post(person)).status, 200, 'the app is not set up yet');

      const code = codeOf(secret);
      const fields = { ...form?.values, code: code.replaceAll(/(..)(?=.)/g, '$1 ') };
      const done = await browser.post(`${overview}/app`, fields);
      assert.equal(done.status, 200, problemOf(done));
      assert.equal(shownIn(done, 'codes').split('\n').length, 10);
      assert.match(done.text, /Second factor set up\.[\s\S]*href="\/setup">I have saved them/);
      assert.equal(
        await protectionOf(browser),
        'Your account is protected by a password and a second factor.',
      );
      await soonerThan(1000, async () => !(await isIn(elsewhere)));
      const me = () => instance.call('GET /auth/me', { headers: program.byToken });
      await soonerThan(1000, async () => (await me()).status === 401);
      const again = await browser.post(`${overview}/app`, fields);
      assert.equal(again.status, 400);
      assert.match(problemOf(again), /already submitted/);

      const stored = await dump(instance);
      assert.ok(!stored.includes(secret), 'the secret is encrypted');

      const next = await firstStep(person, '/setup/login?next=%2Fsetup%2Fme%3Fx%3D1');
      assert.match((await next.submit(step, step, { code: fields.code })).text, /has already been used/);
      assert.ok(!(await isIn(next)));
      const later = codeOf(secret, 1);
      const entered = await next.submit(step, step, { code: later.replaceAll(/(..)(?=.)/g, '$1 ') });
      assert.equal(entered.headers.get('location'), '/setup/me?x=1', problemOf(entered));
      assert.ok(!next.cookies.has('crm_first_step'));
      assert.match((await next.get('/setup/me')).text, /Password and code/);
      const replay = await firstStep(person);
      const refusals = await logged(async () => {
        const { status } = await replay.submit(step, step, { code: later });
        assert.equal(status, 401, 'a code cannot be reused within its window');
      });
      const [refused] = refusals.filter(({ msg }) => msg === 'login rejected');
      assert.deepEqual([refused?.users, refused?.code], [[person.id], 'second_factor_required']);
    });

    test('API logins without a code return 401 second_factor_required; clients send it as otp', async () => {
      const { person, secret, used, recovery } = await withApp();
      const refused = await post(person);
      assert.equal(refused.status, 401);
      assertErrorShape(refused);
      assert.equal(refused.json.code, 'second_factor_required');
      assert.equal(refused.headers.getSetCookie().length, 0);
      const rejections = await logged(async () => {
        for (const otp of ['', '12345', '１２３４５６', 'x'.repeat(1000), used]) {
          const answer = await post(person, { otp });
          assert.equal(answer.status, 401, otp);
          assert.equal(answer.json.code, 'second_factor_required');
        }
      });
      assert.deepEqual(
        rejections.flatMap(({ msg, users, code }) => (msg === 'login rejected' ? [[users, code]] : [])),
        Array(5).fill([[person.id], 'second_factor_required']),
      );
      assert.equal((await post(person, { otp: 123456 })).status, 400);
      assert.equal(
        (await post({ ...person, password: 'wrong' }, { otp: codeOf(secret, 1) })).json.code,
        'unauthenticated',
      );
      await forgetStep(instance, person.id);
      assert.equal(
        (await post(person, { otp: codeOf(secret) })).status,
        429,
        'five wrong codes reach the limit',
      );
      assert.equal(recovery.length, 10);
    });

    test('each recovery code works once, in upper or lower case; new codes replace the old ones', async () => {
      const { person, browser, recovery } = await withApp();
      const [first = '', second = '', third = ''] = recovery;
      const left = async () => {
        const text = readable((await browser.get(overview)).text);
        return /<dt>Recovery codes left<\/dt><dd>(\d+)</.exec(text)?.[1];
      };
      assert.equal(await left(), '10');
      const answer = await post(person, { otp: ` ${first.toLowerCase()} ` });
      assert.equal(answer.status, 200, answer.text);
      const headers = { authorization: `Bearer ${answer.json.access_token}` };
      const { json } = await instance.call('GET /auth/sessions', { headers });
      assert.deepEqual(
        (json.data as { method: string }[]).map(({ method }) => method),
        ['Password and recovery code', 'Password'],
      );
      assert.equal((await post(person, { otp: first })).status, 401);
      const stepping = await firstStep(person);
      assert.equal((await stepping.submit(step, step, { code: second })).status, 303);
      assert.equal(await left(), '8');
      const page = await browser.submit(`${overview}/recovery-codes`, `${overview}/recovery-codes`);
      assert.ok(page.text.includes(`href="${overview}">I have saved them`), page.text);
      assert.doesNotMatch(page.text, /Second factor set up/);
      const [renewed = ''] = shownIn(page, 'codes').split('\n');
      assert.equal((await post(person, { otp: third })).status, 401);
      assert.equal((await post(person, { otp: renewed })).status, 200);
      assert.ok(!(await dump(instance)).includes(renewed), 'recovery codes are stored as hashes');
    });

    test('concurrent logins with the same code: only one succeeds', async () => {
      const { person, secret } = await withApp();
      await forgetStep(instance, person.id);
      const code = codeOf(secret);
      const answers = await Promise.all(Array.from({ length: 4 }, () => post(person, { otp: code })));
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 401, 401, 401]);
    });

    if (driver === 'postgresql')
      test('a code of an authenticator app that is being replaced is wrong', async () => {
        const [{ person, secret }, other] = [await withApp(), await withApp()];
        await forgetStep(instance, person.id);
        const replacement = `update crm_totps set secret = o.secret from crm_totps o
          where crm_totps.user_id = ${person.id} and o.user_id = ${other.person.id}`;
        const login = await whileUncommitted(instance, [replacement], () =>
          post(person, { otp: codeOf(secret) }),
        );
        assert.deepEqual([login.status, login.json.code], [401, 'second_factor_required']);
      });

    test('the second step requires the first one by the same user', async () => {
      const { person, secret } = await withApp();
      const other = await withApp();
      const stranger = visitor(instance);
      assert.equal((await stranger.get(step)).headers.get('location'), '/setup/login');
      const _csrf = await stranger.token('/setup/login');
      await forgetStep(instance, person.id);
      const bare = await stranger.post(step, { _csrf, code: codeOf(secret) });
      assert.equal(bare.headers.get('location'), '/setup/login');
      const browser = await firstStep(person);
      await forgetStep(instance, other.person.id);
      assert.equal((await browser.submit(step, step, { code: codeOf(other.secret) })).status, 401);
      const ticket = browser.cookies.get('crm_first_step') ?? '';
      browser.cookies.set('crm_first_step', `${ticket.slice(0, -4)}AAAA`);
      assert.equal((await browser.get(step)).status, 303, 'an altered cookie is rejected');
      browser.cookies.set('crm_first_step', ticket);
      const { byCookie } = await logIn(instance, other.person).catch(() => ({ byCookie: {} }));
      assert.deepEqual(byCookie, {}, 'no session without a code');
      // End every session between the two steps.
      await tablesOf(instance.database)
        .updateTable('crm_users')
        .set((expression) => ({ token_version: expression('token_version', '+', 1) }))
        .where('id', '=', person.id)
        .execute();
      await forgetStep(instance, person.id);
      const late = await browser.submit(step, step, { code: codeOf(secret) });
      assert.equal(late.headers.get('location'), '/setup/login');
      assert.ok(!browser.cookies.has('crm_session'));
    });

    test('can be changed only within 15 minutes after a login, and only by its user', async () => {
      const { person, browser } = await withApp();
      const { person: other, browser: others } = await withApp();
      const page = `${overview}/app`;
      const [foreign] = formsOf(await others.get(page)).filter(({ action }) => action === page);
      const taken = await browser.submit(page, page, { ticket: foreign?.values.ticket ?? '' });
      assert.equal(taken.status, 400);
      await tablesOf(instance.database)
        .updateTable('crm_sessions')
        .set({ created_at: new Date(Date.now() - 16 * 60_000) })
        .where('user_id', '=', person.id)
        .execute();
      const location = async () => (await browser.get(`${overview}/remove-app`)).headers.get('location');
      await soonerThan(1000, async () => (await location()) !== null);
      assert.equal(
        await location(),
        '/setup/login?done=log-in-again&next=%2Fsetup%2Fme%2Fsecond-factor%2Fremove-app',
      );
      const { text } = await browser.get((await location()) ?? '');
      assert.match(text, /\b15 minutes\b/);
      assert.equal((await post(other)).status, 401);
    });

    test('forms opened before the 15 minutes have passed change nothing afterwards', async () => {
      const { person, browser } = await withApp();
      const passkey = await addPasskey(instance, person.id);
      const page = `${overview}/app`;
      const shown = await browser.get(page);
      const [form] = formsOf(shown).filter(({ action }) => action === page);
      const app = { ...form?.values, code: codeOf(secretIn(shown), 1) };
      const fields: Record<string, Record<string, string>> = {
        app,
        passkey: { name: 'Phone', credential: '{}' },
        'remove-passkey': { id: passkey },
        'recovery-codes': {},
        'remove-app': {},
      };
      const _csrf = form?.values._csrf ?? '';
      const loggedInMinutesAgo = async (minutes: number, isRecent: boolean) => {
        await tablesOf(instance.database)
          .updateTable('crm_sessions')
          .set({ created_at: new Date(Date.now() - minutes * 60_000) })
          .where('user_id', '=', person.id)
          .execute();
        await until(
          async () => (await browser.get(`${overview}/remove-app`)).status === (isRecent ? 200 : 303),
          'the cached session to be replaced',
        );
      };
      await loggedInMinutesAgo(16, false);
      const unchanged = await factorsOf(person);
      for (const [path, values] of Object.entries(fields)) {
        const page = `${overview}/${path}`;
        const answers = [
          await browser.get(`${page}?${new URLSearchParams(values)}`),
          await browser.post(page, { _csrf, ...values }),
        ];
        for (const answer of answers)
          assert.deepEqual(
            [answer.status, answer.headers.get('location')],
            [303, `/setup/login?done=log-in-again&next=${encodeURIComponent(page)}`],
          );
      }
      assert.deepEqual(await factorsOf(person), unchanged);
      assert.deepEqual(
        unchanged.map((rows) => rows.length),
        [1, 1, 10],
      );
      await loggedInMinutesAgo(14, true);
      for (const path of ['recovery-codes', 'remove-passkey', 'remove-app']) {
        const answer = await browser.post(`${overview}/${path}`, { _csrf, ...fields[path] });
        assert.ok(!answer.headers.get('location')?.startsWith('/setup/login'), path);
      }
      assert.equal((await post(person)).status, 200, 'the second factors have been removed');
    });

    test('after removal, the password is sufficient and the old recovery codes are invalid', async () => {
      const { person, browser, recovery } = await withApp();
      const answer = await browser.submit(`${overview}/remove-app`, `${overview}/remove-app`);
      assert.equal(answer.status, 303);
      assert.equal((await post(person)).status, 200);
      await setUpApp(browser);
      assert.equal((await post(person, { otp: recovery[0] ?? '' })).status, 401);
    });

    test('changing the password requires no code and keeps the session', async () => {
      const { person, browser } = await withApp();
      const fields = { current: person.password, new: 'another password', again: 'another password' };
      const answer = await browser.submit('/setup/me', '/setup/me/password', fields);
      assert.equal(answer.headers.get('location'), '/setup/me?done=password-changed');
      assert.ok(await isIn(browser));
    });

    test('a reset by the operator ends every session, and the password is sufficient', async () => {
      const { person, browser } = await withApp();
      await addPasskey(instance, person.id);
      await transaction(instance.database, async (tables) =>
        resetSecondFactor(tables, command(instance), await findUserBy(tables, person.id)),
      );
      await soonerThan(1000, async () => !(await isIn(browser)));
      assert.equal((await post(person)).status, 200);
      assert.deepEqual(await countsOf(person), [0, 0, 0]);
    });

    test('another authenticator app replaces the first one, and recovery codes remain', async () => {
      const { person, browser, secret, recovery } = await withApp();
      const page = `${overview}/app`;
      const shown = await browser.get(page);
      const next = secretIn(shown);
      const form = formsOf(shown).find(({ action }) => action === page);
      await forgetStep(instance, person.id);
      const code = codeOf(next);
      const done = await browser.post(page, { ...form?.values, code });
      assert.equal(done.headers.get('location'), `${overview}?done=app-set-up`, problemOf(done));
      assert.deepEqual(await countsOf(person), [1, 0, 10]);
      assert.equal((await post(person, { otp: code })).status, 401, 'the code of the setup has been used');
      await forgetStep(instance, person.id);
      assert.equal((await post(person, { otp: codeOf(secret) })).status, 401);
      assert.equal((await post(person, { otp: codeOf(next) })).status, 200);
      assert.equal((await post(person, { otp: recovery[0] ?? '' })).status, 200);
    });

    test('removes one of several passkeys, but none of another user', async () => {
      const { person, browser } = await withApp();
      const other = await withApp();
      const [laptop, phone] = [
        await addPasskey(instance, person.id),
        await addPasskey(instance, person.id, 'Phone'),
      ];
      const foreign = await addPasskey(instance, other.person.id);
      const page = `${overview}/remove-passkey`;
      const _csrf = await browser.token(`${overview}/app`);
      const confirmation = await browser.get(`${page}?id=${foreign}`);
      assert.equal(confirmation.headers.get('location'), overview);
      const rejected = await browser.post(page, { _csrf, id: foreign });
      assert.equal(rejected.headers.get('location'), overview);
      const removed = await browser.post(page, { _csrf, id: laptop });
      assert.equal(removed.headers.get('location'), `${overview}?done=passkey-removed`);
      const [, passkeys = []] = await factorsOf(person);
      assert.deepEqual(
        passkeys.map((row) => (JSON.parse(row) as { id: string }).id),
        [phone],
      );
      assert.deepEqual(
        [await countsOf(person), await countsOf(other.person)],
        [
          [1, 1, 10],
          [1, 1, 10],
        ],
      );
      assert.ok(await isIn(browser));
    });

    test('changes are in the activity of every organization of the user', async () => {
      const beta = await instance.organization(fresh('beta'));
      const person = await makePerson(instance, [{ organization: acme }, { organization: beta }]);
      const browser = await signIn(instance, person);
      await setUpApp(browser);
      const id = await addPasskey(instance, person.id);
      const _csrf = await browser.token(`${overview}/app`);
      for (const [form, fields] of [
        ['recovery-codes', {}],
        ['remove-passkey', { id }],
        ['remove-app', {}],
      ] as const)
        await browser.post(`${overview}/${form}`, { _csrf, ...fields });
      for (const organization of [acme, beta]) {
        const entries = (await activityOf(instance, organization.id)).filter(
          ({ actor, did }) => actor === `user ${person.id}` && !did.startsWith('login '),
        );
        assert.deepEqual(
          entries.map(({ did }) => did.replace(/\d+$/, 'n')),
          [
            'set up authenticator app session n',
            'create recovery codes session n',
            'remove passkey session n',
            'remove authenticator app session n',
          ],
        );
      }
    });

    test("another user's recovery code is wrong, and remains valid", async () => {
      const [{ person }, other] = [await withApp(), await withApp()];
      const [otp = ''] = other.recovery;
      assert.equal((await post(person, { otp })).status, 401);
      assert.equal((await post(other.person, { otp })).status, 200);
    });

    test('verifying an account by a mailed reset removes second factors, which an attacker might have set up', async () => {
      const { person, secret } = await withApp();
      await transaction(instance.database, async (tables) => {
        const [reset] = await createMailedResets(tables, person.email);
        const visitor = { requestId: 'r', audited: true };
        await redeemReset(tables, visitor, {
          ...(reset ?? assert.fail()),
          password: 'a password of the holder',
        });
      });
      const holder = { ...person, password: 'a password of the holder' };
      assert.equal((await post(holder)).status, 200);
      // A verified account keeps them, because a mailbox is only one factor.
      await setUpApp(await signIn(instance, holder));
      await transaction(instance.database, async (tables) => {
        const [reset] = await createMailedResets(tables, person.email);
        const visitor = { requestId: 'r', audited: true };
        await redeemReset(tables, visitor, {
          ...(reset ?? assert.fail()),
          password: 'another of the holder',
        });
      });
      const answer = await post({ ...person, password: 'another of the holder' }, { otp: codeOf(secret) });
      assert.equal(answer.json.code, 'second_factor_required');
    });

    test('starts no session without a second factor, even if the password was validated before the setup', async () => {
      const { person } = await withApp();
      const begin = (secondFactor: boolean) =>
        transaction(instance.database, (tables) =>
          startSession(tables, person.id, {
            durationMs: 60_000,
            userAgent: '',
            tokenVersion: 1,
            proof: { method: 'Password', secondFactor },
          }),
        );
      assert.equal(await begin(false), undefined);
      assert.ok(await begin(true));
    });

    describe('required', () => {
      let node: Node;
      let admin: Person;
      let member: Person;
      before(async () => {
        node = await secondNode(instance);
        admin = await makePerson(instance, [{ organization: acme }]);
        member = await makePerson(instance, [
          { organization: acme, grants: [{ object: 'leads', actions: ['list'] }] },
        ]);
      });
      after(async () => {
        await require('off');
        await node.close();
      });

      test('for administrators: they can only set one up, even in older sessions', async () => {
        const browser = await signIn(instance, admin);
        const session = await logIn(instance, admin);
        await require('administrators');
        const refused = await instance.call('GET /api/v1/leads', { headers: session.byToken });
        assert.equal(refused.status, 401);
        assertErrorShape(refused);
        assert.equal(refused.json.code, 'second_factor_missing');
        assert.equal((await post(admin)).json.code, 'second_factor_missing');
        const everywhere = await instance.call('POST /auth/logout-everywhere', { headers: session.byToken });
        assert.deepEqual([everywhere.status, everywhere.json.code], [401, 'second_factor_missing']);
        const { needsSecondFactor } = instance.app;
        for (const profiles of [
          ['other', 'administrator'],
          ['administrator', 'other'],
        ])
          assert.ok(needsSecondFactor(profiles.map((profile) => ({ profile }))), String(profiles));
        assert.ok(!needsSecondFactor([{ profile: 'other' }, { profile: 'read-only' }]));
        const loggedOut = await instance.call('POST /auth/logout', { headers: session.byToken });
        assert.equal(loggedOut.status, 200);
        for (const page of ['/setup', '/setup/me', '/setup/o/acme/keys', '/setup/o/acme/data/leads']) {
          const answer = await browser.get(page);
          assert.equal(answer.headers.get('location'), overview, page);
        }
        const _csrf = await browser.token(`${overview}/app`);
        for (const form of [
          '/setup/me/password',
          '/setup/me/logout-everywhere',
          '/setup/o/acme/keys/create',
        ]) {
          assert.equal((await browser.post(form, { _csrf })).headers.get('location'), overview, form);
        }
        assert.equal((await post(member)).status, 200, 'other users are unaffected');
        assert.match((await browser.get(overview)).text, /requires a second factor/);

        // New logins are also redirected to the setup page.
        const again = await signIn(instance, admin);
        assert.equal((await again.get('/setup')).headers.get('location'), overview);
        await setUpApp(again);
        assert.equal((await again.get('/setup')).headers.get('location'), '/setup/o/acme');
        await again.submit(`${overview}/remove-app`, `${overview}/remove-app`);
        assert.equal(
          (await again.get('/setup')).headers.get('location'),
          overview,
          'redirected again after removal',
        );
        const out = await again.post('/setup/logout', { _csrf: await again.token(`${overview}/app`) });
        assert.equal(out.headers.get('location'), '/setup/login?done=logged-out');
      });

      test('for everyone', async () => {
        await require('everyone');
        assert.equal((await post(member)).json.code, 'second_factor_missing');
        const key = await acme.keyWith([{ object: 'leads', actions: ['list'] }]);
        assert.equal((await instance.call('GET /api/v1/leads', { key })).status, 200, 'keys are not users');
      });
    });

    test('wrong codes are limited per user, across pages, API and devices', async () => {
      const { person, recovery } = await withApp();
      const browser = await firstStep(person);
      for (let count = 0; count < 3; count++) {
        assert.equal((await browser.submit(step, step, { code: '000000' })).status, 401);
      }
      const device = deviceOf(await post(person, { otp: recovery[0] ?? '' }));
      for (let count = 0; count < 2; count++) {
        assert.equal((await post(person, { otp: 'AAAA-BBBB-CCCC-DDDD' }, { cookie: device })).status, 401);
      }
      const limited = await post(person, { otp: recovery[1] ?? '' }, { cookie: device });
      assert.equal(limited.status, 429);
      assertErrorShape(limited);
      const page = await browser.submit(step, step, { code: recovery[1] ?? '' });
      assert.equal(page.status, 429);
      assert.ok(Number(page.headers.get('retry-after')) > 0);
      assert.match(problemOf(page), /Too many attempts/);
    });
  });
}
