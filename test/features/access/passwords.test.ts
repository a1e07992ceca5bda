// Passwords: stored hashes, comparison, and rules for new passwords.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { argon2i, hash } from 'argon2';
import { tablesOf } from '../../../engine/tables/handle.ts';
import { checkNewPassword, checkPassword } from '../../../plugins/access/identity/passwords.ts';
import { changePassword } from '../../../plugins/access/identity/users.ts';
import { takes } from '../../support/clock.ts';
import { administratorOf, optionOf, problemOf, shownIn, signIn, visitor } from '../../support/forms.ts';
import { type Organization, onBothDrivers } from '../../support/instance.ts';
import { hashesDuring, realCost } from '../../support/low-cost.ts';
import { makePerson, type Person } from '../../support/people.ts';

realCost();

/** OWASP's minimum for argon2id (19 MiB, two passes, one lane) with a 16-byte salt and a 32-byte hash. */
const expectedHash = /^\$argon2id\$v=19\$m=19456,p=1,t=2\$[\w+/]{22}\$[\w+/]{43}$/;

onBothDrivers('passwords', (instance) => {
  let acme: Organization;
  before(async () => {
    acme = await instance().organization('acme');
  });
  const person = (password?: string) =>
    makePerson(instance(), [{ organization: acme }], password === undefined ? {} : { password });
  const status = async ({ email }: Person, password: string) =>
    (await instance().call('POST /auth/login', { body: { email, password } })).status;
  const stored = async ({ id }: Person) => {
    const users = tablesOf(instance().database).selectFrom('crm_users').select('password_hash');
    return (await users.where('id', '=', id).executeTakeFirstOrThrow()).password_hash;
  };
  const store = ({ id }: Person, password_hash: string) =>
    tablesOf(instance().database)
      .updateTable('crm_users')
      .set({ password_hash })
      .where('id', '=', id)
      .execute();

  test('are stored as argon2id with the expected parameters and a unique salt', async () => {
    const ann = await person();
    const [one, two] = [await stored(ann), await stored(await person())];
    await changePassword(tablesOf(instance().database), ann, 'another password of hers');
    const hashes = [one, two, await stored(ann)];
    for (const each of hashes) assert.match(each, expectedHash);
    const salts = hashes.map((each) => each.split('$')[4]);
    assert.equal(new Set(salts).size, hashes.length);
  });

  const weaker = {
    'less memory': { memoryCost: 8192, timeCost: 2, parallelism: 1 },
    'fewer passes': { memoryCost: 19_456, timeCost: 1, parallelism: 1 },
    'less of both': { memoryCost: 4096, timeCost: 1, parallelism: 1 },
    argon2i: { memoryCost: 19_456, timeCost: 2, parallelism: 1, type: argon2i },
  } as const;
  for (const [name, parameters] of Object.entries(weaker)) {
    test(`hashed with ${name} are rehashed at the next successful login`, async () => {
      const ann = await person();
      const old = await hash(ann.password, parameters);
      await store(ann, old);
      assert.equal(await status(ann, 'another password'), 401);
      assert.equal(await stored(ann), old);

      assert.equal(await status(ann, ann.password), 200);
      const renewed = await stored(ann);
      assert.match(renewed, expectedHash);
      assert.equal(await status(ann, 'another password'), 401);
      assert.equal(await status(ann, ann.password), 200);
      assert.equal(await stored(ann), renewed, 'rehashed only once');
    });
  }

  test('hashed with the expected parameters are not rehashed', async () => {
    const ann = await person();
    const before = await stored(ann);
    assert.equal(await status(ann, ann.password), 200);
    assert.equal(await stored(ann), before);
  });

  describe('are compared completely', () => {
    for (const length of [72, 73, 128, 255]) {
      test(`with ${length} characters`, async () => {
        const password = 'p'.repeat(length);
        const ann = await person(password);
        assert.equal(await status(ann, password), 200);
        assert.equal(await status(ann, password.slice(0, -1)), 401);
        assert.equal(await status(ann, `${password}p`), 401);
        assert.equal(await status(ann, `${password.slice(0, -1)}q`), 401);
      });
    }

    test('with non-ASCII characters, composed or decomposed', async () => {
      const ann = await person('Größe² 東京 🔑'.normalize('NFC'));
      assert.equal(await status(ann, 'Größe² 東京 🔑'.normalize('NFC')), 200);
      assert.equal(await status(ann, 'Größe² 東京 🔑'.normalize('NFD')), 200);
      for (const wrong of ['Grosse² 東京 🔑', 'Größe2 東京 🔑']) assert.equal(await status(ann, wrong), 401);
    });
  });

  test('have 8 to 256 characters, counted after normalization', async () => {
    for (const password of [
      'q7Zm2_xK',
      'p'.repeat(256),
      '🔑'.repeat(256),
      'é'.normalize('NFD').repeat(256),
      // Each character has four UTF-16 units, which is the maximum.
      '\u{1109a}'.normalize('NFD').repeat(256),
    ]) {
      const ann = await person(password);
      assert.equal(await status(ann, password), 200);
      assert.equal(await status(ann, `${password}p`), 401);
    }
    const [short, long] = [
      ['', '1234567', '🔑'.repeat(7)],
      ['x'.repeat(257), '🔑'.repeat(257), '\u0301'.repeat(600_000)],
    ];
    for (const password of [...short, ...long])
      await assert.rejects(person(password), /the password must have 8 to 256 characters/);
  });

  test('of any length are compared in the same time, and overlong ones are always wrong', async () => {
    const ann = await person();
    const hash_ = await stored(ann);
    const candidates = ['', 'x'.repeat(257), '\u0315\u0300'.repeat(500_000), 'x'.repeat(1_000_000)];
    for (const hashesOfUser of [[hash_], []]) {
      for (const password of ['a wrong password', ...candidates]) {
        const hashes = await hashesDuring(async () =>
          assert.ok(!(await checkPassword(password, hashesOfUser)).includes(true)),
        );
        // Any input results in one hash of a short string at the usual cost. Overlong passwords are not even
        // normalized.
        assert.deepEqual(hashes, ['m=19456,t=2, a short password'], `${password.length} characters`);
      }
    }
    await Promise.all(takes(100, () => candidates.map((password) => checkPassword(password, [hash_]))));
  });

  describe('that are easy to guess are rejected', () => {
    const common = 'this password is too common. Choose another.';
    const own = 'the password must not be the user’s email address or name';
    const cases: readonly [password: string, problem: string | undefined][] = [
      ['12345678', common],
      ['password1', common],
      ['PASSWORD1', common],
      ['Pass-Word-1', common],
      ['qwertyuiop', common],
      ['ｐａｓｓｗｏｒｄ１', common],
      ['P@ssw0rd', common],
      ['ada.lovelace@people.example', own],
      ['Ada-Lovelace', own],
      ['AdaLovelace1815!', own],
      ['1815 Ada Lovelace', own],
      ['people.example', own],
      ['People2027', own],
      ['ada lovelace wrote the first program', undefined],
      ['correct horse battery staple', undefined],
    ];
    for (const [password, problem] of cases) {
      test(password, async () => {
        const refused = (error: Error) => error.message === problem;
        const email = 'ada.lovelace@people.example';
        const check = () => checkNewPassword(password, email);
        await (problem === undefined ? check() : assert.rejects(check, refused));
      });
    }

    test('but not digits, even if the email address has no letters before the @', async () => {
      for (const email of ['007@people.example', '_@people.example'])
        await checkNewPassword('8391047265', email);
      await assert.rejects(checkNewPassword('00712345', '00712345@people.example'), { message: own });
    });

    test('on the command line, in an invitation, a change and a reset', async () => {
      const ann = await person();
      const browser = await signIn(instance(), ann);
      for (const [password, problem] of [
        ['password1', common],
        [ann.email, own],
      ] as const) {
        const fields = { current: ann.password, new: password, again: password };
        const changed = await browser.submit('/setup/me', '/setup/me/password', fields);
        assert.equal(problemOf(changed), problem);
      }
      const admin = await signIn(instance(), administratorOf(acme));
      const page = '/setup/o/acme/members';
      const invited = await admin.submit(page, `${page}/invite`, {
        email: 'bea@people.example',
        profile: await optionOf(admin, `${page}/invite`, 'read-only'),
      });
      const invite = new URL(shownIn(invited, 'link')).pathname;
      const code = shownIn(invited, 'invitation-code');
      const accepted = await visitor(instance()).submit(invite, invite, { code, password: 'password1' });
      assert.equal(problemOf(accepted), common);
      const made = await admin.submit(page, `${page}/reset`, { id: ann.id });
      const reset = new URL(shownIn(made, 'reset-link')).pathname;
      const fields = { code: shownIn(made, 'reset-code'), new: 'password1', again: 'password1' };
      assert.equal(problemOf(await visitor(instance()).submit(reset, reset, fields)), common);
      await assert.rejects(person('password1'), { message: common });
      assert.equal(await status(ann, ann.password), 200, 'the password has not changed');
    });

    test('but one set earlier still works', async () => {
      const ann = await person();
      await store(ann, await hash('password1', { memoryCost: 8192, timeCost: 2, parallelism: 1 }));
      assert.equal(await status(ann, 'password1'), 200);
      assert.equal(await status(ann, 'password1'), 200, 'rehashed with the current parameters');
    });
  });
});
