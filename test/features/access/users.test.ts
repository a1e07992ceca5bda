// Users with the same email address: the first one's creator might not own the address. Therefore, an unverified user
// stays in the organization that created it, and another organization's invitation does not affect it.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { commandLine } from '../../../engine/effects/actor.ts';
import { tablesOf, transaction } from '../../../engine/tables/handle.ts';
import {
  disableUser,
  enableUser,
  findUserBy,
  verifyEmail,
} from '../../../plugins/access/identity/operator-users.ts';
import { createMailedResets } from '../../../plugins/access/identity/resets.ts';
import { addExistingUser } from '../../../plugins/access/identity/users.ts';
import { profileId } from '../../../plugins/access/profiles/profiles.ts';
import {
  administratorOf,
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
import { fresh, logIn, makePerson, type Person, soonerThan, told } from '../../support/people.ts';

const attackers = 'the password of an attacker';
const victims = 'the password of a victim';

const severalUsers =
  'Several users have this email address. Choose the organization and enter the password again.';

onBothDrivers('users with one email address', (instance) => {
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
  const invite = async (organization: Organization, email: string) => {
    const { path, code } = await inviting(organization, email);
    return (password: string) => visitor(instance()).submit(path, path, { code, password });
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
    transaction(instance().database, async (tables) =>
      act(tables, commandLine(instance().config), await findUserBy(tables, email)),
    );

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
    await join(acme, email, attackers);
    const before = await login(email, attackers);
    await join(beta, email, attackers);
    assert.deepEqual(organizationsAt(await login(email, attackers)), ['acme']);
    assert.deepEqual(organizationsAt(await login(email, attackers, 'beta')), ['beta']);
    assert.deepEqual(told(await login(email, attackers, 'gamma')), told(await login(address(), 'wrong')));
    const me = await instance().call('GET /auth/me', {
      headers: { authorization: `Bearer ${before.json.access_token}` },
    });
    assert.deepEqual(organizationsAt(me), ['acme']);

    const browser = visitor(instance());
    const answer = await browser.submit('/setup/login', '/setup/login', { email, password: attackers });
    assert.equal(answer.status, 401);
    assert.equal(problemOf(answer), severalUsers);
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
    const login = () => browser.submit(page, '/setup/login', { email, password: victims });
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
    assert.deepEqual(organizationsAt(await login(person.email, person.password)), ['acme']);
    await operate(person.email, verifyEmail);
    const all = ['acme', 'beta'];
    assert.deepEqual(organizationsAt(await login(person.email, person.password)), all);
    await soonerThan(1000, async () => {
      const me = await instance().call('GET /auth/me', { headers: session.byToken });
      return organizationsAt(me)?.length === 2;
    });
  });

  test('the operator can add a verified user to another organization, but not an unverified one', async () => {
    const person = await makePerson(instance(), [{ organization: acme }]);
    const actor = commandLine(instance().config);
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
  });

  test('a verified user accepts an invitation with the existing password', async () => {
    const person = await makePerson(instance(), [{ organization: acme }], { verified: true });
    const accept = await invite(beta, person.email);
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
      const link = await make(person.id);
      assert.equal((await use({ ...link, code: 'AAAA-BBBB-CCCC-DDDD' })).status, 400);
      assert.equal((await use(link)).status, 303);
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
      for (const [{ id }, problem] of [
        [verified, own],
        [both, own],
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
