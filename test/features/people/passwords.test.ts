// How passwords are kept and compared.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { argon2i, hash } from 'argon2';
import { platform } from '../../../engine/platform/index.ts';
import { type Organization, onBothDrivers } from '../../support/instance.ts';
import { makePerson, type Person } from '../../support/people.ts';

/** OWASP's minimum for argon2id: 19 MiB, two passes, one lane; a salt of 16 bytes and a hash of 32. */
const stated = /^\$argon2id\$v=19\$m=19456,p=1,t=2\$[\w+/]{22}\$[\w+/]{43}$/;

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
    const users = platform(instance().database).selectFrom('crm_users').select('password_hash');
    return (await users.where('id', '=', id).executeTakeFirstOrThrow()).password_hash;
  };
  const store = ({ id }: Person, password_hash: string) =>
    platform(instance().database)
      .updateTable('crm_users')
      .set({ password_hash })
      .where('id', '=', id)
      .execute();

  test('are stored as argon2id with the stated parameters, each with a salt of its own', async () => {
    const [one, two] = [await stored(await person()), await stored(await person())];
    assert.match(one, stated);
    assert.match(two, stated);
    assert.notEqual(one, two);
  });

  const weaker = {
    'less memory': { memoryCost: 8192, timeCost: 2, parallelism: 1 },
    'fewer passes': { memoryCost: 19_456, timeCost: 1, parallelism: 1 },
    'less of both': { memoryCost: 4096, timeCost: 1, parallelism: 1 },
    argon2i: { memoryCost: 19_456, timeCost: 2, parallelism: 1, type: argon2i },
  } as const;
  for (const [name, parameters] of Object.entries(weaker)) {
    test(`made with ${name} are stored anew at the next login, not before`, async () => {
      const ann = await person();
      const old = await hash(ann.password, parameters);
      await store(ann, old);
      assert.equal(await status(ann, 'another password'), 401);
      assert.equal(await stored(ann), old);

      assert.equal(await status(ann, ann.password), 200);
      const anew = await stored(ann);
      assert.match(anew, stated);
      assert.equal(await status(ann, 'another password'), 401);
      assert.equal(await status(ann, ann.password), 200);
      assert.equal(await stored(ann), anew, 'once is enough');
    });
  }

  test('made with the stated parameters are left alone', async () => {
    const ann = await person();
    const before = await stored(ann);
    assert.equal(await status(ann, ann.password), 200);
    assert.equal(await stored(ann), before);
  });

  describe('are compared whole', () => {
    for (const length of [72, 73, 128, 1000]) {
      test(`with ${length} characters`, async () => {
        const password = 'p'.repeat(length);
        const ann = await person(password);
        assert.equal(await status(ann, password), 200);
        assert.equal(await status(ann, password.slice(0, -1)), 401);
        assert.equal(await status(ann, `${password}p`), 401);
        assert.equal(await status(ann, `${password.slice(0, -1)}q`), 401);
      });
    }

    test('with characters outside of ASCII, composed or not', async () => {
      const ann = await person('Größe 東京 🔑'.normalize('NFC'));
      assert.equal(await status(ann, 'Größe 東京 🔑'.normalize('NFC')), 200);
      assert.equal(await status(ann, 'Größe 東京 🔑'.normalize('NFD')), 200);
      assert.equal(await status(ann, 'Grosse 東京 🔑'), 401);
    });
  });

  test('have 8 to 1,000 characters', async () => {
    await person('12345678');
    for (const password of ['', '1234567', 'x'.repeat(1001)]) {
      await assert.rejects(person(password), /a password has 8 to 1,000 characters/);
    }
  });
});
