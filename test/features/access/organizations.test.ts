// Request authorization: the caller (key, cookie or token), the organization named by `org`, and the grant.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { allows } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/handle.ts';
import type { Grant } from '../../../plugins/access/profiles/grants.ts';
import { alignIds } from '../../support/ids.ts';
import { type Answer, type Organization, onBothDrivers } from '../../support/instance.ts';
import { fresh, type LoggedIn, logIn, makePerson, soonerThan, told } from '../../support/people.ts';
import { assertErrorShape } from '../../support/scenario.ts';

type Way = 'cookie' | 'token' | 'key';
type Which = 'none' | 'one' | 'several';
const all: readonly Grant[] = [{ object: 'leads', actions: ['*'] }];
const reading: readonly Grant[] = [{ object: 'leads', actions: ['list', 'read'] }];

const unauthenticated = 'Missing or invalid credentials';
const bearerNeeded = 'Send the key as "Authorization: Bearer <key>"';
const noMember = 'You are not a member of this organization';
const needed = 'org is required because you belong to several organizations';
const once = 'org must not be repeated';
const notGranted = (action: string) =>
  `Your profile does not grant ${action} on leads. An administrator can add the grant leads:${action}.`;

onBothDrivers('organizations', (instance) => {
  const organizations: Record<string, Organization> = {};
  /** IDs of one lead per organization, by slug. */
  const leads: Record<string, string> = {};
  const people: Record<string, LoggedIn> = {};
  const keys: Record<string, string> = {};
  before(async () => {
    for (const slug of ['acme', 'beta', 'other']) {
      const organization = await instance().organization(slug);
      organizations[slug] = organization;
      const lead = await instance().call('POST /api/v1/leads', {
        key: organization.key,
        body: { last_name: `of ${slug}` },
      });
      leads[slug] = String(lead.json.id);
    }
    const { acme = assert.fail(), beta = assert.fail() } = organizations;
    const person = async (...parts: Parameters<typeof makePerson>[1]) =>
      logIn(instance(), await makePerson(instance(), parts));
    people['none all'] = await person();
    people['none reading'] = people['none all'];
    people['one all'] = await person({ organization: acme, grants: all });
    people['one reading'] = await person({ organization: acme, grants: reading });
    people['one nothing'] = await person({ organization: acme, grants: [] });
    people['several all'] = await person(
      { organization: acme, grants: all },
      { organization: beta, grants: all },
    );
    people['several reading'] = await person(
      { organization: acme, grants: reading },
      { organization: beta, grants: reading },
    );
    people['several mixed'] = await person(
      { organization: acme, grants: all },
      { organization: beta, grants: reading },
    );
    keys['one all'] = await acme.keyWith(all);
    keys['one reading'] = await acme.keyWith(reading);
    keys['one nothing'] = await acme.keyWith([]);
  });

  const credentials = (way: Way, who: string): Record<string, string> => {
    if (way === 'key') return { authorization: `Bearer ${keys[who]}` };
    return { ...people[who]?.[way === 'cookie' ? 'byCookie' : 'byToken'] };
  };
  const writes = (method: string) => method !== 'GET' && method !== 'HEAD';
  const call = (method: string, path: string, headers: Record<string, string>) =>
    instance().call(`${method} ${path}`, {
      headers,
      ...(writes(method) && method !== 'DELETE' ? { body: { last_name: 'New' } } : {}),
    });
  const missingLead = 'Lead not found in your organization';
  const refusedWith = (answer: Answer, status: number, error: string) => {
    assert.deepEqual([answer.status, answer.json.error], [status, error]);
    assertErrorShape(answer);
  };

  /**
   * Query strings, and the outcome for users with no organization, one, and several: a slug or an error
   * message.
   */
  const situations: readonly [query: string, ...Record<Which, string>[]][] = [
    ['', { none: noMember, one: 'acme', several: needed }],
    ['?org=', { none: noMember, one: 'acme', several: needed }],
    ['?org', { none: noMember, one: 'acme', several: needed }],
    ['?ORG=acme', { none: noMember, one: 'acme', several: needed }],
    ['?org=acme', { none: noMember, one: 'acme', several: 'acme' }],
    ['?org=%61cme', { none: noMember, one: 'acme', several: 'acme' }],
    ['?org=beta', { none: noMember, one: noMember, several: 'beta' }],
    ['?org=other', { none: noMember, one: noMember, several: noMember }],
    ['?org=unknown', { none: noMember, one: noMember, several: noMember }],
    ['?org=ACME', { none: noMember, one: noMember, several: noMember }],
    ['?org=acme%20', { none: noMember, one: noMember, several: noMember }],
    ['?org=acme,beta', { none: noMember, one: noMember, several: noMember }],
    ['?org=%00', { none: noMember, one: noMember, several: noMember }],
    ['?org=__proto__', { none: noMember, one: noMember, several: noMember }],
    ['?org=1', { none: noMember, one: noMember, several: noMember }],
    [`?org=${'a'.repeat(5000)}`, { none: noMember, one: noMember, several: noMember }],
    ['?org=acme&org=acme', { none: once, one: once, several: once }],
    ['?org=acme&org=beta', { none: once, one: once, several: once }],
  ];
  const statusOf: Readonly<Record<string, number>> = { [noMember]: 403, [needed]: 400, [once]: 400 };

  for (const way of ['cookie', 'token'] as const) {
    for (const which of ['none', 'one', 'several'] as const) {
      describe(`by ${way}, member of ${which}`, () => {
        for (const [query, expected] of situations) {
          const outcome = expected?.[which] ?? '';
          const status = statusOf[outcome];
          test(`${query.slice(0, 40) || 'no org'} → ${status ?? outcome}`, async () => {
            const headers = credentials(way, `${which} all`);
            const answer = await call('GET', `/api/v1/leads${query}`, headers);
            const write = await call('POST', `/api/v1/leads${query}`, credentials(way, `${which} reading`));
            if (status !== undefined) {
              refusedWith(answer, status, outcome);
              refusedWith(write, status, outcome);
              return;
            }
            assert.equal(answer.status, 200, answer.text);
            const names = (answer.json.data as { last_name: string }[]).map((lead) => lead.last_name);
            assert.ok(names.includes(`of ${outcome}`), answer.text);
            assert.ok(!names.some((name) => name.startsWith('of ') && name !== `of ${outcome}`), answer.text);
            refusedWith(write, 403, notGranted('create'));

            const own = await call('GET', `/api/v1/leads/${leads[outcome]}${query}`, headers);
            assert.equal(own.status, 200);
            for (const [slug, id] of Object.entries(leads)) {
              if (slug === outcome) continue;
              refusedWith(await call('GET', `/api/v1/leads/${id}${query}`, headers), 404, missingLead);
            }
          });
        }
      });
    }
  }

  describe('by key, org is ignored', () => {
    for (const [query] of situations) {
      test(query.slice(0, 40) || 'no org', async () => {
        const list = await call('GET', `/api/v1/leads${query}`, credentials('key', 'one all'));
        assert.equal(list.status, 200, list.text);
        assert.ok(list.text.includes('of acme') && !/of (beta|other)/.test(list.text), list.text);
        const write = await call('POST', `/api/v1/leads${query}`, credentials('key', 'one reading'));
        refusedWith(write, 403, notGranted('create'));
      });
    }
  });

  describe('grants', () => {
    const operations: readonly [method: string, path: string, action: string][] = [
      ['GET', '/api/v1/leads', 'list'],
      ['GET', '/api/v1/leads/{id}', 'read'],
      ['POST', '/api/v1/leads', 'create'],
      ['PUT', '/api/v1/leads/{id}', 'update'],
      ['DELETE', '/api/v1/leads/{id}', 'delete'],
    ];
    for (const way of ['key', 'cookie', 'token'] as const) {
      for (const [method, path, action] of operations) {
        const granted = { nothing: false, reading: action === 'list' || action === 'read', all: true };
        for (const [grants, allowed] of Object.entries(granted)) {
          test(`${action} by ${way} with ${grants} → ${allowed ? '2xx' : 403}`, async () => {
            const { acme = assert.fail() } = organizations;
            const { json } = await instance().call('POST /api/v1/leads', {
              key: acme.key,
              body: { last_name: 'Old' },
            });
            const headers = credentials(way, `one ${grants}`);
            for (const [id, exists] of [
              [String(json.id), true],
              [String(leads.other), false],
              ['999999999', false],
            ] as const) {
              const answer = await call(method, path.replace('{id}', id), headers);
              // Without the grant, the response does not reveal whether the record exists.
              if (!allowed) refusedWith(answer, 403, notGranted(action));
              else if (!exists && path.includes('{id}')) refusedWith(answer, 404, missingLead);
              else assert.equal(answer.status, method === 'POST' ? 201 : 200, answer.text);
            }
          });
        }
      }
    }

    test("uses the user's profile in the named organization, not in another one", async () => {
      for (const way of ['cookie', 'token'] as const) {
        const headers = credentials(way, 'several mixed');
        assert.equal((await call('POST', '/api/v1/leads?org=acme', headers)).status, 201);
        refusedWith(await call('POST', '/api/v1/leads?org=beta', headers), 403, notGranted('create'));
      }
    });

    test('are checked before the body is parsed', async () => {
      const answer = await instance().call('POST /api/v1/leads', {
        body: '{',
        headers: credentials('token', 'one reading'),
      });
      refusedWith(answer, 403, notGranted('create'));
    });
  });

  test('the caller of a job has the grants of its own kind and organization, as long as it has access', async () => {
    const { acme = assert.fail(), beta = assert.fail(), other = assert.fail() } = organizations;
    await alignIds(instance(), ['crm_users', 'crm_api_keys']);
    await instance().organization(fresh('first'));
    const person = await makePerson(instance(), [
      { organization: acme, grants: all },
      { organization: beta, grants: reading },
    ]);
    const { id } = await acme.makeKey({ profile: 'read-only' });
    assert.equal(id, person.id, 'the key and the user have the same ID');
    const grantsOf = async (kind: 'user' | 'key', { id: organization }: Organization) => {
      const caller = await instance().app.principalAgain({ kind, actor: id, organization });
      if (caller === undefined) return 'no access';
      assert.deepEqual([caller.kind, caller.actor, caller.organization], [kind, id, organization]);
      assert.equal(caller.user, kind === 'user' ? id : null);
      return (['list', 'create'] as const).filter((action) => allows(caller.grants, 'leads', action));
    };
    const callers = async () => [
      await grantsOf('user', acme),
      await grantsOf('user', beta),
      await grantsOf('key', acme),
      await grantsOf('user', other),
      await grantsOf('key', beta),
    ];
    const ofKey = ['list'];
    assert.deepEqual(await callers(), [['list', 'create'], ['list'], ofKey, 'no access', 'no access']);
    const tables = tablesOf(instance().database);
    await tables.updateTable('crm_users').set({ disabled_at: new Date() }).where('id', '=', id).execute();
    for (const organization of [acme, beta])
      await soonerThan(1000, async () => (await grantsOf('user', organization)) === 'no access');
    assert.deepEqual(await callers(), ['no access', 'no access', ofKey, 'no access', 'no access']);
    for (const values of [{ expires_at: new Date(Date.now() - 1) }, { revoked_at: new Date() }]) {
      const none = { expires_at: null, revoked_at: null };
      const set = (columns: typeof none | typeof values) =>
        tables.updateTable('crm_api_keys').set(columns).where('id', '=', id).execute();
      await set(values);
      await soonerThan(1000, async () => (await grantsOf('key', acme)) === 'no access');
      await set(none);
      await soonerThan(1000, async () => (await grantsOf('key', acme)) !== 'no access');
    }
  });

  describe('Authorization takes precedence over the cookie, even if it is invalid', () => {
    const bearers: readonly [name: string, authorization: () => string, status: number, text?: string][] = [
      ['a key', () => `Bearer ${keys['one all']}`, 200],
      ['another person’s token', () => `${people['one reading']?.byToken.authorization}`, 200],
      ['an invalid key', () => 'Bearer crm_0000000000_x', 401],
      ['a key with an extra character', () => `Bearer ${keys['one all']}0`, 401],
      ['a token after the key prefix', () => `Bearer crm_${people['one all']?.token}`, 401],
      ['an invalid token', () => 'Bearer a.b.c', 401],
      ['the cookie’s value', () => `Bearer ${people['one all']?.cookie}`, 401],
      ['Basic', () => 'Basic YTpi', 401, bearerNeeded],
      ['an empty header', () => '', 401, bearerNeeded],
      ['no token', () => 'Bearer', 401],
      ['two tokens', () => `Bearer ${keys['one all']} ${keys['one all']}`, 401],
    ];
    for (const [name, authorization, status, text = unauthenticated] of bearers) {
      test(`${name} with a valid cookie → ${status}`, async () => {
        const cookie = credentials('cookie', 'several all');
        const headers = { ...cookie, authorization: authorization() };
        const answer = await call('GET', '/api/v1/leads', headers);
        if (status === 401) {
          // The response is the same without the cookie.
          assert.deepEqual(
            told(answer),
            told(await call('GET', '/api/v1/leads', { authorization: authorization() })),
          );
          refusedWith(answer, 401, text);
        } else assert.equal(answer.status, status, 'the cookie alone would return 400');
      });
    }

    test('accepts cross-site writes with a key or token, because browsers never add them automatically', async () => {
      for (const way of ['key', 'token'] as const) {
        const headers = {
          ...credentials(way, 'one all'),
          cookie: String(people['one all']?.byCookie.cookie),
          'sec-fetch-site': 'cross-site',
          origin: 'https://elsewhere.example',
        };
        assert.equal((await call('POST', '/api/v1/leads', headers)).status, 201, way);
      }
    });
  });

  describe('accepts writes with a cookie only from pages of this origin', () => {
    const here = () => instance().url;
    const port = () => new URL(here()).port;
    const cases: readonly [name: string, headers: () => Record<string, string>, allowed: boolean][] = [
      ['Sec-Fetch-Site: same-origin', () => ({ 'sec-fetch-site': 'same-origin' }), true],
      ['Sec-Fetch-Site: same-site', () => ({ 'sec-fetch-site': 'same-site' }), false],
      ['Sec-Fetch-Site: cross-site', () => ({ 'sec-fetch-site': 'cross-site' }), false],
      ['Sec-Fetch-Site: none', () => ({ 'sec-fetch-site': 'none' }), false],
      ['Sec-Fetch-Site: empty', () => ({ 'sec-fetch-site': '' }), false],
      ['Sec-Fetch-Site: SAME-ORIGIN', () => ({ 'sec-fetch-site': 'SAME-ORIGIN' }), false],
      ['cross-site with our Origin', () => ({ 'sec-fetch-site': 'cross-site', origin: here() }), false],
      ['neither header', () => ({}), false],
      ['our Origin', () => ({ origin: here() }), true],
      ['our Origin at a proxy with TLS', () => ({ origin: here().replace('http:', 'https:') }), true],
      ['Origin: null', () => ({ origin: 'null' }), false],
      ['Origin: empty', () => ({ origin: '' }), false],
      ['another Origin', () => ({ origin: 'https://elsewhere.example' }), false],
      ['our host on another port', () => ({ origin: 'http://127.0.0.1:1' }), false],
      ['our host without port', () => ({ origin: 'http://127.0.0.1' }), false],
      ['a host that starts with ours', () => ({ origin: `${here()}.elsewhere.example` }), false],
      ['our host as user', () => ({ origin: `http://127.0.0.1:${port()}@elsewhere.example` }), false],
      ['not a URL', () => ({ origin: `127.0.0.1:${port()}` }), false],
      ['our Referer', () => ({ referer: `${here()}/setup` }), false],
    ];
    for (const [name, headers, allowed] of cases) {
      test(`${name} → ${allowed ? 'written' : 403}`, async () => {
        const { acme = assert.fail() } = organizations;
        const make = () =>
          instance().call('POST /api/v1/leads', { key: acme.key, body: { last_name: 'Old' } });
        const path = `/api/v1/leads/${(await make()).json.id}`;
        const cookie = { cookie: String(people['one all']?.byCookie.cookie), ...headers() };
        const before = (await call('GET', path, cookie)).text;
        assert.match(before, /Old/, 'reads are always allowed');
        assert.equal((await call('HEAD', path, cookie)).status, 200);
        const writes = [
          ['POST', '/api/v1/leads', 201],
          ['PUT', path, 200],
          ['DELETE', path, 200],
        ] as const;
        for (const [method, where, status] of writes) {
          const answer = await call(method, where, cookie);
          if (allowed) assert.equal(answer.status, status, answer.text);
          else {
            refusedWith(
              answer,
              403,
              'Writes with a session cookie are only allowed from pages of this origin',
            );
            assert.equal((await call('GET', path, cookie)).text, before);
          }
        }
      });
    }
  });
});
