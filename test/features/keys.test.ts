// API keys: their format, one 401 for every invalid key, changes that apply within a second, and grants in every
// combination.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { crc32 } from 'node:zlib';
import fastify from 'fastify';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { listRows } from '../../engine/tables/rows.ts';
import { expiringKeys } from '../../plugins/access/api-keys/check.ts';
import { keyAccesses } from '../../plugins/access/api-keys/key-access.ts';
import { publicIdOf } from '../../plugins/access/api-keys/key-format.ts';
import { keyRows, revokeKey, rotateKey } from '../../plugins/access/api-keys/keys.ts';
import { lastUsed } from '../../plugins/access/last-used/index.ts';
import { invite } from '../../plugins/access/members/invites.ts';
import type { Grant } from '../../plugins/access/profiles/grants.ts';
import { changeProfile, createProfile, deleteProfile } from '../../plugins/access/profiles/profiles.ts';
import { type Organization, onBothDrivers, startInstance } from '../support/instance.ts';
import {
  command,
  dump,
  exchange,
  fresh,
  logIn,
  makePerson,
  type Node,
  secondNode,
  soonerThan,
  told,
} from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import {
  definitions,
  hasBody,
  make,
  missing,
  type Operation,
  operations,
  pathOf,
  requestOf,
} from '../support/records.ts';
import { assertErrorShape, errorOf } from '../support/scenario.ts';
import { untilWaiting, whileUncommitted } from '../support/uncommitted.ts';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Returns a well-formed key, built independently of the engine. */
function keyOf(publicId: string, secret: string, prefix = 'crm_'): string {
  const body = `${prefix}${publicId}_${secret}`;
  let check = '';
  for (let rest = crc32(body), place = 0; place < 6; place++, rest = Math.floor(rest / 62)) {
    check = alphabet.charAt(rest % 62) + check;
  }
  return body + check;
}
const random = (length: number) =>
  [...randomBytes(length)].map((byte) => alphabet.charAt(byte % alphabet.length)).join('');

test('keys have the prefix in KEY_PREFIX, and other keys are invalid', async () => {
  const instance = await startInstance('embedded', { environment: { KEY_PREFIX: 'acme_' } });
  try {
    const { key } = await instance.organization('acme');
    assert.match(key, /^acme_/);
    assert.equal((await instance.call('GET /api/v1/leads', { key })).status, 200);
    const other = keyOf(key.slice(5, 15), key.slice(16, 59));
    assert.equal((await instance.call('GET /api/v1/leads', { key: other })).status, 401);
  } finally {
    await instance.close();
  }
});

test('a key with a typo is recognized without the database', () => {
  const key = keyOf('0123456789', 'x'.repeat(43));
  assert.equal(publicIdOf('crm_', key), '0123456789');
  for (const wrong of [
    ...['', 'crm_', key.slice(0, -1), `${key}0`, key.replace('x', 'y')],
    ...[`${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`, key.replace('crm_', 'crn_')],
    // Their checksums are correct.
    keyOf('0123456789', 'x'.repeat(43), 'crn_'),
    keyOf('0123456789', 'x'.repeat(42)),
    keyOf('012345678-', 'x'.repeat(43)),
    keyOf('01234567890', 'x'.repeat(42)),
  ])
    assert.equal(publicIdOf('crm_', wrong), undefined, wrong);
  assert.equal(publicIdOf('acme_', key), undefined);
});

test('times of last use are stored when the service stops, and a failure to store them is only logged', async () => {
  for (const failure of [undefined, Object.assign(new Error('a secret'), { code: 'ECONNREFUSED' })]) {
    const lines: string[] = [];
    const app = fastify({ logger: { level: 'warn', stream: { write: (line) => void lines.push(line) } } });
    const stored: (readonly [id: string, value: number])[] = [];
    const uses = lastUsed<number>(app, async (batch) => {
      uses.record('4', 4);
      if (failure !== undefined) throw failure;
      stored.push(...batch);
    });
    for (const [id, value] of [
      ['1', 1],
      ['2', 2],
      ['1', 3],
    ] as const)
      uses.record(id, value);
    assert.deepEqual([uses.get('1'), uses.get('3')], [3, undefined]);
    await app.close();
    assert.deepEqual([uses.get('1'), uses.get('4')], [undefined, 4], 'a use while others are stored is kept');
    const expected = [
      ['1', 3],
      ['2', 2],
    ];
    assert.deepEqual(stored, failure === undefined ? expected : []);
    const logged = lines.map((line) => JSON.parse(line) as { readonly msg: string; readonly code: string });
    assert.deepEqual(
      logged.map(({ msg, code }) => [msg, code]),
      failure === undefined ? [] : [['failed to store last-used times', 'ECONNREFUSED']],
    );
    assert.doesNotMatch(lines.join(), /a secret/);
  }
});

onBothDrivers('API keys', (instance, driver) => {
  let organization: Organization;
  let foreign: string;
  let second: Node;
  before(async () => {
    organization = await instance().organization('alpha');
    const beta = await instance().organization('beta');
    foreign = (await make(instance(), beta.key, { name: 'leads' })).id;
    second = await secondNode(instance());
  });
  after(() => second.close());
  const by = () => command(instance());
  const nodes = () => [instance(), second];

  test('a key has a prefix, a public ID, a 256-bit secret and a checksum, and only its hash is stored', async () => {
    const keys = await Promise.all(Array.from({ length: 20 }, () => organization.makeKey()));
    for (const { key } of keys) {
      const [, publicId = '', secret = ''] =
        /^crm_([0-9A-Za-z]{10})_([0-9A-Za-z]{43})[0-9A-Za-z]{6}$/.exec(key) ?? [];
      assert.equal(key, keyOf(publicId, secret), 'the checksum is a CRC-32 of the preceding text');
    }
    assert.equal(new Set(keys.map(({ key }) => key.slice(0, 14))).size, keys.length);
    const stored = await dump(instance());
    for (const { key } of keys) assert.ok(!stored.includes(key.slice(15)), 'the secret is not stored');
  });

  describe('Authorization without the Bearer scheme explains how to send the key, whether or not it exists', () => {
    const withoutScheme: Readonly<Record<string, (key: string) => string>> = {
      nothing: () => '',
      'the key alone': (key) => key,
      'no space': (key) => `Bearer${key}`,
      Basic: (key) => `Basic ${key}`,
      'a scheme that starts with it': (key) => `Bearers ${key}`,
      Token: (key) => `Token ${key}`,
      'Basic with the key as password': (key) => `Basic ${Buffer.from(`x:${key}`).toString('base64')}`,
      'a colon': (key) => `Bearer: ${key}`,
      'a tab': (key) => `Bearer\t${key}`,
    };
    for (const [name, authorization] of Object.entries(withoutScheme)) {
      test(name, async () => {
        for (const request of ['GET /api/v1/leads', `DELETE /api/v1/leads/${foreign}`, 'GET /auth/me']) {
          const [known, unknown] = await Promise.all(
            [organization.key, keyOf(random(10), random(43))].map((key) =>
              exchange(instance().url, request, ['authorization', authorization(key)]),
            ),
          );
          assert.ok(known && unknown);
          assertErrorShape(known);
          assert.deepEqual([known.status, known.headers.get('www-authenticate')], [401, 'Bearer']);
          assert.deepEqual(errorOf(known), {
            error: 'Send the key as "Authorization: Bearer <key>"',
            code: 'unauthenticated',
          });
          assert.deepEqual(told(known), told(unknown));
        }
      });
    }
  });

  describe('all invalid keys return the same 401', () => {
    let unauthenticated: ReturnType<typeof told>;
    before(async () => {
      const answer = await exchange(instance().url, 'GET /api/v1/leads', []);
      assertErrorShape(answer);
      assert.deepEqual([answer.status, answer.headers.get('www-authenticate')], [401, 'Bearer']);
      assert.equal(errorOf(answer).error, 'Missing or invalid credentials');
      unauthenticated = told(answer);
    });
    const assertUnauthenticated = async (...authorization: string[]) => {
      const head = authorization.flatMap((value) => ['authorization', value]);
      for (const request of ['GET /api/v1/leads', `DELETE /api/v1/leads/${foreign}`, 'POST /api/v1/cases']) {
        const answer = await exchange(instance().url, request, head);
        assert.deepEqual(told(answer), unauthenticated, `${authorization} to ${request}`);
      }
    };

    const malformed: Readonly<Record<string, (key: string) => string>> = {
      'the scheme alone': () => 'Bearer',
      'no key': () => 'Bearer ',
      quotes: (key) => `Bearer "${key}"`,
      'two keys': (key) => `Bearer ${key} ${key}`,
      'a comma after it': (key) => `Bearer ${key},`,
      'two schemes': (key) => `Bearer Bearer ${key}`,
      cut: (key) => `Bearer ${key.slice(0, -1)}`,
      'one more': (key) => `Bearer ${key}x`,
      'lower case': (key) => `Bearer ${key.toLowerCase()}`,
      'another prefix': (key) => `Bearer ${key.replace('crm_', 'cr_')}`,
      'the prefix alone': () => 'Bearer crm_',
      'the public id alone': (key) => `Bearer ${key.slice(0, 14)}`,
      'the prefix twice': (key) => `Bearer crm_${key}`,
      'a typo': (key) => `Bearer ${key.slice(0, 20)}${key[20] === 'x' ? 'y' : 'x'}${key.slice(21)}`,
      'letters beyond ASCII': (key) => `Bearer ${key.slice(0, -1)}\xe9`,
      'percent-encoded': (key) => `Bearer ${key.replaceAll('_', '%5F')}`,
      '8,000 characters': () => `Bearer crm_${'x'.repeat(8000)}`,
      SQL: () => `Bearer crm_' or 1=1 --`,
      'no JWT': () => 'Bearer a.b.c',
      unknown: () => `Bearer ${keyOf(random(10), random(43))}`,
      'wrong secret': (key) => `Bearer ${keyOf(key.slice(4, 14), random(43))}`,
      'the secret of another key': (key) => `Bearer ${keyOf(random(10), key.slice(15, 58))}`,
    };
    for (const [name, authorization] of Object.entries(malformed)) {
      test(name, () => assertUnauthenticated(authorization(organization.key)));
    }

    test('sent twice', () => assertUnauthenticated('Bearer x', `Bearer ${organization.key}`));
    test('expired', async () => {
      const { key } = await organization.makeKey({ expiresAt: new Date(Date.now() - 1) });
      await assertUnauthenticated(`Bearer ${key}`);
    });
    test('revoked', async () => {
      const { id, key } = await organization.makeKey();
      await transaction(instance().database, (tables) => revokeKey(tables, by(), organization.id, id));
      await assertUnauthenticated(`Bearer ${key}`);
    });
    test('sent anywhere but in the header', async () => {
      const { key } = organization;
      for (const [request, head] of [
        [`GET /api/v1/leads?access_token=${key}&api_key=${key}`, []],
        ['GET /api/v1/leads', ['x-api-key', key, 'cookie', `crm_session=${key}; Authorization=${key}`]],
      ] as const) {
        assert.deepEqual(told(await exchange(instance().url, request, head)), unauthenticated);
      }
    });
  });

  for (const scheme of ['Bearer ', 'bearer ', 'BEARER  ']) {
    test(`accepts the scheme "${scheme}"`, async () => {
      const head = ['authorization', `${scheme}${organization.key}`];
      assert.equal((await exchange(instance().url, 'GET /api/v1/leads', head)).status, 200);
    });
  }

  describe('changes apply within one second, on every node', () => {
    const becomes = async (key: string, before: number, status: number, change: () => Promise<unknown>) => {
      const statuses = () =>
        Promise.all(nodes().map(async ({ call }) => (await call('GET /api/v1/leads', { key })).status));
      assert.deepEqual(await statuses(), [before, before]);
      await change();
      await soonerThan(1000, async () => (await statuses()).every((found) => found === status));
    };
    const keyOfProfile = async (grants: readonly Grant[]) => {
      const profile = fresh('profile');
      const id = await transaction(instance().database, (tables) =>
        createProfile(tables, by(), organization.id, profile, grants),
      );
      return { profile: id, ...(await organization.makeKey({ profile })) };
    };
    const grant = (actions: Grant['actions']) => [{ object: 'leads', actions }];

    test('a revoked key', async () => {
      const { id, key } = await organization.makeKey();
      await becomes(key, 200, 401, () =>
        transaction(instance().database, (tables) => revokeKey(tables, by(), organization.id, id)),
      );
    });
    test('an expired key', async () => {
      const { key, id } = await organization.makeKey({ expiresAt: new Date(Date.now() + 3_600_000) });
      await becomes(key, 200, 401, async () => {
        // Soon, but late enough for the cached key to be reread first.
        const expiresAt = new Date(Date.now() + 1500);
        await tablesOf(instance().database)
          .updateTable('crm_api_keys')
          .set({ expires_at: expiresAt })
          .where('id', '=', id)
          .execute();
        await until(() => Date.now() >= expiresAt.getTime(), 'the expiry');
      });
    });
    for (const [name, from, to, before, status] of [
      ['a removed grant', ['list', 'read'], ['read'], 200, 403],
      ['an added grant', ['read'], ['list'], 403, 200],
      ['no remaining grants', ['*'], [], 200, 403],
    ] as const) {
      test(name, async () => {
        const { key, profile } = await keyOfProfile(grant(from));
        await becomes(key, before, status, () =>
          transaction(instance().database, (tables) =>
            changeProfile(tables, by(), organization.id, profile, grant(to)),
          ),
        );
      });
    }
    test('another profile', async () => {
      const { key, id } = await keyOfProfile(grant(['read']));
      const { profile } = await keyOfProfile(grant(['list']));
      await becomes(key, 403, 200, () =>
        tablesOf(instance().database)
          .updateTable('crm_api_keys')
          .set({ profile_id: profile })
          .where('id', '=', id)
          .execute(),
      );
    });
  });

  describe('a rotated key works during the overlap, and never beyond its own expiry', () => {
    const hour = 3_600_000;
    for (const [name, lifetime, remaining] of [
      ['without an expiry', null, hour],
      ['that expires later', 2 * hour, hour],
      ['that expires sooner', hour / 2, hour / 2],
    ] as const) {
      test(name, async () => {
        const expiresAt = lifetime === null ? null : new Date(Date.now() + lifetime);
        const old = await organization.makeKey({ expiresAt });
        const before = Date.now();
        const rotated = await transaction(instance().database, (tables) =>
          rotateKey(tables, by(), 'crm_', { organization: organization.id, id: old.id, overlapMs: hour }),
        );
        const after = Date.now();
        const keys = await listRows(tablesOf(instance().database), keyRows, organization.id);
        const expiryOf = (id: string) => keys.find((key) => key.id === id)?.expires_at?.toISOString() ?? null;
        const end = Date.parse(expiryOf(old.id) ?? '');
        if (remaining === lifetime) assert.equal(end, expiresAt?.getTime());
        else assert.ok(end >= before + remaining && end <= after + remaining, expiryOf(old.id) ?? '');
        assert.equal(
          expiryOf(rotated.id),
          expiresAt?.toISOString() ?? null,
          'the new key has the old expiry',
        );
        for (const key of [old.key, rotated.plaintext])
          assert.equal((await instance().call('GET /api/v1/leads', { key })).status, 200);
      });
    }
  });

  for (const access of keyAccesses)
    test(`a rotated key keeps its access: ${access}`, async () => {
      const old = await organization.makeKey({ access });
      const { plaintext } = await transaction(instance().database, (tables) =>
        rotateKey(tables, by(), 'crm_', { organization: organization.id, id: old.id, overlapMs: 3_600_000 }),
      );
      const abilitiesOf = async (key: string) => {
        const call = async (request: string, body?: unknown) =>
          (await instance().call(request, { key, ...(body !== undefined && { body }) })).status;
        const { json } = await instance().call('GET /auth/me', { key });
        const { profile, access } = json.key as Record<string, unknown>;
        return {
          ...{ profile, access, grants: json.grants },
          ...{ reads: await call('GET /api/v1/leads'), creates: await call('POST /api/v1/leads', {}) },
        };
      };
      const abilities = await abilitiesOf(old.key);
      assert.deepEqual([abilities.reads, abilities.creates], [200, access === 'write' ? 201 : 403]);
      assert.equal(abilities.access, access === 'write' ? undefined : access);
      assert.deepEqual(await abilitiesOf(plaintext), abilities);
    });

  test('a rotated key belongs to the user who rotates it, and a key rotated on the command line to no user', async () => {
    const previous = await organization.makeKey({ user: organization.user });
    const { id } = await makePerson(instance(), [{ organization }]);
    for (const [actor, owner] of [
      [{ ...by(), kind: 'user', id } as const, Number(id)],
      [by(), null],
    ] as const) {
      const next = await transaction(instance().database, (tables) =>
        rotateKey(tables, actor, 'crm_', {
          organization: organization.id,
          id: previous.id,
          overlapMs: 3_600_000,
        }),
      );
      const { json } = await instance().call('POST /api/v1/leads', { key: next.plaintext, body: {} });
      assert.equal(json.created_by_id, owner);
    }
  });

  if (driver === 'postgresql')
    test('a key that is revoked during its rotation is not replaced', async () => {
      const { id } = await organization.makeKey();
      const tables = tablesOf(instance().database);
      const keys = async () =>
        (await listRows(tables, keyRows, organization.id)).map((key) => [key.id, key.revoked_at !== null]);
      const before = await keys();
      await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
        await client.query(`begin; update crm_api_keys set revoked_at = now() where id = ${id}`);
        const rotation = assert.rejects(
          transaction(instance().database, (inside) =>
            rotateKey(inside, by(), 'crm_', { organization: organization.id, id, overlapMs: 3_600_000 }),
          ),
          /this key does not exist or is not live/,
        );
        await untilWaiting(client, 'the rotation to wait for the revocation');
        await client.query('commit');
        await rotation;
      });
      assert.deepEqual(
        await keys(),
        before.map(([key, isRevoked]) => [key, isRevoked || key === id]),
      );
    });

  test('crm doctor lists live keys that expire within two weeks, soonest first, and whether they are in use', async () => {
    const day = 86_400_000;
    const { id: organizationId, slug, makeKey } = await instance().organization(fresh('expiring'));
    const tables = tablesOf(instance().database);
    const make = async (days: number | null, usedDaysAgo?: number, columns = {}) => {
      const { id } = await makeKey({ expiresAt: days === null ? null : new Date(Date.now() + days * day) });
      const last_used_at = usedDaysAgo === undefined ? null : new Date(Date.now() - usedDaysAgo * day);
      await tables
        .updateTable('crm_api_keys')
        .set({ last_used_at, ...columns })
        .where('organization_id', '=', organizationId)
        .where('id', '=', id)
        .execute();
      return id;
    };
    const [used, unused, usedBefore] = [await make(13.9, 0.9), await make(3), await make(5, 1.1)];
    for (const [days, columns] of [
      [14.1, {}],
      [-0.1, {}],
      [null, {}],
      [3, { revoked_at: new Date() }],
      [3, { client_id: 'the client of a connected app' }],
    ] as const)
      await make(days, 0, columns);
    const findings = await expiringKeys.run({ database: instance().database });
    for (let count = 0; count < 20; count++) await make(1);
    const limited = await expiringKeys.run({ database: instance().database });
    assert.equal(limited.length, 20, 'at most twenty keys are listed');
    assert.deepEqual(
      findings
        .filter(({ location }) => location === `organization ${slug}`)
        .map(({ message, isNote = false }) => [/the API key (\d+),/.exec(message)?.[1], isNote]),
      [
        [unused, true],
        [usedBefore, true],
        [used, false],
      ],
    );
  });

  test('a node that stops stores when keys and sessions were last used', async () => {
    const person = await makePerson(instance(), [{ organization }]);
    const sessions = [await logIn(instance(), person), await logIn(instance(), person)];
    const keys = [await organization.makeKey(), await organization.makeKey()];
    const node = await secondNode(instance());
    const start = Date.now();
    const [[session = assert.fail()], [key = assert.fail()]] = [sessions, keys];
    const [, { key: unused } = assert.fail()] = keys;
    const wrong = keyOf(unused.slice(4, 14), random(43));
    for (const [call, status] of [
      [{ headers: session.byToken }, 200],
      [{ key: key.key }, 200],
      [{ key: wrong }, 401],
    ] as const)
      assert.equal((await node.call('GET /api/v1/leads', call)).status, status);
    await node.close();
    const tables = tablesOf(instance().database);
    const isSince = (time: Date | null) => time !== null && time.getTime() >= start;
    const storedKeys = await tables.selectFrom('crm_api_keys').select(['id', 'last_used_at']).execute();
    const storedSessions = await tables
      .selectFrom('crm_sessions')
      .select(['id', 'last_seen_at'])
      .where('user_id', '=', person.id)
      .execute();
    assert.deepEqual(
      storedKeys.flatMap(({ id, last_used_at }) => (isSince(last_used_at) ? [id] : [])),
      [key.id],
    );
    assert.deepEqual(
      storedSessions.flatMap(({ id, last_seen_at }) => (isSince(last_seen_at) ? [id] : [])),
      [session.session],
    );
  });

  test('a profile can be deleted if only ended keys and closed invitations use it, which are deleted, too', async () => {
    const past = new Date(Date.now() - 1000);
    const tables = tablesOf(instance().database);
    const usedBy = async (
      endedKeys: readonly object[],
      closedInvites: readonly object[],
    ): Promise<{ id: string; remaining: () => Promise<number> }> => {
      const name = fresh('profile');
      const id = await transaction(instance().database, (inside) =>
        createProfile(inside, by(), organization.id, name, []),
      );
      for (const values of endedKeys) {
        const made = await organization.makeKey({ profile: name });
        await tables.updateTable('crm_api_keys').set(values).where('id', '=', made.id).execute();
      }
      for (const values of closedInvites) {
        const email = `${fresh('guest')}@people.example`;
        const made = await transaction(instance().database, (inside) =>
          invite(inside, by(), { organization: organization.id, email, profile: id }),
        );
        if (Object.keys(values).length > 0)
          await tables.updateTable('crm_invites').set(values).where('id', '=', made.id).execute();
      }
      return {
        id,
        remaining: async () => {
          const rows = await Promise.all(
            (['crm_api_keys', 'crm_invites'] as const).map((table) =>
              tables.selectFrom(table).select('id').where('profile_id', '=', id).execute(),
            ),
          );
          return rows.flat().length;
        },
      };
    };
    const remove = (id: string) =>
      transaction(instance().database, (inside) => deleteProfile(inside, by(), organization.id, id));
    const ended = [{ revoked_at: past }, { expires_at: past }];
    const closed = [{ used_at: past }, { expires_at: past }];
    const [unused, other] = [await usedBy(ended, closed), await usedBy(ended, closed)];
    await remove(unused.id);
    assert.deepEqual([await unused.remaining(), await other.remaining()], [0, 4]);
    const subscribed = await usedBy(ended, closed);
    await tables
      .insertInto('crm_event_subscriptions')
      .values({
        ...{ organization_id: organization.id, profile_id: subscribed.id, url: 'https://a.example/' },
        ...{ actions: '', filter: '', state: 'off', failing_since: null, secret: '' },
        ...{ previous_secret: '', epoch: '', transaction: '1', ledger_id: '0' },
      })
      .execute();
    const { id: employed, remaining } = await usedBy(ended, closed);
    await makePerson(instance(), [{ organization }]).then(({ id }) =>
      tables.updateTable('crm_memberships').set({ profile_id: employed }).where('user_id', '=', id).execute(),
    );
    for (const [used, users] of [
      [await usedBy([...ended, { expires_at: new Date(Date.now() + 3_600_000) }], closed), 'API keys'],
      [await usedBy(ended, [...closed, {}]), 'invitations'],
      [subscribed, 'event subscriptions'],
      [{ id: employed, remaining }, 'members'],
    ] as const) {
      const count = await used.remaining();
      await assert.rejects(remove(used.id), {
        message: `this profile is in use by ${users}. Change their profile first.`,
      });
      assert.equal(await used.remaining(), count);
    }
  });

  if (driver === 'postgresql')
    test('a profile cannot be deleted while it is assigned to a key', async () => {
      const name = fresh('profile');
      const id = await transaction(instance().database, (tables) =>
        createProfile(tables, by(), organization.id, name, []),
      );
      const { id: key } = await organization.makeKey();
      const deletion = () =>
        transaction(instance().database, (tables) => deleteProfile(tables, by(), organization.id, id)).then(
          () => 'deleted',
          ({ message }: Error) => message,
        );
      const change = `update crm_api_keys set profile_id = ${id} where id = ${key}`;
      assert.match(
        await whileUncommitted(instance(), [change], deletion),
        /^this profile is in use by API keys/,
      );
    });

  for (const definition of definitions) {
    test(`${definition.name}: five actions with each kind of grant`, async () => {
      const { id } = await make(instance(), organization.key, definition);
      const other = definition.name === 'leads' ? 'cases' : 'leads';
      const actions = operations.map(({ action }) => action);
      const grants: readonly (readonly [readonly Grant[], (action: Operation['action']) => boolean])[] = [
        ...actions.flatMap((one) => [
          [[{ object: definition.name, actions: [one] }], (action: string) => action === one] as const,
          [[{ object: '*', actions: [one] }], (action: string) => action === one] as const,
        ]),
        [[{ object: definition.name, actions: ['*'] }], () => true],
        [[{ object: '*', actions: ['*'] }], () => true],
        [[{ object: other, actions: ['*'] }], () => false],
        [[], () => false],
        [
          [
            { object: definition.name, actions: ['list'] },
            { object: '*', actions: ['delete'] },
          ],
          (action) => action === 'list' || action === 'delete',
        ],
      ];
      for (const [granted, allows] of grants) {
        const key = await organization.keyWith(granted);
        for (const operation of operations) {
          const { action } = operation;
          const target = action === 'delete' ? (await make(instance(), organization.key, definition)).id : id;
          const body = hasBody(operation) ? { body: {} } : {};
          const answer = await instance().call(requestOf(operation, definition, target), { key, ...body });
          const expected = allows(action) ? operation.success : 403;
          assert.equal(answer.status, expected, `${action} with ${JSON.stringify(granted)}: ${answer.text}`);
          if (expected === 200 || expected === 201) continue;
          assertErrorShape(answer);
          const grant = `${definition.name}:${action}`;
          assert.equal(
            answer.json.error,
            `Your profile does not grant ${action} on ${definition.name}. An administrator can add the grant ${grant}.`,
          );
          assert.equal(answer.json.grant, grant);
        }
      }
    });

    test(`${definition.name}: 401 takes precedence over 403, and 403 over 400 and 404`, async () => {
      const nothing = await organization.keyWith([]);
      for (const operation of operations) {
        const another = definition.name === 'leads' ? foreign : missing;
        const ids = operation.one ? [missing, another, 'no-id'] : [''];
        for (const id of ids) {
          const request = `${requestOf(operation, definition, id)}?page=x&sort=x`;
          const invalidBody = hasBody(operation) ? { body: '{"x":' } : {};
          const status = async (key?: string) => {
            const answer = await instance().call(request, {
              ...invalidBody,
              ...(key !== undefined && { key }),
            });
            assertErrorShape(answer);
            return answer.status;
          };
          assert.equal(await status(), 401);
          assert.equal(await status(`${nothing}x`), 401);
          assert.equal(await status(nothing), 403);
          if (hasBody(operation)) assert.equal(await status(organization.key), 400);
          else if (operation.one) assert.equal(await status(organization.key), 404);
          else if (definition.sort.choices.size > 0) assert.equal(await status(organization.key), 400);
        }
      }
      const reference = definition.fields.find(({ to, readOnly }) => to !== undefined && !readOnly);
      if (reference === undefined) return;
      const body = { [reference.name]: Number(missing) };
      const absent = await instance().call(`PUT ${pathOf(definition, missing)}`, {
        key: organization.key,
        body,
      });
      assert.equal(absent.status, 404, 'a missing record is reported before a missing reference');
    });
  }
});
