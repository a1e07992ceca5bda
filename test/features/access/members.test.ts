// GET /auth/members: an organization's members, for callers with the grant members:list.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Organization, onBothDrivers } from '../../support/instance.ts';
import { logIn, makePerson } from '../../support/people.ts';

onBothDrivers('GET /auth/members', (instance) => {
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
    assert.deepEqual((await idsOn('99999999999999')).ids, []);
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
});
