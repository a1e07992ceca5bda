// Users with the same email address: the first one's creator might not own the address. Therefore, an unverified user
// stays in the organization that created it, and another organization's invitation does not affect it.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/handle.ts';
import { listRows } from '../../../engine/tables/rows.ts';
import { createKey, revokeAllKeys } from '../../../plugins/access/api-keys/keys.ts';
import { linkIdentity } from '../../../plugins/access/identity/identities.ts';
import {
  disableUser,
  enableUser,
  findUserBy,
  markEmailProven,
  renameUser,
  resetPassword,
  resetSecondFactor,
  type UserInfo,
  unlinkUser,
  verifyEmail,
} from '../../../plugins/access/identity/operator-users.ts';
import { findMember, listMembers } from '../../../plugins/access/identity/people.ts';
import {
  createMailedResets,
  createMemberReset,
  redeemReset,
} from '../../../plugins/access/identity/resets.ts';
import {
  changeSecondFactors,
  endAllSessions,
  endSession,
  endSessionsOfAllUsers,
  memberPrincipal,
  membershipRows,
  startSession,
  storeSessionsUsed,
} from '../../../plugins/access/identity/sessions.ts';
import {
  addExistingUser,
  changeLanguage,
  changeName,
  changePassword,
  findUser,
} from '../../../plugins/access/identity/users.ts';
import { cancelAllInvites, invite as inviteTo } from '../../../plugins/access/members/invites.ts';
import { profileId } from '../../../plugins/access/profiles/profiles.ts';
import { generateRecoveryCodes, storeTotp } from '../../../plugins/access/second-factor/codes.ts';
import { runCommand } from '../../support/command-line.ts';
import {
  administratorOf,
  formsOf,
  optionOf,
  problemOf,
  readable,
  shownIn,
  signIn,
  type Visitor,
  visitor,
} from '../../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../../support/instance.ts';
import { hashesDuring } from '../../support/low-cost.ts';
import {
  activityOf,
  command,
  fresh,
  logIn,
  makePerson,
  type Person,
  soonerThan,
  told,
} from '../../support/people.ts';
import { connected } from '../../support/postgres.ts';
import { addPasskey } from '../../support/second-factors.ts';
import { untilWaiting } from '../../support/uncommitted.ts';

const attackers = 'the password of an attacker';
const victims = 'the password of a victim';

const severalUsers =
  'Several users have this email address. Choose the organization and enter the password again.';

onBothDrivers('users with one email address', (instance, driver) => {
  let acme: Organization;
  let beta: Organization;
  let inviters: Readonly<Record<string, Visitor>>;
  before(async () => {
    acme = await instance().organization('acme');
    beta = await instance().organization('beta');
    inviters = {
      acme: await signIn(instance(), administratorOf(acme)),
      beta: await signIn(instance(), administratorOf(beta)),
    };
  });

  const by = () => command(instance());
  const address = () => `${fresh('victim')}@people.example`;
  const inviting = async ({ slug }: Organization, email: string) => {
    const by = inviters[slug] ?? assert.fail();
    const page = `/setup/o/${slug}/members`;
    const profile = await optionOf(by, `${page}/invite`, 'administrator');
    const answer = await by.submit(page, `${page}/invite`, { email, profile });
    assert.equal(answer.status, 200, problemOf(answer));
    const path = new URL(shownIn(answer, 'link')).pathname;
    return { answer, path, code: shownIn(answer, 'invitation-code') };
  };
  const invite = async (organization: Organization, email: string, typed = (code: string) => code) => {
    const { path, code } = await inviting(organization, email);
    return (password: string) => visitor(instance()).submit(path, path, { code: typed(code), password });
  };
  const join = async (organization: Organization, email: string, password: string) => {
    const answer = await (await invite(organization, email))(password);
    assert.equal(answer.status, 303, problemOf(answer));
  };
  const login = (email: string, password: string, organization?: string) =>
    instance().call('POST /auth/login', {
      body: { email, password, ...(organization === undefined ? {} : { organization }) },
    });
  const organizationsAt = ({ json }: Answer) =>
    (json.organizations as { slug: string }[] | undefined)?.map(({ slug }) => slug);
  /** Carries out an operator's action on the only user with this email address. */
  const operate = (email: string, act: typeof verifyEmail) =>
    transaction(instance().database, async (tables) => act(tables, by(), await findUserBy(tables, email)));

  test('an attacker who accepted an invitation to another person’s address does not join an organization that invites it later', async () => {
    const email = address();
    await join(acme, email, attackers);
    const attacker = await logIn(instance(), { email, password: attackers });
    await join(beta, email, victims);

    assert.deepEqual(organizationsAt(await login(email, attackers)), ['acme']);
    assert.deepEqual(organizationsAt(await login(email, victims)), ['beta']);
    for (const headers of [attacker.byCookie, attacker.byToken]) {
      const me = await instance().call('GET /auth/me', { headers });
      assert.deepEqual(organizationsAt(me), ['acme']);
      assert.equal((await instance().call('GET /api/v1/leads?org=beta', { headers })).status, 403);
    }
  });

  test('the same password in two organizations logs in to separate users', async () => {
    const email = address();
    await join(beta, email, attackers);
    const before = await login(email, attackers);
    await join(acme, email, attackers);
    const elsewhere = await instance().organization(fresh('org'));
    await makePerson(instance(), [{ organization: elsewhere }], { email, password: victims });
    // An updated row moves within its table.
    await changeName(tablesOf(instance().database), String((before.json.user as { id: number }).id), 'Ann');
    assert.deepEqual(organizationsAt(await login(email, attackers)), ['beta'], 'the oldest user');
    assert.deepEqual(organizationsAt(await login(email, attackers, 'acme')), ['acme']);
    assert.deepEqual(told(await login(email, attackers, 'gamma')), told(await login(address(), 'wrong')));
    const me = await instance().call('GET /auth/me', {
      headers: { authorization: `Bearer ${before.json.access_token}` },
    });
    assert.deepEqual(organizationsAt(me), ['beta']);

    const browser = visitor(instance());
    const answer = await browser.submit('/setup/login', '/setup/login', { email, password: attackers });
    assert.equal(answer.status, 401);
    assert.equal(problemOf(answer), severalUsers);
    assert.deepEqual(
      [...answer.text.matchAll(/<option value="([^"]*)"/g)].map(([, slug]) => slug),
      ['beta', 'acme'],
      'only the organizations of users with this password',
    );
    assert.equal(formsOf(answer)[0]?.values.email, email);
    const chosen = { email, password: attackers, organization: 'beta' };
    assert.equal((await browser.submit('/setup/login', '/setup/login', chosen)).status, 303);
    assert.equal((await browser.get('/setup')).headers.get('location'), '/setup/o/beta');
  });

  test('an invitation leads a browser with another user to the new user; later logins ask for the organization', async () => {
    const email = address();
    await join(acme, email, victims);
    const browser = await signIn(instance(), { email, password: victims });
    const { path, code } = await inviting(beta, email);
    const accepted = await browser.submit(path, path, { code, password: victims });
    const page = accepted.headers.get('location') ?? '';
    assert.equal(page, '/setup/login?done=invite-accepted&organization=beta');
    const login = (password = victims) => browser.submit(page, '/setup/login', { email, password });
    const wrong = await login('wrong');
    assert.deepEqual([wrong.status, formsOf(wrong)[0]?.values.organization], [401, 'beta']);
    assert.equal((await login()).status, 303);
    assert.equal((await browser.get('/setup')).headers.get('location'), '/setup/o/beta');
    const plain = await browser.submit('/setup/login', '/setup/login', { email, password: victims });
    assert.equal(problemOf(plain), severalUsers);
  });

  test('a membership in another organization has no effect while the user is unverified', async () => {
    const { id, ...person } = await makePerson(instance(), [{ organization: acme }]);
    const session = await logIn(instance(), person);
    const tables = tablesOf(instance().database);
    const profile_id = await profileId(tables, beta.id, 'administrator');
    await tables
      .insertInto('crm_memberships')
      .values({ organization_id: beta.id, user_id: id, profile_id })
      .execute();
    const listed = async () => (await listRows(tables, membershipRows, id)).map(({ slug }) => slug);
    assert.deepEqual(organizationsAt(await login(person.email, person.password)), ['acme']);
    assert.deepEqual(await listed(), ['acme']);
    await operate(person.email, verifyEmail);
    const all = ['acme', 'beta'];
    assert.deepEqual(organizationsAt(await login(person.email, person.password)), all);
    assert.deepEqual(await listed(), all);
    await soonerThan(1000, async () => {
      const me = await instance().call('GET /auth/me', { headers: session.byToken });
      return organizationsAt(me)?.length === 2;
    });
  });

  test('the operator can add a verified user to another organization, but not an unverified one', async () => {
    const person = await makePerson(instance(), [{ organization: acme }]);
    const actor = by();
    const add = () =>
      transaction(instance().database, async (tables) => {
        const profile = await profileId(tables, beta.id, 'administrator');
        return addExistingUser(tables, actor, { email: person.email, organization: beta.id, profile });
      });
    await assert.rejects(add(), /is unverified and can only belong to the organization that created it/);
    await operate(person.email, verifyEmail);
    await add();
    assert.deepEqual(organizationsAt(await login(person.email, person.password)), ['acme', 'beta']);
    await assert.rejects(operate(person.email, verifyEmail), /is already verified/);
  });

  test('the password of another user with the same email address does not confirm a change, and a change keeps the user', async () => {
    const email = address();
    await join(acme, email, attackers);
    await join(beta, email, victims);
    const slugs = async (browser: Visitor) => (await browser.get('/setup')).headers.get('location');
    const browser = await signIn(instance(), { email, password: victims });
    assert.equal(await slugs(browser), '/setup/o/beta');
    const change = (current: string) =>
      browser.submit('/setup/me', '/setup/me/password', { current, new: attackers, again: attackers });
    assert.equal(problemOf(await change(attackers)), 'the current password is wrong');
    // Both users are unknown to the device.
    browser.cookies.delete('crm_device');
    assert.equal((await change(victims)).headers.get('location'), '/setup/me?done=password-changed');
    // From now on, both users have the same password.
    assert.equal(await slugs(browser), '/setup/o/beta');
  });

  test('the password of an unverified user does not accept an invitation of the verified user with the same email address', async () => {
    const { email } = await makePerson(instance(), [{ organization: acme }], { password: attackers });
    const gamma = await instance().organization(fresh('gamma'));
    await makePerson(instance(), [{ organization: gamma }], { email, password: victims, verified: true });
    const accept = await invite(beta, email);
    assert.equal((await accept(attackers)).status, 400);
    assert.equal((await accept(victims)).status, 303);
    assert.deepEqual(organizationsAt(await login(email, victims)), ['beta', gamma.slug]);
    assert.deepEqual(organizationsAt(await login(email, attackers)), ['acme']);
  });

  if (driver === 'postgresql')
    for (const [name, table, make] of [
      [
        'uses of an invitation',
        'crm_invites',
        async (email) => {
          const accept = await invite(acme, email);
          return [accept, accept];
        },
      ],
      [
        'invitations of a person',
        'crm_users',
        async (email) => [await invite(acme, email), await invite(acme, email)],
      ],
      [
        'uses of a reset link',
        'crm_resets',
        async (email) => {
          await makePerson(instance(), [{ organization: acme }], { email });
          const [link] = await createMailedResets(tablesOf(instance().database), email);
          const path = `/setup/reset/${link?.publicId}`;
          const use = (password: string) =>
            visitor(instance()).submit(path, path, {
              code: link?.code ?? '',
              new: password,
              again: password,
            });
          return [use, use];
        },
      ],
    ] satisfies readonly (readonly [
      string,
      string,
      (email: string) => Promise<readonly ((password: string) => Promise<Answer>)[]>,
    ])[])
      test(`of two concurrent ${name}, one succeeds`, async () => {
        const email = address();
        const use = await make(email);
        const passwords = [attackers, victims];
        const url = String(instance().config.environment.DATABASE_URL);
        const answers = await connected(url, async (client) => {
          await client.query(`begin; lock table ${table} in share mode`);
          const sent = use.map((send, index) => send(passwords[index] ?? ''));
          await untilWaiting(client, 'both to wait', 2);
          await client.query('rollback');
          return Promise.all(sent);
        });
        const statuses = answers.map(({ status }) => status);
        assert.deepEqual(statuses.toSorted(), [303, 400]);
        for (const [index, password] of passwords.entries())
          assert.equal((await login(email, password)).status, statuses[index] === 303 ? 200 : 401);
      });

  test('a mailed link is for the verified user, even if an unverified user is older', async () => {
    const { email } = await makePerson(instance(), [{ organization: acme }]);
    const { id } = await makePerson(instance(), [{ organization: beta }], { email, verified: true });
    const tables = tablesOf(instance().database);
    const links = await createMailedResets(tables, email);
    assert.deepEqual(
      links.map(({ organization }) => organization),
      [null],
    );
    const rows = tables.selectFrom('crm_resets').select('user_id');
    assert.deepEqual(await rows.where('public_id', '=', links[0]?.publicId ?? '').execute(), [
      { user_id: id },
    ]);
  });

  test('a mailed link verifies no second user with the same email address', async () => {
    const { email } = await makePerson(instance(), [{ organization: acme }]);
    await makePerson(instance(), [{ organization: beta }], { email });
    for (const [index, link] of (await createMailedResets(tablesOf(instance().database), email)).entries()) {
      const path = `/setup/reset/${link.publicId}`;
      const password = `${victims} ${index}`;
      const fields = { code: link.code, new: password, again: password };
      const answer = await visitor(instance()).submit(path, path, fields);
      assert.equal(answer.status, 303, problemOf(answer));
      const { json } = await login(email, password);
      const { verified_at } = await findUserBy(
        tablesOf(instance().database),
        String((json.user as { id: number }).id),
      );
      assert.equal(verified_at !== null, index === 0, String(index));
    }
  });

  test('at most three links are mailed to a user within an hour, whatever administrators have created', async () => {
    const { id, email } = await makePerson(instance(), [{ organization: acme }]);
    const tables = tablesOf(instance().database);
    const mailed = async () => (await createMailedResets(tables, email)).length;
    const age = (minutes: number) =>
      tables
        .updateTable('crm_resets')
        .set({ created_at: new Date(Date.now() - minutes * 60_000) })
        .where('user_id', '=', id)
        .execute();
    for (let count = 0; count < 3; count++) await createMemberReset(tables, by(), acme.id, id);
    assert.deepEqual([await mailed(), await mailed(), await mailed(), await mailed()], [1, 1, 1, 0]);
    await age(59);
    assert.equal(await mailed(), 0);
    await makePerson(instance(), [{ organization: beta }], { email });
    const [link, ...others] = await createMailedResets(tables, email);
    assert.deepEqual([link?.organization, others], ['beta', []], 'another user has a limit of their own');
    await age(61);
    assert.equal(await mailed(), 2);
  });

  test('reset links are deleted a day after they have expired', async () => {
    const { id, email } = await makePerson(instance(), [{ organization: acme }]);
    const tables = tablesOf(instance().database);
    const resets = () => tables.selectFrom('crm_resets').select('id').where('user_id', '=', id).orderBy('id');
    for (let count = 0; count < 2; count++) await createMailedResets(tables, email);
    const [first = assert.fail(), second = assert.fail()] = await resets().execute();
    for (const [{ id: reset }, hours] of [
      [first, 25],
      [second, 23],
    ] as const)
      await tables
        .updateTable('crm_resets')
        .set({ expires_at: new Date(Date.now() - hours * 3_600_000) })
        .where('id', '=', reset)
        .execute();
    await createMailedResets(tables, email);
    const [kept, created, ...others] = await resets().execute();
    assert.deepEqual([kept, others], [second, []]);
    assert.ok(created);
  });

  test('members are listed by name or, without a name, by email address, and found by both their email address and ID', async () => {
    const gamma = await instance().organization(fresh('gamma'));
    const tables = tablesOf(instance().database);
    const named = async (email: string, name?: string, of = gamma) => {
      const { id } = await makePerson(instance(), [{ organization: of }], {
        email: `${fresh(email)}@x.example`,
      });
      if (name !== undefined) await changeName(tables, id, name);
      return id;
    };
    const ids = [
      await named('z', 'bea'),
      await named('a', 'Cleo'),
      await named('c'),
      await named('y', 'Dora'),
      await named('b', 'bea'),
    ];
    await named('a', 'Bea', acme);
    const [bea = assert.fail(), cleo, nameless, dora, bea2] = ids;
    // An updated row moves within its table.
    await tables
      .updateTable('crm_memberships')
      .set({ created_at: new Date() })
      .where('user_id', '=', bea)
      .execute();
    await changeName(tables, bea, 'bea');
    const admin = gamma.user;
    const listed = await listMembers(tables, gamma.id);
    assert.deepEqual(
      listed.map(({ id }) => id),
      [admin, bea, bea2, nameless, cleo, dora],
    );
    for (const { id, email } of listed) {
      assert.equal((await findMember(tables, gamma.id, id)).email, email);
      assert.equal((await findMember(tables, gamma.id, ` ${email.toUpperCase()}`)).id, id);
      await assert.rejects(findMember(tables, beta.id, id), /is not a member of this organization/);
    }
    const email = String(listed.at(-1)?.email);
    const namesake = await makePerson(instance(), [{ organization: acme }], { email, verified: true });
    await transaction(instance().database, async (inside) => {
      const profile = await profileId(inside, gamma.id, 'read-only');
      return addExistingUser(inside, by(), { email, organization: gamma.id, profile });
    });
    await assert.rejects(findMember(tables, gamma.id, email), {
      message: `${email} belongs to several members. Use an ID instead: ${dora}, ${namesake.id}.`,
    });
    for (const id of [String(dora), namesake.id])
      assert.equal((await findMember(tables, gamma.id, id)).id, id);
  });

  test("a user's memberships are listed by the names of their organizations, and found by name or slug", async () => {
    const tables = tablesOf(instance().database);
    const organizations: Organization[] = [];
    for (const name of ['Twin', 'apple', 'twin', 'Banana']) {
      const organization = await instance().organization(fresh('fruit'));
      await tables.updateTable('crm_organizations').set({ name }).where('id', '=', organization.id).execute();
      organizations.push(organization);
    }
    const [twin, apple, twin2, banana] = organizations.map(({ slug }) => slug);
    const { id } = await makePerson(
      instance(),
      organizations.map((organization) => ({ organization })),
    );
    // An updated row moves within its table.
    await tables
      .updateTable('crm_organizations')
      .set({ name: 'twin' })
      .where('slug', '=', String(twin))
      .execute();
    const found = async (...words: readonly string[]) =>
      (await listRows(tables, membershipRows, id, { words })).map(({ slug }) => slug);
    assert.deepEqual(await found(), [apple, banana, twin, twin2]);
    for (const { id: organization } of organizations) {
      const principal = await memberPrincipal(tables, { kind: 'user', actor: id, organization });
      assert.equal(principal?.organization, organization);
    }
    const foreign = await memberPrincipal(tables, { kind: 'user', actor: id, organization: acme.id });
    assert.equal(foreign, undefined);
    assert.deepEqual(await found('nan'), [banana]);
    assert.deepEqual(await found(String(twin2)), [twin2]);
  });

  test('the operator lists the users of an organization by email address, each with its live sessions', async () => {
    const gamma = await instance().organization(fresh('gamma'));
    const later = await makePerson(instance(), [{ organization: gamma }], {
      email: `${fresh('z')}@x.example`,
    });
    const first = await makePerson(instance(), [{ organization: gamma }, { organization: acme }], {
      email: `${fresh('a')}@x.example`,
    });
    const { session } = await logIn(instance(), first);
    for (const person of [first, later]) await logIn(instance(), person);
    await tablesOf(instance().database)
      .updateTable('crm_sessions')
      .set({ expires_at: new Date(Date.now() - 1) })
      .where('id', '=', session)
      .execute();
    const { json } = await runCommand(instance(), ['user', 'list', '--org', gamma.slug]);
    assert.deepEqual(
      (json.users as UserInfo[]).map(({ email, sessions, memberships }) => [
        email,
        sessions,
        memberships.map(({ organization }) => organization),
      ]),
      [
        [first.email, 1, ['acme', gamma.slug]],
        [`admin@${gamma.slug}.example`, 0, [gamma.slug]],
        [later.email, 1, [gamma.slug]],
      ],
    );
  });

  test('the operator creates a user with a name, and sees their state', async () => {
    const email = address();
    const create = ['user', 'create', email, '--profile', 'read-only', '--name', ' Ada Lovelace '];
    const { id } = (await runCommand(instance(), [...create, '--org', 'acme'])).json;
    await assert.rejects(
      runCommand(instance(), [...create, '--org', 'beta', '--existing']),
      /--existing keeps the name: leave out --name, or use "user set"/,
    );
    const missing = address();
    const add = ['user', 'create', missing, '--profile', 'read-only', '--org', 'acme', '--existing'];
    await assert.rejects(runCommand(instance(), add), { message: `user ${missing} does not exist` });
    const outsider = await makePerson(instance(), []);
    assert.match((await runCommand(instance(), ['user', 'show', outsider.id])).text, /^member of +none$/m);
    await assert.rejects(runCommand(instance(), ['user', 'enable', String(id)]), /is not disabled/);
    await runCommand(instance(), ['user', 'verify', String(id)]);
    const disabled = await runCommand(instance(), ['user', 'disable', String(id)]);
    assert.deepEqual(disabled.json, { id, email, disabled: true });
    await addPasskey(instance(), String(id));
    const shown = async () => (await runCommand(instance(), ['user', 'show', String(id)])).text;
    for (const line of [
      /^name +Ada Lovelace$/m,
      /^state +verified, disabled$/m,
      /^member of +acme \(read-only\)$/m,
      /^second factor +yes$/m,
    ])
      assert.match(await shown(), line);
    await assert.rejects(runCommand(instance(), ['user', 'unlink', String(id)]), /is not linked/);
    const account = { issuer: 'https://idp.example', subject: fresh('subject') };
    await linkIdentity(tablesOf(instance().database), String(id), account);
    assert.equal((await runCommand(instance(), ['user', 'unlink', email])).json.unlinked, true);
    await runCommand(instance(), ['user', 'reset-second-factor', email]);
    assert.match(await shown(), /^second factor +no$/m);
  });

  describe("changes to a user affect no other user, and are in the activity of all of the user's organizations:", () => {
    const hour = 3_600_000;
    const columns = {
      ...{ crm_users: 'id', crm_sessions: 'user_id', crm_memberships: 'user_id', crm_resets: 'user_id' },
      ...{ crm_totps: 'user_id', crm_passkeys: 'user_id', crm_recovery_codes: 'user_id' },
      crm_identities: 'user_id',
    } as const;
    /** Returns the rows of a user, and the rows of all other users. */
    const rowsOf = async (id: string) => {
      const all = await Promise.all(
        Object.entries(columns).map(async ([table, column]) => {
          // The instance stores the last uses of other tests' sessions every 30 seconds.
          const { rows } = await sql<{ line: string; own: boolean }>`
            select (to_jsonb(t) - case when to_jsonb(t) ->> 'user_agent' <> 'equipped' then 'last_seen_at' else '' end)::text as line,
              ${sql.ref(column)} = ${id}::bigint as own
            from ${sql.table(table)} t order by 1`.execute(tablesOf(instance().database));
          return rows.map(({ line, own }) => ({ line: `${table} ${line}`, own }));
        }),
      );
      const linesOf = (isOwn: boolean) =>
        all.flat().flatMap(({ line, own }) => (own === isOwn ? [line] : []));
      return { own: linesOf(true), others: linesOf(false) };
    };
    /** Gives a user a live and an expired session, second factors and a link to a provider. */
    const equip = async (id: string) => {
      const tables = tablesOf(instance().database);
      const [session = assert.fail()] = await tables
        .insertInto('crm_sessions')
        .values(
          [hour, -hour].map((ms) => ({
            ...{ user_id: id, token_hash: fresh('hash'), jti: fresh('jti'), user_agent: 'equipped' },
            ...{ second_factor: true, expires_at: new Date(Date.now() + ms) },
          })),
        )
        .returning('id')
        .execute();
      await storeTotp(tables, id, { sealed: '', step: 0 });
      await addPasskey(instance(), id);
      await generateRecoveryCodes(tables, id);
      assert.ok(await linkIdentity(tables, id, { issuer: 'https://idp.example', subject: fresh('subject') }));
      return session.id;
    };
    /** The user whose data is changed, their live session and a reset link. */
    interface Changed {
      readonly user: UserInfo;
      readonly session: string;
      readonly link: { readonly publicId: string; readonly code: string };
    }
    const changes: Readonly<
      Record<
        string,
        [change: (tables: Tables, changed: Changed) => Promise<unknown>, ...entries: readonly string[]]
      >
    > = {
      'another name': [(tables, { user }) => changeName(tables, user.id, 'Ada')],
      'another name by the operator': [
        (tables, { user }) => renameUser(tables, by(), user, 'Ada'),
        'rename member {id}',
      ],
      'another language': [(tables, { user }) => changeLanguage(tables, user.id, 'de')],
      'another password': [(tables, { user }) => changePassword(tables, user, victims)],
      'another password by the operator': [
        (tables, { user }) => resetPassword(tables, by(), user, victims),
        'reset password member {id}',
      ],
      'another password by link': [
        (tables, { link }) =>
          redeemReset(tables, { requestId: 'r', audited: true }, { ...link, password: victims }),
        'reset password member {id}',
      ],
      'reset second factors': [
        (tables, { user }) => resetSecondFactor(tables, by(), user),
        'reset second factor member {id}',
      ],
      'removed links to providers': [
        (tables, { user }) => unlinkUser(tables, by(), user),
        'unlink provider member {id}',
      ],
      disabled: [(tables, { user }) => disableUser(tables, by(), user), 'disable member {id}'],
      enabled: [
        async (tables, { user }) => {
          const disabled_at = new Date(0);
          await tables.updateTable('crm_users').set({ disabled_at }).where('id', '=', user.id).execute();
          await enableUser(tables, by(), { ...user, disabled_at: disabled_at.toISOString() });
          await changeName(tables, user.id, 'Enabled');
        },
        'enable member {id}',
      ],
      verified: [(tables, { user }) => verifyEmail(tables, by(), user), 'verify member {id}'],
      'verified by a code': [(tables, { user }) => markEmailProven(tables, user.id)],
      'all sessions ended': [
        (tables, { user }) => endAllSessions(tables, by(), user.id, [acme.id, gamma.id]),
        'logout everywhere session null',
      ],
      'a session ended': [
        (tables, { user, session }) => endSession(tables, by(), user.id, session, [acme.id, gamma.id]),
        'logout session {session}',
      ],
      'a session started': [
        (tables, { user }) =>
          startSession(tables, user.id, {
            ...{ durationMs: hour, userAgent: '', tokenVersion: 1 },
            proof: { method: 'Passkey', secondFactor: true },
          }),
      ],
      'a session used': [
        (tables, { session }) => storeSessionsUsed(tables, new Map([[session, new Date(0)]])),
      ],
      'other second factors': [
        (tables, { user, session: id }) =>
          changeSecondFactors(tables, { user: { ...user, language: null }, id }, async () => {}),
      ],
      'another authenticator app': [
        (tables, { user }) => storeTotp(tables, user.id, { sealed: 'another', step: 1 }),
      ],
      'other recovery codes': [(tables, { user }) => generateRecoveryCodes(tables, user.id)],
    };
    let gamma: Organization;
    before(async () => {
      gamma = await instance().organization(fresh('gamma'));
      const disabled = await makePerson(instance(), [{ organization: beta }]);
      await equip(disabled.id);
      await operate(disabled.email, disableUser);
    });
    for (const [name, [change, ...entries]] of Object.entries(changes)) {
      test(name, async () => {
        const { id, email } = await makePerson(instance(), [{ organization: acme }]);
        const namesake = await makePerson(instance(), [{ organization: beta }], { email });
        const { database } = instance();
        const tables = tablesOf(database);
        const profile_id = await profileId(tables, gamma.id, 'administrator');
        await tables
          .insertInto('crm_memberships')
          .values({ organization_id: gamma.id, user_id: id, profile_id })
          .execute();
        const session = await equip(id);
        await equip(namesake.id);
        const [link = assert.fail()] = await createMailedResets(tables, email);
        const user = await findUserBy(tables, id);
        const activity = () =>
          Promise.all(
            [acme, gamma, beta].map(async (each) => (await activityOf(instance(), each.id)).length),
          );
        const [before, count] = [await rowsOf(id), await activity()];
        await transaction(database, (inside) => change(inside, { user, session, link }));
        const after = await rowsOf(id);
        assert.deepEqual(after.others, before.others);
        assert.notDeepEqual(after.own, before.own);
        const expected = entries.map((entry) => entry.replace('{id}', id).replace('{session}', session));
        for (const [index, each] of [acme, gamma, beta].entries()) {
          const added = (await activityOf(instance(), each.id)).slice(count[index]).map(({ did }) => did);
          assert.deepEqual(added, each === beta ? [] : expected, each.slug);
        }
      });
    }
  });

  test('only one user per email address can be verified, and the operator selects it by ID', async () => {
    const email = address();
    await join(acme, email, attackers);
    await join(beta, email, victims);
    await assert.rejects(
      operate(email, verifyEmail),
      /belongs to 2 users\. Use an ID instead: \d+ \(unverified, in "acme"\), \d+ \(unverified, in "beta"\)/,
    );
    const id = async (password: string) =>
      String(((await login(email, password)).json.user as { id: number }).id);
    const [attacker, victim] = [await id(attackers), await id(victims)];
    await operate(victim, verifyEmail);
    await assert.rejects(
      operate(attacker, verifyEmail),
      /another user with the email address .* is already verified/,
    );
    // An updated row moves within its table.
    await changeName(tablesOf(instance().database), attacker, 'Ann');
    await assert.rejects(operate(email, verifyEmail), {
      message: `${email} belongs to 2 users. Use an ID instead: ${attacker} (unverified, in "acme"), ${victim} (verified)`,
    });
  });

  test('an account at a provider belongs to one user, who has one account there', async () => {
    const tables = tablesOf(instance().database);
    const [one, other] = [
      await makePerson(instance(), [{ organization: acme }]),
      await makePerson(instance(), [{ organization: acme }]),
    ];
    const account = { issuer: 'https://idp.example', subject: fresh('subject') };
    const link = ({ id }: Person, changes = {}) => linkIdentity(tables, id, { ...account, ...changes });
    assert.deepEqual(
      [
        await link(one),
        await link(one),
        await link(other),
        await link(one, { subject: fresh('subject') }),
        await link(one, { issuer: 'https://other.example' }),
      ],
      [true, true, false, false, true],
    );
  });

  test('a verified user accepts an invitation with the existing password, and the code in any case', async () => {
    const person = await makePerson(instance(), [{ organization: acme }], { verified: true });
    const accept = await invite(beta, person.email, (code) => ` ${code.toLowerCase()} `);
    const refused = await accept('some other password');
    assert.equal(refused.status, 400);
    assert.equal(problemOf(refused), `${person.email} is already registered. Enter the user's password.`);
    assert.equal((await accept(person.password)).status, 303);
    assert.deepEqual(organizationsAt(await login(person.email, person.password)), ['acme', 'beta']);
  });

  test('accepting a second invitation by the same organization sets a new password and ends sessions, but does not verify the user', async () => {
    const email = address();
    await join(acme, email, attackers);
    const session = await logIn(instance(), { email, password: attackers });
    const members = '/setup/o/acme/members';
    const id = String(((await login(email, attackers)).json.user as { id: number }).id);
    await inviters.acme?.submit(members, `${members}/remove`, { id });
    await join(acme, email, victims);
    assert.equal((await login(email, attackers)).status, 401);
    assert.deepEqual(organizationsAt(await login(email, victims)), ['acme']);
    const { verified_at } = await findUserBy(tablesOf(instance().database), email);
    assert.equal(verified_at, null, 'the administrator passed on the code');
    await soonerThan(1000, async () => {
      const { status } = await instance().call('GET /auth/me', { headers: session.byToken });
      return status === 401;
    });
  });

  describe("an administrator's reset link", () => {
    const page = '/setup/o/acme/members';
    const make = async (id: string) => {
      const answer = await (inviters.acme ?? assert.fail()).submit(page, `${page}/reset`, { id });
      const link = shownIn(answer, 'reset-link');
      return { answer, path: link === '' ? '' : new URL(link).pathname, code: shownIn(answer, 'reset-code') };
    };
    const use = ({ path, code }: { path: string; code: string }, password = victims) =>
      visitor(instance()).submit(path, path, { code, new: password, again: password });
    const own =
      'administrators cannot reset the password of a verified user. The user can use "Forgot your password?" or ask the operator of this instance.';

    test('sets the password of an unverified member once, and ends sessions', async () => {
      const person = await makePerson(instance(), [{ organization: acme }]);
      const session = await logIn(instance(), person);
      const activity = async () => {
        const entries = await activityOf(instance(), acme.id);
        return entries.flatMap(({ actor, did }) =>
          did.endsWith(` link member ${person.id}`) || did.endsWith(` password member ${person.id}`)
            ? [`${actor}: ${did}`]
            : [],
        );
      };
      const link = await make(person.id);
      const created = `user ${acme.user}: create reset link member ${person.id}`;
      assert.deepEqual(await activity(), [created]);
      assert.equal((await use({ ...link, code: 'AAAA-BBBB-CCCC-DDDD' })).status, 400);
      assert.equal((await use({ ...link, code: ` ${link.code.toLowerCase()} ` })).status, 303);
      assert.deepEqual(await activity(), [created, `user ${person.id}: reset password member ${person.id}`]);
      assert.equal((await use(link, attackers)).status, 400);
      assert.deepEqual(
        told(await login(person.email, person.password)),
        told(await login(address(), 'wrong')),
      );
      assert.equal((await login(person.email, victims)).status, 200);
      assert.equal((await findUserBy(tablesOf(instance().database), person.id)).verified_at, null);
      await soonerThan(1000, async () => {
        const { status } = await instance().call('GET /auth/me', { headers: session.byToken });
        return status === 401;
      });
    });

    test('is not created for verified members or members of other organizations', async () => {
      const verified = await makePerson(instance(), [{ organization: acme }], { verified: true });
      const both = await makePerson(instance(), [{ organization: acme }, { organization: beta }]);
      const theirs = await makePerson(instance(), [{ organization: beta }]);
      const guest = await makePerson(instance(), [{ organization: beta }]);
      const tables = tablesOf(instance().database);
      await tables
        .insertInto('crm_memberships')
        .values({
          ...{ organization_id: acme.id, user_id: guest.id },
          profile_id: await profileId(tables, acme.id, 'read-only'),
        })
        .execute();
      for (const [{ id }, problem] of [
        [verified, own],
        [both, own],
        [guest, own],
        [theirs, 'this member does not exist'],
      ] as const) {
        const { answer } = await make(id);
        assert.deepEqual([answer.status, problemOf(answer)], [400, problem]);
      }
    });

    test('expires when the user is verified', async () => {
      const person = await makePerson(instance(), [{ organization: acme }]);
      const link = await make(person.id);
      await operate(person.email, verifyEmail);
      assert.equal((await use(link, attackers)).status, 400);
      assert.equal((await login(person.email, person.password)).status, 200);
    });
  });

  describe('changes to a user between creation and use of a reset link', () => {
    const page = '/setup/o/acme/members';
    const made = async (person: Person) => {
      const answer = await (inviters.acme ?? assert.fail()).submit(page, `${page}/reset`, { id: person.id });
      const path = new URL(shownIn(answer, 'reset-link')).pathname;
      return () =>
        visitor(instance()).submit(path, path, {
          code: shownIn(answer, 'reset-code'),
          new: victims,
          again: victims,
        });
    };
    const mailed = async (person: Person) => {
      const [link] = await transaction(instance().database, (tables) =>
        createMailedResets(tables, person.email),
      );
      const path = `/setup/reset/${link?.publicId}`;
      return () =>
        visitor(instance()).submit(path, path, { code: link?.code ?? '', new: victims, again: victims });
    };
    const events: readonly [
      event: string,
      happens: (person: Person) => Promise<unknown>,
      status: { readonly made: number; readonly mailed: number },
    ][] = [
      ['nothing', async () => {}, { made: 303, mailed: 303 }],
      ['is disabled', ({ email }) => operate(email, disableUser), { made: 400, mailed: 400 }],
      ['is verified', ({ email }) => operate(email, verifyEmail), { made: 400, mailed: 303 }],
      [
        'is disabled and enabled again',
        async ({ email }) => {
          await operate(email, disableUser);
          await operate(email, enableUser);
        },
        { made: 303, mailed: 303 },
      ],
    ];
    for (const [event, happens, expected] of events) {
      for (const [name, link, status] of [
        ['an administrator’s link', made, expected.made],
        ['a mailed link', mailed, expected.mailed],
      ] as const) {
        test(`${name}, and the user ${event} → ${status}`, async () => {
          const person = await makePerson(instance(), [{ organization: acme }]);
          const use = await link(person);
          await happens(person);
          assert.equal((await use()).status, status);
          if (event === 'is disabled') await operate(person.email, enableUser);
          const password = status === 303 ? victims : person.password;
          assert.equal((await login(person.email, password)).status, 200);
        });
      }
    }
  });

  describe('for every owner of the email address', () => {
    const owners: Readonly<Record<string, (email: string) => Promise<unknown>>> = {
      'no user': async () => {},
      'an unverified user elsewhere': (email) => makePerson(instance(), [{ organization: acme }], { email }),
      'a verified user elsewhere': (email) =>
        makePerson(instance(), [{ organization: acme }], { email, verified: true }),
      'a disabled user elsewhere': async (email) => {
        await makePerson(instance(), [{ organization: acme }], { email, verified: true });
        await operate(email, disableUser);
      },
    };
    /** Cancels the newest invitation. */
    const cancelNewest = async () => {
      const list = await inviters.beta?.get('/setup/o/beta/members?show=invitations');
      const id = /cancel\?id=(\d+)/.exec(readable(list?.text ?? ''))?.[1] ?? '';
      await inviters.beta?.submit('/setup/o/beta/members', '/setup/o/beta/members/cancel', { id });
    };
    test('inviters and visitors without the code see the same pages', async () => {
      const views = new Map<string, unknown>();
      const acceptPages = new Map<string, string>();
      for (const [owner, make] of Object.entries(owners)) {
        const email = address();
        await make(email);
        const { answer, path, code } = await inviting(beta, email);
        await cancelNewest();
        const again = await inviting(beta, email);
        const stranger = visitor(instance());
        const wrong = { code: 'AAAA-BBBB-CCCC-DDDD' };
        const pages = [
          answer,
          await stranger.get(again.path),
          await stranger.submit(again.path, again.path, wrong),
          await stranger.submit(again.path, again.path, { ...wrong, password: victims }),
        ];
        const steady = (text: string) =>
          text
            .replaceAll(email, '{email}')
            .replaceAll(path, '{path}')
            .replaceAll(again.path, '{path}')
            .replaceAll(code, '{code}')
            .replace(/(value|datetime)="[^"]*"|<time.*?<\/time>|\d+/g, '');
        views.set(
          owner,
          pages.map(({ status, text }) => [status, steady(text)]),
        );
        const accepted = await stranger.submit(again.path, again.path, { code: again.code });
        acceptPages.set(owner, readable(accepted.text));
        await cancelNewest();
      }
      const [first, ...others] = views.values();
      for (const other of others) assert.deepEqual(other, first);
      assert.match(acceptPages.get('no user') ?? '', /Choose a password/);
      assert.match(acceptPages.get('an unverified user elsewhere') ?? '', /Choose a password/);
      assert.match(acceptPages.get('a verified user elsewhere') ?? '', /Enter its password/);
    });
  });

  test('a restore ends all access that has not ended yet', async () => {
    const { database } = instance();
    const { id } = await makePerson(instance(), [{ organization: acme }]);
    const past = new Date(Date.now() - 60_000);
    const undone = new Error('only tried');
    const trial = transaction(database, async (tables) => {
      const rowsOf = async (table: 'crm_invites' | 'crm_resets' | 'crm_api_keys', column: string) => {
        const { rows } = await sql<{ id: string; ended: boolean }>`select id::text,
          ${sql.ref(column)} is not null as ended from ${sql.table(table)} order by 1`.execute(tables);
        const idsOf = (isEnded: boolean) => rows.flatMap((row) => (row.ended === isEnded ? [row.id] : []));
        return { open: idsOf(false), ended: idsOf(true) };
      };
      const profile = await profileId(tables, acme.id, 'read-only');
      const organization = acme.id;
      for (const used_at of [null, past]) {
        const email = address();
        const invited = await inviteTo(tables, by(), { organization, email, profile });
        await tables.updateTable('crm_invites').set({ used_at }).where('id', '=', invited.id).execute();
        const link = await createMemberReset(tables, by(), organization, id);
        await tables
          .updateTable('crm_resets')
          .set({ used_at })
          .where('public_id', '=', link.publicId)
          .execute();
      }
      const keys: string[] = [];
      for (const client of [undefined, undefined, 'the client of an app'])
        keys.push(
          (
            await createKey(tables, by(), 'crm_', {
              ...{ organization, profile, name: 'Key', user: null, onBehalfOf: null, expiresAt: null },
              ...(client !== undefined && { client }),
            })
          ).id,
        );
      const [revoked = '', key, app] = keys;
      await tables.updateTable('crm_api_keys').set({ revoked_at: past }).where('id', '=', revoked).execute();
      const before = {
        invites: await rowsOf('crm_invites', 'used_at'),
        resets: await rowsOf('crm_resets', 'used_at'),
        keys: await rowsOf('crm_api_keys', 'revoked_at'),
      };
      const sessions = (await tables.selectFrom('crm_sessions').select('id').execute()).length;
      assert.ok(sessions > 0);
      assert.deepEqual(
        [
          await cancelAllInvites(tables),
          await endSessionsOfAllUsers(tables),
          await revokeAllKeys(tables, by()),
        ],
        [before.invites.open.length, sessions, before.keys.open.length],
      );
      for (const [table, { ended }] of [
        ['crm_invites', before.invites],
        ['crm_resets', before.resets],
      ] as const)
        assert.deepEqual(await rowsOf(table, 'used_at'), { open: [], ended });
      assert.deepEqual((await rowsOf('crm_api_keys', 'revoked_at')).open, []);
      const row = await tables
        .selectFrom('crm_api_keys')
        .select('revoked_at')
        .where('id', '=', revoked)
        .executeTakeFirst();
      assert.deepEqual(row?.revoked_at, past, 'a key that was revoked before');
      assert.equal((await findUser(tables, id))?.tokenVersion, 2);
      const entries = await tables
        .selectFrom('crm_ledger')
        .select(['object', 'object_id'])
        .where('organization_id', '=', organization)
        .where('action', '=', 'revoke')
        .where('object_id', 'in', keys)
        .orderBy('object_id')
        .execute();
      assert.deepEqual(entries, [
        { object: 'key', object_id: key },
        { object: 'app', object_id: app },
      ]);
      throw undone;
    });
    await assert.rejects(trial, undone);
  });

  test('disabling a user ends sessions and tokens and rejects logins but not keys, until the user is enabled again', async () => {
    const person = await makePerson(instance(), [{ organization: acme }]);
    const { key } = await acme.makeKey({ user: person.id });
    const session = await logIn(instance(), person);
    const status = async (headers: Readonly<Record<string, string>>) =>
      (await instance().call('GET /auth/me', { headers })).status;
    assert.deepEqual([await status(session.byCookie), await status(session.byToken)], [200, 200]);
    await operate(person.email, disableUser);
    for (const headers of [session.byCookie, session.byToken]) {
      await soonerThan(1000, async () => (await status(headers)) === 401);
    }
    assert.deepEqual(told(await login(person.email, person.password)), told(await login(address(), 'wrong')));
    assert.equal((await instance().call('GET /api/v1/leads', { key })).status, 200);
    await assert.rejects(operate(person.email, disableUser), /is already disabled/);
    await operate(person.email, enableUser);
    assert.equal((await login(person.email, person.password)).status, 200);
    assert.equal(await status(session.byToken), 401, 'ended sessions stay ended');
  });

  test('a wrong password takes as long for an email address with six users as for an unknown one', async () => {
    const email = address();
    for (let index = 0; index < 6; index++) {
      const organization = await instance().organization(fresh('org'));
      await makePerson(instance(), [{ organization }], { email, password: `${victims} ${index}` });
    }
    const hashes = (of: string) =>
      hashesDuring(async () => assert.equal((await login(of, 'wrong')).status, 401));
    const one = ['m=19456,t=2, a short password'];
    assert.deepEqual([await hashes(email), await hashes('missing@people.example')], [one, one]);
    assert.equal((await login(email, `${victims} 4`)).status, 200, 'each user still has its own password');
  });
});
