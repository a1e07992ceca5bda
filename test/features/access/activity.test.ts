// Activity: each change is one row, written atomically with the change.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../../engine/tables/handle.ts';
import { sentenceOf } from '../../../plugins/admin-ui/activity/sentences.ts';
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
import { type Instance, type Organization, onBothDrivers } from '../../support/instance.ts';
import { activityOf, dump, fresh, logIn, makePerson } from '../../support/people.ts';

/** Returns the ID of the organization's newest row in a table. */
async function latest(
  { database }: Instance,
  table: 'crm_api_keys' | 'crm_profiles' | 'crm_invites',
  { id }: Organization,
): Promise<string> {
  const rows = await tablesOf(database)
    .selectFrom(table)
    .select('id')
    .where('organization_id', '=', id)
    .orderBy('id')
    .execute();
  return String(rows.at(-1)?.id);
}

onBothDrivers('activity', (instance) => {
  let acme: Organization;
  let admin: Visitor;
  before(async () => {
    acme = await instance().organization('acme');
    admin = await signIn(instance(), administratorOf(acme));
  });

  /** Returns the activity rows that the work added to an organization. */
  const added = async (work: () => Promise<unknown>, organization = acme) => {
    const before = (await activityOf(instance(), organization.id)).length;
    const start = Date.now();
    await work();
    const rows = (await activityOf(instance(), organization.id)).slice(before);
    for (const { at } of rows) {
      assert.ok(at.getTime() >= start - 1000 && at.getTime() <= Date.now() + 1000, at.toISOString());
    }
    // The request ID links activity rows to the log.
    for (const { did, requestId } of rows) assert.ok(requestId !== null && requestId !== '', did);
    return rows;
  };
  const did = (rows: Awaited<ReturnType<typeof added>>) => rows.map(({ actor, did }) => `${actor}: ${did}`);
  const page = (name: string) => `/setup/o/acme/${name}`;
  const form = async (name: string, action: string, fields: Record<string, string | string[]>) => {
    const answer = await admin.submit(page(name), page(`${name}/${action}`), fields);
    assert.ok(answer.status === 200 || answer.status === 303, problemOf(answer));
    return answer;
  };
  const profile = (name: string) => optionOf(admin, page('keys/create'), name);

  describe('records', () => {
    for (const kind of ['key', 'token', 'cookie'] as const) {
      test(`by ${kind}: create, update and delete add one row each, reads add none`, async () => {
        const ann = await makePerson(instance(), [{ organization: acme }]);
        const { id: keyId, key } = await acme.makeKey();
        const session = await logIn(instance(), ann);
        const headers = {
          key: { authorization: `Bearer ${key}` },
          token: session.byToken,
          cookie: session.byCookie,
        }[kind];
        const actor = kind === 'key' ? `key ${keyId}` : `user ${ann.id}`;
        let id = '';
        const call = async (request: string, body?: unknown) => {
          const answer = await instance().call(request, { headers, ...(body ? { body } : {}) });
          assert.ok(answer.status < 300, answer.text);
          return answer.json;
        };
        const rows = await added(async () => {
          id = String((await call('POST /api/v1/leads', { last_name: 'Ames' })).id);
          await call(`GET /api/v1/leads/${id}`);
          await call('GET /api/v1/leads');
          await call(`PUT /api/v1/leads/${id}`, { last_name: 'Bond' });
          await call(`DELETE /api/v1/leads/${id}`);
        });
        assert.deepEqual(
          did(rows),
          ['create', 'update', 'delete'].map((action) => `${actor}: ${action} leads ${id}`),
        );
        assert.equal(new Set(rows.map(({ requestId }) => requestId)).size, 3);
        for (const { requestId } of rows) assert.match(String(requestId), /^[0-9a-f]{8}-[0-9a-z]+$/);
      });
    }

    const refused: readonly [request: string, body: unknown, status: number][] = [
      ['POST /api/v1/leads', '{', 400],
      ['POST /api/v1/leads', { last_name: 7 }, 400],
      ['POST /api/v1/contacts', { last_name: 'X', account_id: 999999999 }, 400],
      ['PUT /api/v1/leads/999999999', { last_name: 'X' }, 404],
      ['PUT /api/v1/leads/{foreign}', { last_name: 'X' }, 404],
      ['PUT /api/v1/leads/x', { last_name: 'X' }, 404],
      ['DELETE /api/v1/leads/999999999', undefined, 404],
      ['DELETE /api/v1/leads/{foreign}', undefined, 404],
      ['POST /api/v1/leads', { last_name: 'x'.repeat(2_000_000) }, 413],
    ];
    for (const [request, body, status] of refused) {
      test(`rejected: ${request} → ${status} adds no rows`, async () => {
        const other = await instance().organization(fresh('other'));
        const lead = await instance().call('POST /api/v1/leads', {
          key: other.key,
          body: { last_name: 'Theirs' },
        });
        const rows = await added(async () => {
          const answer = await instance().call(request.replace('{foreign}', String(lead.json.id)), {
            key: acme.key,
            ...(body === undefined ? {} : { body }),
          });
          assert.equal(answer.status, status, answer.text);
        });
        assert.deepEqual(rows, []);
        assert.equal(
          (await activityOf(instance(), other.id)).filter((row) => row.did.includes('leads')).length,
          1,
        );
      });
    }
  });

  test('keys: records create, rotate and revoke with the acting user', async () => {
    const rows = await added(async () => {
      await form('keys', 'create', { name: 'one', profile: await profile('read-only'), expires: 'never' });
    });
    const first = await latest(instance(), 'crm_api_keys', acme);
    assert.deepEqual(did(rows), [`user ${acme.user}: create key ${first}`]);
    const rotated = await added(() => form('keys', 'rotate', { id: first, overlap: '1h' }));
    const second = await latest(instance(), 'crm_api_keys', acme);
    assert.deepEqual(did(rotated), [
      `user ${acme.user}: rotate key ${first}`,
      `user ${acme.user}: create key ${second}`,
    ]);
    assert.equal(rotated[0]?.requestId, rotated[1]?.requestId);
    const revoked = await added(() => form('keys', 'revoke', { id: second }));
    assert.deepEqual(did(revoked), [`user ${acme.user}: revoke key ${second}`]);
    const again = await added(() => admin.submit(page('keys'), page('keys/revoke'), { id: second }));
    assert.deepEqual(again, [], 'a rejected form adds no rows');
  });

  test('profiles: records create, update and delete', async () => {
    const rows = await added(() => form('profiles', 'create', { name: 'sales' }));
    const id = await latest(instance(), 'crm_profiles', acme);
    assert.deepEqual(did(rows), [`user ${acme.user}: create profile ${id}`]);
    const changed = await added(() =>
      form('profiles', 'change', { id, grant: ['leads:list', 'leads:read', 'accounts:*'] }),
    );
    assert.deepEqual(did(changed), [`user ${acme.user}: update profile ${id}`]);
    const deleted = await added(() => form('profiles', 'delete', { id }));
    assert.deepEqual(did(deleted), [`user ${acme.user}: delete profile ${id}`]);
  });

  test('members: records invitations, acceptance, changes and removal', async () => {
    const email = `${fresh('guest')}@people.example`;
    let shown = { link: '', code: '' };
    const invited = await added(async () => {
      const answer = await form('members', 'invite', { email, profile: await profile('read-only') });
      shown = { link: new URL(shownIn(answer, 'link')).pathname, code: shownIn(answer, 'invitation-code') };
    });
    const invite = await latest(instance(), 'crm_invites', acme);
    assert.deepEqual(did(invited), [`user ${acme.user}: create invite ${invite}`]);

    const guest = visitor(instance());
    const fields = { code: shown.code, password: 'one of their own' };
    const accepted = await added(async () => {
      assert.equal((await guest.submit(shown.link, shown.link, fields)).status, 303);
    });
    const users = tablesOf(instance().database).selectFrom('crm_users').select('id');
    const id = String((await users.where('email', '=', email).executeTakeFirstOrThrow()).id);
    assert.deepEqual(did(accepted), [`user ${id}: create member ${id}`]);

    const changed = await added(async () =>
      form('members', 'change', { id, profile: await profile('administrator') }),
    );
    assert.deepEqual(did(changed), [`user ${acme.user}: update member ${id}`]);
    const removed = await added(() => form('members', 'remove', { id }));
    assert.deepEqual(did(removed), [`user ${acme.user}: delete member ${id}`]);

    const other = { email: `${fresh('guest')}@people.example`, profile: await profile('read-only') };
    await form('members', 'invite', other);
    const taken = await latest(instance(), 'crm_invites', acme);
    const cancelled = await added(() => form('members', 'cancel', { id: taken }));
    assert.deepEqual(did(cancelled), [`user ${acme.user}: delete invite ${taken}`]);
  });

  test("logins: recorded in each of the user's organizations, and in no other", async () => {
    const beta = await instance().organization(fresh('beta'));
    const gamma = await instance().organization(fresh('gamma'));
    const ann = await makePerson(instance(), [{ organization: acme }, { organization: beta }]);
    let session = '';
    const both = async (work: () => Promise<unknown>) => {
      const inBeta = await added(async () => {
        const inAcme = await added(work);
        assert.deepEqual(did(inAcme).length, 1);
      }, beta);
      return did(inBeta);
    };
    const none = await added(async () => {
      assert.deepEqual(
        (await both(async () => ({ session } = await logIn(instance(), ann)))).map((line) => line),
        [`user ${ann.id}: login session ${session}`],
      );
      const own = await logIn(instance(), ann);
      assert.deepEqual(
        await both(() => instance().call(`DELETE /auth/sessions/${session}`, { headers: own.byToken })),
        [`user ${ann.id}: logout session ${session}`],
      );
      assert.deepEqual(await both(() => instance().call('POST /auth/logout', { headers: own.byCookie })), [
        `user ${ann.id}: logout session ${own.session}`,
      ]);
      const last = await logIn(instance(), ann);
      assert.deepEqual(
        await both(() => instance().call('POST /auth/logout-everywhere', { headers: last.byCookie })),
        [`user ${ann.id}: logout everywhere session null`],
      );
      const browser = await signIn(instance(), ann);
      assert.deepEqual(await both(() => browser.submit('/setup/me', '/setup/me/name', { name: 'Ann' })), [
        `user ${ann.id}: change name session null`,
      ]);
      const wrong = { email: ann.email, password: 'wrong' };
      const failed = await added(() => instance().call('POST /auth/login', { body: wrong }), beta);
      assert.deepEqual(failed, [], 'a wrong password is not a login');
    }, gamma);
    assert.deepEqual(none, []);
  });

  test("a login that ends a browser's previous session is recorded for both users, in their own organizations", async () => {
    const beta = await instance().organization(fresh('beta'));
    const ann = await makePerson(instance(), [{ organization: acme }]);
    const bea = await makePerson(instance(), [{ organization: beta }]);
    const previous = await logIn(instance(), ann);
    let [session, inAcme] = ['', [] as string[]];
    const inBeta = await added(async () => {
      inAcme = did(
        await added(async () => {
          ({ session } = await logIn(instance(), bea, {
            headers: { cookie: previous.byCookie.cookie ?? '' },
          }));
        }),
      );
    }, beta);
    assert.deepEqual(inAcme, [`user ${ann.id}: logout session ${previous.session}`]);
    assert.deepEqual(did(inBeta), [`user ${bea.id}: login session ${session}`]);
  });

  test('the page lists changes newest first, with names, and only those of its organization', async () => {
    const other = await instance().organization(fresh('other'));
    await instance().call('POST /api/v1/leads', { key: other.key, body: { last_name: 'Theirs' } });
    const { key } = await acme.makeKey();
    await instance().call('POST /api/v1/leads', { key, body: { last_name: 'Ours' } });
    const lines = [
      ...(await admin.get(page('activity'))).text.matchAll(/<tr[^>]*><th scope="row"[^>]*>.*?<\/tr>/gs),
    ].map(String);
    assert.match(lines[0] ?? '', />Lead “Ours” created<.*>administrator<span class="below">API key</s);
    assert.match(lines[1] ?? '', />API key “administrator” created<.*>command line</);
    assert.ok(!lines.some((line) => line.includes(' null')));
  });

  describe('rolls the change back if its activity row cannot be written', () => {
    const forbid = (instance: Instance) =>
      sql`alter table crm_ledger add constraint refused check (organization_id = 0) not valid`.execute(
        tablesOf(instance.database),
      );
    const allow = (instance: Instance) =>
      sql`alter table crm_ledger drop constraint refused`.execute(tablesOf(instance.database));
    /** Returns all rows except uses of names, which are stored every 30 seconds. */
    const rows = async () =>
      (await dump(instance()))
        .split(/^(?=\w+:$)/m)
        .filter((table) => !table.startsWith('crm_name_uses:'))
        .flatMap((table) => table.trimEnd().split('\n'));
    const work: Readonly<Record<string, () => Promise<() => Promise<number>>>> = {
      'creating a record': async () => async () =>
        (await instance().call('POST /api/v1/leads', { key: acme.key, body: { last_name: 'X' } })).status,
      'replacing a record': async () => {
        const id = await lead();
        return async () =>
          (await instance().call(`PUT /api/v1/leads/${id}`, { key: acme.key, body: { last_name: 'Y' } }))
            .status;
      },
      'deleting a record': async () => {
        const id = await lead();
        return async () => (await instance().call(`DELETE /api/v1/leads/${id}`, { key: acme.key })).status;
      },
      'a login': async () => {
        const { email, password } = await makePerson(instance(), [{ organization: acme }]);
        return async () => (await instance().call('POST /auth/login', { body: { email, password } })).status;
      },
      'a logout': async () => {
        const { byCookie } = await logIn(instance(), await makePerson(instance(), [{ organization: acme }]));
        return async () => (await instance().call('POST /auth/logout', { headers: byCookie })).status;
      },
      'creating a key': () =>
        sending('keys', 'create', { name: 'k', profile: '', expires: 'never' }, 'read-only'),
      'rotating a key': async () =>
        sending('keys', 'rotate', { id: (await acme.makeKey()).id, overlap: '1d' }),
      'revoking a key': async () => sending('keys', 'revoke', { id: (await acme.makeKey()).id }),
      'creating a profile': () => sending('profiles', 'create', { name: fresh('profile') }),
      inviting: () =>
        sending('members', 'invite', { email: `${fresh('x')}@people.example`, profile: '' }, 'read-only'),
      'removing a member': async () => {
        const { id } = await makePerson(instance(), [{ organization: acme }]);
        return sending('members', 'remove', { id });
      },
    };
    const lead = async () => {
      const body = { last_name: 'Old' };
      return String((await instance().call('POST /api/v1/leads', { key: acme.key, body })).json.id);
    };
    const sending = async (name: string, action: string, fields: Record<string, string>, chosen?: string) => {
      const values = chosen === undefined ? fields : { ...fields, profile: await profile(chosen) };
      const _csrf = formsOf(await admin.get(page(name)))[0]?.values._csrf ?? '';
      return async () => (await admin.post(page(`${name}/${action}`), { ...values, _csrf })).status;
    };
    for (const [name, prepare] of Object.entries(work)) {
      test(name, async () => {
        const act = await prepare();
        await forbid(instance());
        try {
          const previous = await rows();
          assert.equal(await act(), 500);
          const current = await rows();
          assert.deepEqual(
            current.filter((row) => !previous.includes(row)),
            [],
          );
          assert.equal(current.length, previous.length);
        } finally {
          await allow(instance());
        }
        assert.ok((await act()) < 400, 'succeeds once the activity can be written');
      });
    }
  });
});

onBothDrivers(
  'activity with AUDIT=false',
  (instance) => {
    test('records nothing, and everything else works', async () => {
      const acme = await instance().organization('acme');
      const admin = await signIn(instance(), administratorOf(acme));
      const lead = await instance().call('POST /api/v1/leads', { key: acme.key, body: { last_name: 'X' } });
      assert.equal(lead.status, 201);
      const path = `/api/v1/leads/${lead.json.id}`;
      const put = await instance().call(`PUT ${path}`, { key: acme.key, body: { last_name: 'Y' } });
      assert.equal(put.status, 200);
      // Without a change log, a form cannot determine its changes.
      const edit = `/setup/o/acme/data/leads/${lead.json.id}/edit`;
      assert.equal((await admin.submit(edit, edit, { last_name: 'Z' })).status, 303);
      assert.equal((await instance().call(`DELETE ${path}`, { key: acme.key })).status, 200);
      const { json } = await instance().call('POST /api/v1/leads', { key: acme.key, body: {} });
      const deletion = `/setup/o/acme/data/leads/${json.id}/delete`;
      assert.equal((await admin.submit(deletion, deletion)).status, 303);
      const made = await admin.submit('/setup/o/acme/profiles', '/setup/o/acme/profiles/create', {
        name: 'p',
      });
      assert.equal(made.status, 303);
      const session = await logIn(instance(), administratorOf(acme));
      await instance().call('POST /auth/logout-everywhere', { headers: session.byToken });
      const rows = await tablesOf(instance().database).selectFrom('crm_ledger').selectAll().execute();
      assert.deepEqual(rows, []);
    });

    test('the page says that activity is disabled', async () => {
      const other = await instance().organization('other');
      const admin = await signIn(instance(), administratorOf(other));
      assert.match(readable((await admin.get('/setup/o/other/activity')).text), /disabled in .*AUDIT=false/);
    });

    test('event subscriptions cannot be created with a command, and their page says why', async () => {
      const third = await instance().organization('third');
      const message = 'Events require the change log, which is disabled (AUDIT=false).';
      const create =
        'subscription create https://a.example/ --org third --resources leads --profile administrator';
      await assert.rejects(runCommand(instance(), create.split(' ')), { message });
      const admin = await signIn(instance(), administratorOf(third));
      assert.ok(readable((await admin.get('/setup/o/third/events')).text).includes(message));
    });
  },
  { environment: { AUDIT: 'false' } },
);

describe('activity sentences', () => {
  const of = { singular: 'price list' };
  const inGerman = { singular: 'Preisliste', language: 'de' } as const;
  for (const [sentence, action, object, objectId, options] of [
    ['Lead 5107 created', 'create', 'leads', '5107', { singular: 'lead' }],
    ['Price list 7 deleted', 'delete', 'price_lists', '7', of],
    ['Price lists exported', 'export', 'price_lists', null, of],
    ['Price list 7 moved to the trash', 'trash', 'price_lists', '7', of],
    ['Price list 7 restored', 'restore', 'price_lists', '7', of],
    ['Price list 7 deleted permanently', 'purge', 'price_lists', '7', of],
    ['Old things 7 updated', 'update', 'old_things', '7'],
    ['Old things 7: frobnicate', 'frobnicate', 'old_things', '7'],
    ['Old things 7: toString', 'toString', 'old_things', '7'],
    // A resource can have the same name as a built-in object.
    ['Invite 7 deleted', 'delete', 'invite', '7', { singular: 'invite' }],
    ['API key “Website” revoked', 'revoke', 'key', '3', { name: 'Website' }],
    ['API key “$&” created', 'create', 'key', '3', { name: '$&' }],
    ['API key 3 rotated', 'rotate', 'key', '3'],
    ['Profile “Sales” updated', 'update', 'profile', '3', { name: 'Sales' }],
    ['Member “ann@example.com” added', 'create', 'member', '3', { name: 'ann@example.com' }],
    ['Member 3 removed', 'delete', 'member', '3'],
    ['Member 3 disabled', 'disable', 'member', '3'],
    ['Password reset for member “$&”', 'reset password', 'member', '3', { name: '$&' }],
    ['Invitation 3 created', 'create', 'invite', '3'],
    ['Invitation 3 canceled', 'delete', 'invite', '3'],
    ['App “Claude” connected', 'create', 'app', '3', { name: 'Claude' }],
    ['App 3 disconnected', 'revoke', 'app', '3'],
    ['Custom field 3 restored', 'restore', 'custom field', '3'],
    ['Job 3 canceled', 'cancel', 'job', '3'],
    ['Note 3 updated', 'update', 'note', '3'],
    ['Saved view 3 deleted', 'delete', 'saved view', '3'],
    ['Member 3 enabled', 'enable', 'member', '3'],
    ['Name changed for member 3', 'rename', 'member', '3'],
    ['Password reset link created for member 3', 'create reset link', 'member', '3'],
    ['Second factor reset for member 3', 'reset second factor', 'member', '3'],
    ['Login provider unlinked for member 3', 'unlink provider', 'member', '3'],
    ['Email address verified for member 3', 'verify', 'member', '3'],
    ['Member 3 added to a team', 'join team', 'member', '3'],
    ['Member 3 removed from a team', 'leave team', 'member', '3'],
    ['Member added to team “Sales”', 'add member', 'team', '3', { name: 'Sales' }],
    ['Member removed from team 3', 'remove member', 'team', '3'],
    ['Records viewed as profile 3', 'view as', 'profile', '3'],
    ['Logged in', 'login', 'session', '3'],
    ['Logged out', 'logout', 'session', '3'],
    ['Name changed', 'change name', 'session', null],
    ['Login provider linked', 'link provider', 'session', null],
    ['Authenticator app set up', 'set up authenticator app', 'session', null],
    ['Authenticator app removed', 'remove authenticator app', 'session', null],
    ['Passkey added', 'add passkey', 'session', null],
    ['Passkey removed', 'remove passkey', 'session', null],
    ['Recovery codes created', 'create recovery codes', 'session', null],
    ['Logged out everywhere', 'logout everywhere', 'session', null],
    ['Password changed', 'change password', 'session', null],
    ['Integration 3 disabled', 'switch off', 'integration', '3'],
    ['Secrets changed for integration 3', 'change secrets', 'integration', '3'],
    ['Subscription 3 enabled', 'switch on', 'event subscription', '3'],
    ['Secret rotated for subscription 3', 'rotate', 'event subscription', '3'],
    ['Delivery 3 replayed', 'replay', 'event delivery', '3'],
    ['All failed deliveries replayed', 'replay all', 'event delivery', null],
    ['Inbox item 3 replayed', 'replay', 'inbox item', '3'],
    ['All failed inbox items replayed', 'replay all', 'inbox item', null],
    ['Organization created', 'create', 'organization', '3'],
    ['Organization updated', 'update', 'organization', '3'],
    ['Organization exported', 'export', 'organization', '3'],
    ['Person erased', 'forget', 'person', null],
    ['Preisliste 7 in den Papierkorb verschoben', 'trash', 'price_lists', '7', inGerman],
    ['Preisliste 7 wiederhergestellt', 'restore', 'price_lists', '7', inGerman],
    ['Preisliste 7 endgültig gelöscht', 'purge', 'price_lists', '7', inGerman],
    ['Mitglied „Ann“ einem Team hinzugefügt', 'join team', 'member', '3', { name: 'Ann', language: 'de' }],
    ['Auftrag 3 abgebrochen', 'cancel', 'job', '3', { language: 'de' }],
  ] as const) {
    test(sentence, () =>
      assert.equal(sentenceOf({ action, object, objectId }, { language: 'en', ...options }), sentence),
    );
  }
});
