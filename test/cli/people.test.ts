// Organizations, users, profiles and keys created on the command line, and the keys' access to the service.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { verify } from 'argon2';
import { drivers } from '../support/instance.ts';
import { soonerThan } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import {
  assertRefused,
  crm,
  crmJson,
  crmTable,
  type Environment,
  migratedStorage,
  onDatabase,
  type Service,
  type Storage,
  serve,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';

const keyForm = /^crm_[0-9A-Za-z]{10}_[0-9A-Za-z]{49}$/;
const chosenPassword = 'correct horse battery staple';

/** A database's contents before its service starts. */
interface Contents {
  readonly generated: Record<string, unknown>;
  readonly keys: Readonly<Record<string, Record<string, unknown>>>;
}

const member = (email: string, org: string, profile = 'administrator') =>
  ['user', 'create', email, '--org', org, '--profile', profile] as const;
const key = (profile: string, ...options: string[]) =>
  ['key', 'create', '--org', 'acme', '--profile', profile, ...options] as const;

/** Fills a database with commands, checking that each prints one JSON object. */
async function fill(environment: Environment): Promise<Contents> {
  const make = (args: readonly string[], input?: string) =>
    crmJson(args, environment, input === undefined ? {} : { input });
  assert.deepEqual(await make(['org', 'create', 'acme', '--name', 'Acme Ltd ☃']), {
    id: '1',
    slug: 'acme',
    name: 'Acme Ltd ☃',
    profiles: ['administrator', 'read-only'],
  });
  assert.deepEqual((await make(['org', 'create', 'beta'])).name, 'beta', 'the name defaults to the slug');
  assert.deepEqual(
    await make([
      ...['profile', 'create', 'sales', '--org', 'acme', '--grant', 'leads:list,read', 'contacts:*'],
      ...['--grant', '*:delete', '--grant', 'leads:read'],
    ]),
    {
      id: '5',
      name: 'sales',
      organization: 'acme',
      grants: [
        { object: 'leads', actions: ['list', 'read'] },
        { object: 'contacts', actions: ['*'] },
        { object: '*', actions: ['delete'] },
        { object: 'leads', actions: ['read'] },
      ],
    },
  );
  const generated = await make(member('Ann@Acme.example', 'acme'));
  assertRefused(
    await crm(member('ann@acme.example', 'acme'), environment),
    'ann@acme.example is already registered. Pass --existing to add it to "acme" with its current password.',
  );
  const existing = [...member('ann@acme.example', 'beta', 'read-only'), '--existing'];
  assertRefused(
    await crm([...existing, '--password-stdin'], environment, { input: `${chosenPassword}\n` }),
    /^crm: --existing keeps the password/,
  );
  assertRefused(
    await crm(existing, environment),
    /is unverified and can only belong to the organization that created it/,
  );
  assert.deepEqual(await make(['user', 'verify', 'ANN@acme.example']), {
    id: generated.id,
    email: 'ann@acme.example',
    verified: true,
  });
  const added = await make(existing);
  const piped = await make(
    [...member('bob@acme.example', 'acme', 'sales'), '--password-stdin'],
    `${chosenPassword}\r\nmore`,
  );
  assert.deepEqual(added, {
    id: generated.id,
    email: 'ann@acme.example',
    organization: 'beta',
    profile: 'read-only',
    created: false,
  });
  assert.deepEqual(
    [piped.created, piped.password, generated.created],
    [true, undefined, true],
    'a password is printed only if it was generated',
  );
  return {
    generated,
    keys: {
      all: await make(key('administrator')),
      sales: await make(key('sales', '--name', 'Website')),
      reader: await make(key('read-only', '--expires', '2999-01-31')),
      beta: await make(['key', 'create', '--org', 'beta', '--profile', 'administrator']),
      revoked: await make(key('administrator')),
    },
  };
}

/** Names of the keys, in the order of the statuses in `access`. */
const columns = ['all', 'sales', 'reader', 'beta', 'revoked'] as const;
const access: readonly (readonly [request: string, body: unknown, ...statuses: number[]])[] = [
  ['GET /api/v1/leads', undefined, 200, 200, 200, 200, 401],
  ['GET /api/v1/leads/1', undefined, 200, 200, 200, 404, 401],
  ['POST /api/v1/leads', {}, 201, 403, 403, 201, 401],
  ['PUT /api/v1/leads/1', {}, 200, 403, 403, 404, 401],
  ['DELETE /api/v1/leads/999', undefined, 404, 404, 403, 404, 401],
  ['POST /api/v1/contacts', {}, 201, 201, 403, 201, 401],
  ['GET /api/v1/cases', undefined, 200, 403, 200, 200, 401],
  ['DELETE /api/v1/cases/999', undefined, 404, 404, 403, 404, 401],
];

for (const driver of drivers) {
  describe(`users and keys (${driver})`, () => {
    let storage: Storage;
    let contents: Contents;
    let service: Service;
    const plaintext = (name: string) => String(contents.keys[name]?.key);
    before(async () => {
      storage = await migratedStorage(driver);
      contents = await fill(storage.environment);
      const id = String(contents.keys.revoked?.id);
      assert.deepEqual(await crmJson(['key', 'revoke', id, '--org', 'acme'], storage.environment), {
        id,
        revoked: true,
      });
    });
    after(async () => {
      await service?.kill();
      await storage.remove();
    });

    test('key create prints the key and its details in the documented format', () => {
      const { key: text, ...rest } = contents.keys.reader ?? {};
      assert.match(String(text), keyForm);
      assert.deepEqual(rest, {
        id: '3',
        name: 'API key',
        organization: 'acme',
        profile: 'read-only',
        last_four: String(text).slice(-4),
        expires_at: '2999-01-31T00:00:00.000Z',
      });
      assert.deepEqual([contents.keys.sales?.name, contents.keys.all?.profile], ['Website', 'administrator']);
    });

    test('passwords are stored as argon2id hashes; neither keys nor passwords are stored as text', async () => {
      const [users, everything] = await onDatabase(storage.environment, async (query) => [
        await query('select email, password_hash from crm_users order by id'),
        JSON.stringify([await query('select * from crm_users'), await query('select * from crm_api_keys')]),
      ]);
      const [[ann, annHash], [bob, bobHash]] = users as [[string, string], [string, string]];
      assert.deepEqual([users.length, ann, bob], [2, 'ann@acme.example', 'bob@acme.example']);
      assert.match(annHash, /^\$argon2id\$/);
      assert.ok(
        await verify(annHash, String(contents.generated.password)),
        'the generated password, not the later one',
      );
      assert.ok(await verify(bobHash, chosenPassword), 'the first line of standard input');
      for (const secret of [chosenPassword, String(contents.generated.password), ...columns.map(plaintext)]) {
        assert.ok(!everything.includes(secret));
        // The secret part, without the prefix, public ID and checksum.
        if (secret.startsWith('crm_')) assert.ok(!everything.includes(secret.slice(15, -6)));
      }
    });

    test("key list shows all of the organization's keys and no secrets", async () => {
      const { keys } = (await crmJson(['key', 'list', '--org', 'acme'], storage.environment)) as {
        keys: Record<string, string | null>[];
      };
      assert.deepEqual(
        keys.map(({ id, name, profile }) => [id, name, profile]),
        [
          ['1', 'API key', 'administrator'],
          ['2', 'Website', 'sales'],
          ['3', 'API key', 'read-only'],
          ['5', 'API key', 'administrator'],
        ],
      );
      for (const row of keys) {
        assert.deepEqual(Object.keys(row), [
          ...['id', 'name', 'profile', 'profile_id', 'access', 'created_by', 'created_by_name'],
          ...['on_behalf_of_id', 'on_behalf_of', 'on_behalf_of_name', 'last_four'],
          ...['created_at', 'last_used_at', 'expires_at', 'revoked_at'],
        ]);
        assert.equal(row.revoked_at !== null, row.id === '5');
        assert.equal(row.last_used_at, null);
      }
      const { stdout } = await crm(['key', 'list', '--org', 'acme'], storage.environment);
      assert.match(stdout, /^id {2}name +profile +key +created +last used +state\n1 {3}API key/);
      assert.match(stdout, / until 2999-01-31T00:00:00.000Z\n5 .* revoked \d{4}-/);
      for (const name of columns) assert.ok(!stdout.includes(plaintext(name).slice(4, 14)));
    });

    test('each key can do what its profile grants, in its own organization', async () => {
      service = await serve({ ...patient, ...storage.environment });
      assert.equal(
        Object.hasOwn(service.printed, 'key'),
        false,
        'no demo organization if another one exists',
      );
      await service.call('POST /api/v1/leads', { key: plaintext('all'), body: { last_name: 'One' } });
      for (const [request, body, ...statuses] of access) {
        const answers = await Promise.all(
          columns.map((name) => service.call(request, { key: plaintext(name), body })),
        );
        assert.deepEqual(
          answers.map(({ status }) => status),
          statuses,
          request,
        );
      }
      assert.equal((await service.call('GET /api/v1/leads')).status, 401);
    });
  });
}

describe('commands with a running service (postgresql)', () => {
  test('users can be listed, shown, reset, disabled and enabled', async () => {
    const { environment } = storage;
    const ann = await crmJson(member('ann@people.example', 'acme'), environment);
    const password = String(ann.password);
    const login = async (secret: string) =>
      service.call('POST /auth/login', { body: { email: 'ann@people.example', password: secret } });
    const { access_token } = (await login(password)).json;
    const me = async () =>
      (await service.call('GET /auth/me', { headers: { authorization: `Bearer ${access_token}` } })).status;
    assert.equal(await me(), 200);

    const { users } = (await crmJson(['user', 'list', '--org', 'acme'], environment)) as {
      users: Record<string, unknown>[];
    };
    const shown = await crmJson(['user', 'show', String(ann.id)], environment);
    assert.deepEqual(
      users.find(({ id }) => id === ann.id),
      shown,
    );
    const { created_at, ...rest } = shown;
    assert.match(String(created_at), /^\d{4}-.*Z$/);
    assert.deepEqual(rest, {
      id: ann.id,
      email: 'ann@people.example',
      name: null,
      verified_at: null,
      organization: 'acme',
      disabled_at: null,
      memberships: [{ organization: 'acme', profile: 'administrator' }],
      sessions: 1,
      second_factor: false,
    });
    const text = (await crm(['user', 'list'], environment)).stdout;
    assert.match(text, /^id {2}e-mail +name +state +member of\n/);
    assert.match(text, /ann@people\.example +unverified, in "acme" +acme \(administrator\)/);

    assert.deepEqual(
      await crmJson(['user', 'set', 'ann@people.example', '--name', ' Ann Arbor '], environment),
      {
        id: ann.id,
        email: 'ann@people.example',
        name: 'Ann Arbor',
      },
    );
    assertRefused(
      await crm(['user', 'set', 'ann@people.example', '--name', ''], environment),
      'the name must have 1 to 100 characters',
    );
    const named = (await crm(['user', 'list'], environment)).stdout;
    assert.match(named, /ann@people\.example +Ann Arbor +unverified/);

    const reset = await crmJson(['user', 'reset-password', 'ann@people.example'], environment);
    assert.deepEqual([reset.id, reset.sessions_ended], [ann.id, 1]);
    await soonerThan(1000, async () => (await me()) === 401);
    assert.equal((await login(password)).status, 401);
    const again = await login(String(reset.password));
    assert.equal(again.status, 200);

    const stdin = ['user', 'reset-password', 'ann@people.example', '--password-stdin'];
    assertRefused(await crm(stdin, environment, { input: 'short\n' }), /^crm: the password must have/);
    assert.deepEqual(await crmJson(stdin, environment, { input: `${chosenPassword}\n` }), {
      id: ann.id,
      email: 'ann@people.example',
      sessions_ended: 1,
    });
    assert.deepEqual(await crmJson(['user', 'reset-second-factor', 'ann@people.example'], environment), {
      id: ann.id,
      email: 'ann@people.example',
      second_factor: false,
    });
    assertRefused(
      await crm(['user', 'unlink', 'ann@people.example'], environment),
      `user ${ann.id} is not linked to a provider`,
    );
    assert.equal((await crm(['user', 'disable', String(ann.id)], environment)).code, 0);
    assert.equal((await login(chosenPassword)).status, 401);
    const state = (await crm(['user', 'show', 'ann@people.example'], environment)).stdout;
    assert.match(state, /\nstate +unverified, in "acme", disabled\n/);
    assert.deepEqual((await crmJson(['user', 'enable', String(ann.id)], environment)).disabled, false);
    assert.equal((await login(chosenPassword)).status, 200);
  });

  let storage: Storage;
  let service: Service;
  before(async () => {
    storage = await migratedStorage('postgresql');
    await crmJson(['org', 'create', 'acme'], storage.environment);
    service = await serve({ ...patient, ...storage.environment });
  });
  after(async () => {
    await service.kill();
    await storage.remove();
  });
  crmTable(
    (
      [
        [
          ['show', 'nobody@people.example'],
          'user nobody@people.example does not exist. "crm user list" lists all users.',
        ],
        [['verify', '999999'], 'user 999999 does not exist. "crm user list" lists all users.'],
        [['disable', 'nobody'], 'this is not a valid email address'],
        [['list', '--org', 'nowhere'], 'organization "nowhere" does not exist'],
      ] as const
    ).map((row) => [`user ${row[0].join(' ')} fails with one line`, row] as const),
    ([args]) => [['user', ...args], storage.environment],
    (outcome, [, message]) => assertRefused(outcome, message),
  );

  const status = async (text: unknown, request = 'GET /api/v1/leads') =>
    (await service.call(request, { key: String(text) })).status;

  test('a new profile and its key work immediately; a revoked key stops working within a second', async () => {
    const profile = ['profile', 'create', 'lister', '--org', 'acme', '--grant', 'leads:list'];
    await crmJson(profile, storage.environment);
    const made = await crmJson(key('lister'), storage.environment);
    assert.equal(await status(made.key), 200);
    assert.equal(await status(made.key, 'GET /api/v1/cases'), 403);
    // Keep using the key, so that the service has it in memory when it is revoked.
    let revoked = false;
    const user = (async () => {
      while (!revoked) assert.ok([200, 401].includes(await status(made.key)));
    })();
    await crmJson(['key', 'revoke', String(made.id), '--org', 'acme'], storage.environment);
    await soonerThan(1000, async () => (await status(made.key)) === 401);
    revoked = true;
    await user;
    assert.equal(await status(made.key), 401, 'permanently');
  });

  crmTable(
    (
      [
        ['2027-02-31', /is not a time/],
        ['2999-01-31T12:00:00', /is not a time/],
        ['tomorrow', /is not a time/],
        ['2020-01-31', /is in the past/],
      ] as const
    ).map((row) => [`--expires ${row[0]} is rejected, and no key is created`, row] as const),
    ([text]) => [key('read-only', '--expires', text), storage.environment],
    (outcome, [, reason]) => assertRefused(outcome, reason),
  );

  test('a key on behalf of a member is also limited by the member’s grants', async () => {
    const grants = ['--grant', 'leads:list'];
    await crmJson(['profile', 'create', 'viewer', '--org', 'acme', ...grants], storage.environment);
    const email = 'vic@people.example';
    const { id } = await crmJson(member(email, 'acme', 'viewer'), storage.environment);
    for (const user of ['VIC@people.example', String(id)]) {
      const made = await crmJson(key('administrator', '--on-behalf-of', user), storage.environment);
      assert.deepEqual([made.profile, made.on_behalf_of], ['administrator', email]);
      assert.equal(await status(made.key), 200);
      assert.equal(await status(made.key, 'GET /api/v1/cases'), 403);
    }
    const { stdout } = await crm(['key', 'list', '--org', 'acme'], storage.environment);
    assert.match(stdout, / administrator on behalf of vic@people\.example /);
    assertRefused(
      await crm(key('administrator', '--on-behalf-of', 'nobody@people.example'), storage.environment),
      'nobody@people.example is not a member of this organization',
    );
  });

  test('a key expires on time', async () => {
    // The initial expiry leaves enough time for any command to start. It is then moved to two seconds from
    // now.
    const far = new Date(Date.now() + 3_600_000).toISOString();
    const made = await crmJson(key('read-only', '--expires', far), storage.environment);
    assert.equal(made.expires_at, far);
    assert.equal(await status(made.key), 200);
    const url = storage.environment.DATABASE_URL ?? '';
    const { rows } = await connected(url, (client) =>
      client.query<{ end: Date }>(
        `update crm_api_keys set expires_at = now() + interval '2 seconds' where id = $1 returning expires_at as end`,
        [made.id],
      ),
    );
    const end = (rows[0]?.end ?? assert.fail()).getTime();
    await soonerThan(end - Date.now() + 1000, async () => (await status(made.key)) === 401);
    assert.ok(Date.now() >= end, 'not before its expiry');
  });

  test('without --json, output is prose, with a secret alone on the last line', async () => {
    const { environment } = storage;
    const org = await crm(['org', 'create', 'gamma'], environment);
    assert.equal(org.stdout, 'Organization "gamma" created with the profiles administrator and read-only.\n');
    const profile = await crm(['profile', 'create', 'p', '--org', 'gamma', '--grant', '*:*'], environment);
    assert.equal(profile.stdout, 'Profile "p" created in "gamma" with 1 grant.\n');
    const user = await crm(member('c@gamma.example', 'gamma', 'p'), environment);
    assert.match(
      user.stdout,
      /^User c@gamma\.example created as p of "gamma"\.\nPassword \(shown only once\): \S{16,}\n$/,
    );
    const made = await crm(['key', 'create', '--org', 'gamma', '--profile', 'administrator'], environment);
    assert.match(
      made.stdout,
      /^Key \d+ created for "gamma" as administrator, without an expiry \(--expires sets one\)\. Shown only once:\ncrm_\S+\n$/,
    );
    assert.equal(await status(made.stdout.trim().split('\n').at(-1)), 200);
    const id = /\d+/.exec(made.stdout)?.[0] ?? '';
    const revoked = await crm(['key', 'revoke', id, '--org', 'gamma'], environment);
    assert.equal(revoked.stdout, `Key ${id} revoked. Every node rejects it within a second.\n`);
  });
});
