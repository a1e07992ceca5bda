// Sessions are stored as hashes, are listed and ended by their user, expire over time, and end promptly on
// every node.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/handle.ts';
import {
  changeSecondFactors,
  endAllSessions,
  startSession,
} from '../../../plugins/access/identity/sessions.ts';
import { enabledUsers } from '../../../plugins/access/identity/users.ts';
import { storeTotp } from '../../../plugins/access/second-factor/codes.ts';
import { formsOf, readable, signIn } from '../../support/forms.ts';
import { type Organization, onBothDrivers } from '../../support/instance.ts';
import {
  activityOf,
  command,
  dump,
  type LoggedIn,
  logIn,
  makePerson,
  type Node,
  type Person,
  secondNode,
  soonerThan,
} from '../../support/people.ts';
import { until } from '../../support/process.ts';
import { assertErrorShape } from '../../support/scenario.ts';

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
type By = 'byCookie' | 'byToken';
const ways: readonly By[] = ['byCookie', 'byToken'];

onBothDrivers('sessions', (instance, driver) => {
  let acme: Organization;
  let node: Node;
  before(async () => {
    acme = await instance().organization('acme');
    node = await secondNode(instance());
  });
  after(() => node.close());

  const person = (): Promise<Person> => makePerson(instance(), [{ organization: acme }]);
  const call = (request: string, headers: LoggedIn[By], url?: Node) =>
    (url ?? instance()).call(request, { headers });
  const status = async (session: LoggedIn, way: By, url?: Node) =>
    (await call('GET /auth/me', session[way], url)).status;
  const listed = async (session: LoggedIn): Promise<Record<string, unknown>[]> => {
    const { json } = await call('GET /auth/sessions', session.byToken);
    return json.data as Record<string, unknown>[];
  };
  const set = ({ session }: LoggedIn, values: { last_seen_at?: Date; expires_at?: Date }) =>
    tablesOf(instance().database).updateTable('crm_sessions').set(values).where('id', '=', session).execute();
  const gone = (session: LoggedIn, way: By, url?: Node) =>
    soonerThan(second, async () => (await status(session, way, url)) === 401);

  test('stores neither the cookie nor the token nor any part of them', async () => {
    const session = await logIn(instance(), await person());
    const stored = await dump(instance());
    assert.ok(stored.includes(session.jti), 'the dump contains the session');
    const [head = '', claims = '', signature = ''] = session.token.split('.');
    for (const secret of [session.cookie, session.token, head, claims, signature]) {
      assert.ok(!stored.includes(secret), `${secret.slice(0, 8)}… is stored`);
      assert.ok(!stored.includes(Buffer.from(secret, 'base64url').toString('hex')), 'stored as hex');
    }
  });

  test('rejects stored hashes and IDs as credentials', async () => {
    const session = await logIn(instance(), await person());
    const row = await tablesOf(instance().database)
      .selectFrom('crm_sessions')
      .selectAll()
      .where('id', '=', session.session)
      .executeTakeFirstOrThrow();
    for (const stolen of [row.token_hash, row.jti, String(row.id)]) {
      assert.equal((await call('GET /auth/me', { cookie: `crm_session=${stolen}` })).status, 401);
      assert.equal((await call('GET /auth/me', { authorization: `Bearer ${stolen}` })).status, 401);
    }
  });

  test("a login ends the browser's previous session instead of reusing it", async () => {
    const ann = await person();
    const [known, elsewhere] = [await logIn(instance(), ann), await logIn(instance(), ann)];
    assert.equal(await status(known, 'byCookie'), 200);
    for (const cookie of ['x'.repeat(43), known.cookie]) {
      const other = cookie === known.cookie ? await person() : ann;
      for (const way of ways) assert.equal(await status(known, way), 200, 'cached on this node');
      const next = await logIn(instance(), other, { headers: { cookie: `crm_session=${cookie}` } });
      assert.notEqual(next.cookie, cookie);
      assert.notEqual(next.session, known.session);
      assert.equal(await status(next, 'byCookie'), 200);
    }
    assert.equal(await status(known, 'byCookie'), 401, 'immediately on this node, for any user');
    assert.equal(await status(known, 'byToken'), 401);
    for (const way of ways) await gone(known, way, node);
    assert.equal(await status(elsewhere, 'byCookie'), 200, 'another browser’s session is unaffected');
  });

  test('lists sessions newest first with their details, and only to their user', async () => {
    const ann = await person();
    const headers = { 'user-agent': `Lynx/2 <b>${'x'.repeat(300)}` };
    const first = await logIn(instance(), ann, { headers });
    const last = await logIn(instance(), ann);
    await logIn(instance(), await person());
    const list = await listed(last);
    assert.deepEqual(
      list.map(({ id, current }) => [id, current]),
      [
        [Number(last.session), true],
        [Number(first.session), false],
      ],
    );
    for (const row of list) {
      assert.deepEqual(Object.keys(row).sort(), [
        'created_at',
        'current',
        'expires_at',
        'id',
        'last_seen_at',
        'method',
        'user_agent',
      ]);
      const duration = Date.parse(String(row.expires_at)) - Date.parse(String(row.created_at));
      assert.ok(Math.abs(duration - 12 * hour) < minute, 'expires twelve hours after the login');
    }
    assert.equal(list[1]?.method, 'Password');
    assert.equal(list[1]?.user_agent, headers['user-agent'].slice(0, 200));
  });

  test('the account page names the device of each session, and can end each one but its own', async () => {
    const ann = await person();
    const browser = await signIn(instance(), ann);
    const windows = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64)';
    const mac = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)';
    const webKit = 'AppleWebKit/537.36 (KHTML, like Gecko)';
    const devices: readonly [userAgent: string, name: string][] = [
      [`${windows} ${webKit} Chrome/130.0.0.0 Safari/537.36 Edg/130.0.0.0`, 'Edge on Windows'],
      [`${mac} ${webKit} Chrome/130.0.0.0 Safari/537.36 OPR/115.0.0.0`, 'Opera on macOS'],
      [`Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0`, 'Firefox on Linux'],
      [`Mozilla/5.0 (Linux; Android 14) ${webKit} Chrome/130.0.0.0 Safari/537.36`, 'Chrome on Android'],
      [`Mozilla/5.0 (X11; CrOS x86_64) ${webKit} Chrome/130.0.0.0 Safari/537.36`, 'Chrome on ChromeOS'],
      [`${mac} AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15`, 'Safari on macOS'],
      [
        'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/604.1',
        'Safari on iPhone',
      ],
      [
        'Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/130.0.6723.37 Mobile/15E148 Safari/604.1',
        'Chrome on iPad',
      ],
      [
        'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/132.0 Mobile/15E148 Safari/605.1.15',
        'Firefox on iPhone',
      ],
      [
        'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 EdgiOS/130.0 Mobile/15E148 Safari/605.1.15',
        'Edge on iPhone',
      ],
      [
        `Mozilla/5.0 (Linux; Android 14) ${webKit} Chrome/130.0.0.0 Mobile Safari/537.36 EdgA/130.0.0.0`,
        'Edge on Android',
      ],
      [`Mozilla/5.0 (FreeBSD amd64; rv:132.0) Gecko/20100101 Firefox/132.0`, 'Firefox'],
      ['curl/8.7.1', 'curl'],
      ['undici', 'Node.js'],
      ['Importer/2 (nightly)', 'Importer'],
      [`${'x'.repeat(41)}/2`, 'x'.repeat(40)],
      ['', 'unknown'],
    ];
    const sessions: string[] = [];
    for (const [userAgent] of devices)
      sessions.push((await logIn(instance(), ann, { headers: { 'user-agent': userAgent } })).session);
    const page = await browser.get('/setup/me');
    const named = [...readable(page.text).matchAll(/<th scope="row"[^>]*>([^<]*)</g)].map(([, name]) => name);
    const newestFirst = devices.map(([, name]) => name).reverse();
    assert.deepEqual(named.slice(0, devices.length), newestFirst);
    assert.match(named[devices.length] ?? '', / \(this session\)$/);
    const offered = formsOf(page).flatMap(({ action, values }) =>
      action === '/setup/me/end-session' ? [values.id] : [],
    );
    assert.deepEqual(offered, sessions.toReversed());
  });

  test('the account page shows the last use of each session, whether or not it is stored yet', async () => {
    const ann = await person();
    const browser = await signIn(instance(), ann);
    const program = await logIn(instance(), ann);
    const stored = new Date(Date.now() - 20 * minute);
    await set(program, { last_seen_at: stored });
    const lastUse = async () => {
      const { text } = await browser.get('/setup/me');
      const [, time = ''] = / data-label="Last used"[^>]*><time datetime="([^"]*)"/.exec(text) ?? [];
      return Date.parse(time);
    };
    assert.equal(await lastUse(), stored.getTime());
    assert.equal(await status(program, 'byToken'), 200);
    assert.ok((await lastUse()) > stored.getTime());
  });

  test('ends another session by its ID and keeps the rest', async () => {
    const ann = await person();
    const [own, other, third] = [
      await logIn(instance(), ann),
      await logIn(instance(), ann),
      await logIn(instance(), ann),
    ];
    for (const way of ways) assert.equal(await status(other, way), 200);
    const ended = await call(`DELETE /auth/sessions/${other.session}`, own.byCookie);
    assert.deepEqual(ended.json, { ok: true });
    assert.deepEqual(ended.headers.getSetCookie(), [], 'the caller’s cookie is not cleared');
    for (const way of ways) await gone(other, way);
    for (const way of ways) assert.equal(await status(third, way), 200);
    const again = await call(`DELETE /auth/sessions/${other.session}`, own.byCookie);
    assert.equal(again.status, 404);
    assertErrorShape(again);
  });

  test('ending the current session by its ID logs out', async () => {
    const own = await logIn(instance(), await person());
    for (const way of ways) assert.equal(await status(own, way), 200, 'cached on this node');
    const ended = await call(`DELETE /auth/sessions/${own.session}`, own.byCookie);
    assert.match(ended.headers.getSetCookie()[0] ?? '', /^crm_session=;.* Expires=Thu, 01 Jan 1970/);
    for (const way of ways) assert.equal(await status(own, way), 401);
  });

  describe("rejects IDs other than the caller's sessions → 404", () => {
    for (const id of ['0', '-1', '1e3', '01', '9'.repeat(18), '9'.repeat(40), 'x', '%27', '%00', '1;2', '']) {
      test(`"${id}"`, async () => {
        const own = await logIn(instance(), await person());
        assert.equal((await call(`DELETE /auth/sessions/${id}`, own.byToken)).status, 404);
        assert.equal(await status(own, 'byToken'), 200);
      });
    }

    test("another user's session", async () => {
      const [own, other] = [await logIn(instance(), await person()), await logIn(instance(), await person())];
      assert.equal((await call(`DELETE /auth/sessions/${other.session}`, own.byToken)).status, 404);
      assert.equal(await status(other, 'byCookie'), 200);
    });
  });

  for (const way of ways) {
    test(`logout ${way} ends the session on this node immediately and on another within a second`, async () => {
      const session = await logIn(instance(), await person());
      for (const by of ways) assert.equal(await status(session, by, node), 200);
      const out = await call('POST /auth/logout', session[way]);
      assert.deepEqual([out.status, out.json], [200, { ok: true }]);
      assert.match(out.headers.getSetCookie()[0] ?? '', /^crm_session=;.* Expires=Thu, 01 Jan 1970/);
      for (const by of ways) {
        await gone(session, by, node);
        // A logout by token does not evict the cached cookie, but the cookie ends within a second, too.
        await gone(session, by);
      }
      assert.equal((await call('POST /auth/logout', session[way])).status, 401, 'a repeated logout');
    });
  }

  test('"everywhere" ends every session and token of the user, and of no other user', async () => {
    const ann = await person();
    const sessions = [
      await logIn(instance(), ann),
      await logIn(instance(), ann),
      await logIn(instance(), ann),
    ];
    const [own = assert.fail()] = sessions;
    const other = await logIn(instance(), await person());
    for (const session of sessions) assert.equal(await status(session, 'byToken', node), 200);
    assert.deepEqual((await call('POST /auth/logout-everywhere', own.byCookie)).json, { ok: true });
    for (const session of sessions) {
      for (const way of ways) {
        await gone(session, way);
        await gone(session, way, node);
      }
    }
    assert.equal(await status(other, 'byCookie'), 200);
    const again = await logIn(instance(), ann);
    for (const way of ways) assert.equal(await status(again, way, node), 200);
    assert.equal((await listed(again)).length, 1);
  });

  describe('expiry', () => {
    const cases: readonly [
      name: string,
      values: () => Parameters<typeof set>[1],
      cookie: number,
      token: number,
    ][] = [
      ['used 29 minutes ago', () => ({ last_seen_at: new Date(Date.now() - 29 * minute) }), 200, 200],
      ['not used for 31 minutes', () => ({ last_seen_at: new Date(Date.now() - 31 * minute) }), 401, 200],
      ['used just now, but expired', () => ({ expires_at: new Date(Date.now() - second) }), 401, 401],
      [
        'not used for a year and expired',
        () => ({ last_seen_at: new Date(0), expires_at: new Date(1) }),
        401,
        401,
      ],
    ];
    for (const [name, values, cookie, token] of cases) {
      test(`${name}: cookie → ${cookie}, token → ${token}`, async () => {
        const session = await logIn(instance(), await person());
        await set(session, values());
        assert.equal(await status(session, 'byCookie'), cookie);
        assert.equal(await status(session, 'byToken'), token);
      });
    }

    test('a login whose password was validated before "everywhere" starts no session', async () => {
      const ann = await person();
      const [user] = await enabledUsers(tablesOf(instance().database), ann.email);
      const { tokenVersion = 0 } = user ?? {};
      const own = await logIn(instance(), ann);
      const begin = (version: number) =>
        transaction(instance().database, (tables) =>
          startSession(tables, ann.id, {
            durationMs: minute,
            userAgent: '',
            tokenVersion: version,
            proof: { method: 'Password', secondFactor: false },
          }),
        );
      assert.ok(await begin(tokenVersion));
      await instance().call('POST /auth/logout-everywhere', { headers: own.byToken });
      assert.equal(await begin(tokenVersion), undefined);
      assert.ok(await begin(tokenVersion + 1));
      const users = tablesOf(instance().database).updateTable('crm_users').where('id', '=', ann.id);
      await users.set({ disabled_at: new Date() }).execute();
      assert.equal(await begin(tokenVersion + 1), undefined, 'the user is disabled');
    });

    if (driver === 'postgresql')
      for (const [name, change] of [
        ['"everywhere"', (tables, { id }) => endAllSessions(tables, command(instance()), id, [])],
        [
          'the setup of a second factor',
          (tables, user, { session: id }) =>
            changeSecondFactors(tables, { user: { ...user, name: null, language: null }, id }, () =>
              storeTotp(tables, user.id, { sealed: '', step: 0 }),
            ),
        ],
      ] satisfies readonly (readonly [
        string,
        (tables: Tables, user: Person, own: LoggedIn) => Promise<unknown>,
      ])[])
        test(`a login during ${name} starts no session`, async () => {
          const ann = await person();
          const own = await logIn(instance(), ann);
          const { database } = instance();
          const [changed, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
          const changing = transaction(database, async (tables) => {
            await change(tables, ann, own);
            changed.resolve();
            await opened.promise;
          });
          await changed.promise;
          const { email, password } = ann;
          let isOver = false;
          const login = instance()
            .call('POST /auth/login', { body: { email, password } })
            .finally(() => {
              isOver = true;
            });
          const text = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
          const isWaiting = async () => (await database.run({ name: '', text, values: [] })).length > 0;
          await until(async () => isOver || (await isWaiting()), 'wait for the change').finally(
            opened.resolve,
          );
          await changing;
          assert.equal((await login).status, 401);
        });

    test('each use resets the idle timeout', async () => {
      const session = await logIn(instance(), await person());
      assert.equal(await status(session, 'byCookie'), 200);
      await set(session, { last_seen_at: new Date(Date.now() - 29.5 * minute) });
      assert.equal(await status(session, 'byCookie'), 200);
    });

    test('a use that is not stored yet resets the idle timeout, by cookie or token', async () => {
      const session = await logIn(instance(), await person());
      await set(session, { last_seen_at: new Date(Date.now() - 31 * minute) });
      assert.equal(await status(session, 'byCookie'), 401);
      assert.equal(await status(session, 'byToken'), 200);
      instance().app.forgetSession({ token: session.cookie });
      assert.equal(await status(session, 'byCookie'), 200);
    });

    test('use does not extend the expiry', async () => {
      const session = await logIn(instance(), await person());
      await set(session, { expires_at: new Date(Date.now() + 1.5 * second) });
      await soonerThan(3 * second, async () => (await status(session, 'byCookie')) === 401);
      assert.equal(await status(session, 'byToken'), 401);
    });

    test('an expired session is rejected even while it is cached', async () => {
      const session = await logIn(instance(), await person());
      const expires_at = new Date(Date.now() + 300);
      await set(session, { expires_at });
      for (const way of ways) await status(session, way);
      await until(() => Date.now() >= expires_at.getTime(), 'the expiry');
      for (const way of ways) assert.equal(await status(session, way), 401);
    });

    test('expired sessions are not listed, and are deleted at the next login', async () => {
      const ann = await person();
      const old = await logIn(instance(), ann);
      const own = await logIn(instance(), ann);
      await set(old, { expires_at: new Date(Date.now() - second) });
      assert.deepEqual(
        (await listed(own)).map(({ id }) => id),
        [Number(own.session)],
      );
      await logIn(instance(), ann, { headers: { cookie: `crm_session=${old.cookie}` } });
      const rows = tablesOf(instance().database).selectFrom('crm_sessions').select('id');
      assert.deepEqual(await rows.where('id', '=', old.session).execute(), []);
      const entries = (await activityOf(instance(), acme.id)).map(({ did }) => did);
      assert.ok(!entries.includes(`logout session ${old.session}`), 'it had already ended');
    });
  });
});
