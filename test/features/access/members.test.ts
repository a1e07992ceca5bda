// GET /auth/members: an organization's members, for callers with the grant members:list. An organization keeps an administrator.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { listRows, type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { invite, inviteRows } from '../../../plugins/access/members/invites.ts';
import { changeMember, removeMember } from '../../../plugins/access/members/members.ts';
import { profileId } from '../../../plugins/access/profiles/profiles.ts';
import { type Organization, onBothDrivers } from '../../support/instance.ts';
import { command, fresh, logIn, makePerson } from '../../support/people.ts';
import { connected } from '../../support/postgres.ts';
import { untilWaiting } from '../../support/uncommitted.ts';

onBothDrivers('GET /auth/members', (instance, driver) => {
  let acme: Organization;
  let beta: Organization;
  before(async () => {
    acme = await instance().organization('acme');
    beta = await instance().organization('beta');
    await makePerson(instance(), [{ organization: beta }]);
  });
  const call = (key: string, query = '') =>
    instance().call(`GET /auth/members${query}`, { headers: { authorization: `Bearer ${key}` } });

  test('lists only members of the caller’s organization, with names, email addresses and profiles', async () => {
    const key = await acme.keyWith([{ object: 'members', actions: ['list'] }]);
    const answer = await call(key);
    assert.equal(answer.status, 200, answer.text);
    const [member, ...others] = answer.json.data as Record<string, unknown>[];
    assert.deepEqual(others, []);
    assert.match(String(member?.since), /^\d{4}-.*Z$/);
    assert.deepEqual(member, {
      id: Number(acme.user),
      name: null,
      email: 'admin@acme.example',
      profile: 'administrator',
      since: member?.since,
    });
    assert.deepEqual([answer.json.page, answer.json.per_page], [1, 20]);
    assert.equal(answer.headers.get('cache-control'), 'no-store');
  });

  test('pages like other lists', async () => {
    const key = await acme.keyWith([{ object: 'members', actions: ['list'] }]);
    for (let count = 1; count < 21; count++) await makePerson(instance(), [{ organization: acme }]);
    const idsOn = async (page: string) => {
      const { json } = await call(key, `?page=${page}`);
      return { page: json.page, ids: (json.data as { id: number }[]).map(({ id }) => id) };
    };
    const [first, second] = [await idsOn('1'), await idsOn('2')];
    assert.deepEqual([first.ids.length, second.ids.length], [20, 1]);
    const ids = [...first.ids, ...second.ids];
    assert.deepEqual(
      ids,
      ids.toSorted((a, b) => a - b),
    );
    assert.deepEqual(await idsOn('-3'), { page: 1, ids: first.ids });
    for (const page of ['99999999999999', '9'.repeat(30)]) assert.deepEqual((await idsOn(page)).ids, []);
    const invalid = await call(key, '?page=x');
    assert.deepEqual([invalid.status, invalid.json.code], [400, 'invalid_input']);
  });

  test('requires members:list, which "*" does not include and administrators have', async () => {
    const everything = await acme.keyWith([{ object: '*', actions: ['*'] }]);
    const refused = await call(everything);
    assert.deepEqual([refused.status, refused.json.code], [403, 'forbidden']);
    assert.equal((await instance().call('GET /auth/members')).status, 401);
    const administrator = await makePerson(instance(), [{ organization: beta }]);
    const { byToken } = await logIn(instance(), administrator);
    assert.equal((await instance().call('GET /auth/members', { headers: byToken })).status, 200);
    const posted = await instance().call('POST /auth/members', { headers: byToken, body: {} });
    assert.equal(posted.status, 405);
  });

  test('pending invitations are those that can be accepted, newest first', async () => {
    const tables = tablesOf(instance().database);
    const profile = await profileId(tables, beta.id, 'read-only');
    const past = new Date(Date.now() - 1000);
    const ids: string[] = [];
    for (const values of [{ used_at: null }, { used_at: past }, { expires_at: past }, { used_at: null }]) {
      const email = `${fresh('guest')}@people.example`;
      const { id } = await transaction(instance().database, (inside) =>
        invite(inside, command(instance()), { organization: beta.id, email, profile }),
      );
      await tables.updateTable('crm_invites').set(values).where('id', '=', id).execute();
      ids.push(id);
    }
    const [first, , , last] = ids;
    const pending = await listRows(tables, inviteRows, beta.id);
    assert.deepEqual(
      pending.map(({ id }) => id),
      [last, first],
    );
    assert.deepEqual(await listRows(tables, inviteRows, acme.id), []);
  });

  if (driver === 'postgresql')
    for (const action of ['remove', 'demote'] as const)
      test(`two administrators who ${action} each other at the same time: one remains`, async () => {
        const gamma = await instance().organization(fresh('gamma'));
        const { id: other } = await makePerson(instance(), [{ organization: gamma }]);
        const profile = await profileId(tablesOf(instance().database), gamma.id, 'read-only');
        const actor = command(instance());
        const perform = (tables: Tables, user: string) =>
          action === 'remove'
            ? removeMember(tables, actor, gamma.id, user)
            : changeMember(tables, actor, gamma.id, user, profile);
        const { database, config } = instance();
        const outcomes = await connected(String(config.environment.DATABASE_URL), async (client) => {
          // Each removal ends with an entry in the change log.
          await client.query('begin; lock table crm_ledger in share mode');
          const removals = [gamma.user, other].map((user) =>
            transaction(database, (tables) => perform(tables, String(user))).then(
              () => 'done',
              ({ message }: Error) => message,
            ),
          );
          await untilWaiting(client, 'one to wait for its entry, and the other for its turn', 2);
          await client.query('rollback');
          return Promise.all(removals);
        });
        assert.deepEqual(outcomes.sort(), [
          'done',
          'this is the last administrator. Make another member an administrator first.',
        ]);
      });
});
