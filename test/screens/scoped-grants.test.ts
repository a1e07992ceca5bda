// The page of a profile with grants on scopes and field groups.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { compileGrants, everyGrant } from '../../engine/records/access.ts';
import { operationsOf } from '../../engine/records/operations.ts';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { createKey } from '../../plugins/access/api-keys/keys.ts';
import { decide } from '../../plugins/access/profiles/decision.ts';
import { type Grant, storedGrant } from '../../plugins/access/profiles/grants.ts';
import { findLostGrants } from '../../plugins/access/profiles/lost-grants.ts';
import { createProfile } from '../../plugins/access/profiles/profiles.ts';
import { administratorOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { deals } from '../support/guarded.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { command, fresh } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

let instance: Instance;
let acme: Organization;
let admin: Visitor;
before(async () => {
  instance = await startInstance('postgresql', { sources: await sourcesWith(deals) });
  acme = await instance.organization('acme');
  admin = await signIn(instance, administratorOf(acme));
});
after(() => instance.close());

const profiles = '/setup/o/acme/profiles';

/** Stores a profile with these grants, which can name scopes that do not exist. */
async function profileWith(...grants: readonly string[]) {
  const name = fresh('profile');
  const id = await transaction(instance.database, (tables) =>
    createProfile(tables, command(instance), acme.id, name, []),
  );
  for (const text of grants) {
    const [object = '', ...action] = text.split(':');
    await tablesOf(instance.database)
      .insertInto('crm_grants')
      .values({ organization_id: acme.id, profile_id: id, object, action: action.join(':') })
      .execute();
  }
  return { id, name, page: `${profiles}/change?id=${id}` };
}

const storedGrants = async (id: string) => {
  const rows = await tablesOf(instance.database)
    .selectFrom('crm_grants')
    .select(['object', 'action'])
    .where('profile_id', '=', id)
    .execute();
  return rows.map(({ object, action }) => `${object}:${action}`).sort();
};

/** Returns the checkboxes of the grants matrix, in the order of the page. */
const boxesIn = ({ text }: Pick<Answer, 'text'>) =>
  [...text.matchAll(/<input type="checkbox" name="grant" value="([^"]*)"([^>]*)>/g)].map(
    ([, value = '', more = '']) => ({
      value,
      checked: more.includes(' checked'),
      fixed: more.includes(' disabled'),
    }),
  );
const boxesOn = async (page: string) => boxesIn(await admin.get(page));

describe('the page of a profile', () => {
  test('offers the scopes of a resource, and the actions of a field group', async () => {
    const { page } = await profileWith();
    const boxes = (await boxesOn(page)).map(({ value }) => value);
    const onDeals = boxes.filter((value) => value.startsWith('deals'));
    const actions = ['list', 'read', 'create', 'update', 'delete'];
    assert.deepEqual(onDeals, [
      ...['', ':own', ':small'].flatMap((scope) => actions.map((action) => `deals:${action}${scope}`)),
      'deals.finance:read',
      'deals.finance:update',
    ]);
    assert.deepEqual(
      boxes.filter((value) => value.startsWith('*')),
      ['', ':own', ':small'].flatMap((scope) => actions.map((action) => `*:${action}${scope}`)),
    );
    assert.equal(boxes.filter((value) => value.startsWith('leads')).length, actions.length);
    const { text } = await admin.get(page);
    assert.match(readable(text), /<th scope="row">deals, only own<\/th>/);
    assert.match(readable(text), /A row with “only” limits actions to the records of a scope\./);
  });

  for (const [grants, summary, checked, fixed] of [
    [
      ['deals:read', 'deals:update:own', 'deals.finance:read'],
      'Deals: read all, update own; Deals \\(finance\\): read',
      ['deals:read', 'deals:update:own', 'deals.finance:read'],
      [],
    ],
    [
      ['*:list:own', 'deals:update:own', 'deals:update:small'],
      'Deals: list own, update own or small',
      ['*:list:own', 'deals:list:own', 'deals:update:own', 'deals:update:small'],
      ['deals:list:own'],
    ],
  ] as const)
    test(`shows ${grants.join(' ')}, and keeps them when it is saved unchanged`, async () => {
      const { id, name, page } = await profileWith(...grants);
      const list = await admin.get(`${profiles}?q=${name}`);
      assert.match(readable(list.text), new RegExp(`data-label="Grants"[^>]*>${summary}<`));
      const boxes = await boxesOn(page);
      const valuesOf = (kept: typeof boxes) => kept.map(({ value }) => value);
      assert.deepEqual(valuesOf(boxes.filter((box) => box.checked)), checked);
      assert.deepEqual(valuesOf(boxes.filter((box) => box.fixed)), fixed);
      const { text } = await admin.get(page);
      const implied = /<input type="checkbox" name="grant"[^>]* aria-label="[^"]*, granted on everything"/g;
      assert.equal(text.match(implied)?.length ?? 0, fixed.length);
      const grant = valuesOf(boxes.filter((box) => box.checked && !box.fixed));
      const saved = await admin.submit(page, `${profiles}/change`, { id, grant });
      assert.equal(saved.status, 303);
      assert.deepEqual(await storedGrants(id), [...grants].sort());
    });

  test('stores no scope for an action that is granted on all records', async () => {
    const { id, page } = await profileWith();
    const grant = ['deals:read', 'deals:read:own', 'deals:update:own', '*:delete', 'deals:delete:small'];
    assert.equal((await admin.submit(page, `${profiles}/change`, { id, grant })).status, 303);
    assert.deepEqual(await storedGrants(id), ['*:delete', 'deals:read', 'deals:update:own']);
  });

  test('rejects a scope that does not exist, and stores nothing', async () => {
    const { id, page } = await profileWith('deals:read');
    const grant = ['deals:list', '*:delete:own', 'deals:read:owm'];
    const answer = await admin.submit(page, `${profiles}/change`, { id, grant });
    assert.equal(answer.status, 400);
    assert.deepEqual(
      boxesIn(answer).flatMap(({ value, checked, fixed }) => (checked ? [[value, fixed]] : [])),
      [
        ['*:delete:own', false],
        ['deals:list', false],
        ['deals:delete:own', true],
      ],
      'the form keeps the selection',
    );
    assert.match(readable(answer.text), /deals does not define a scope "owm"\. Did you mean "own"\?/);
    assert.deepEqual(await storedGrants(id), ['deals:read']);
  });

  test('stores at most 1,000 selected grants', async () => {
    const { id, page } = await profileWith();
    const change = (count: number) =>
      admin.submit(page, `${profiles}/change`, { id, grant: Array<string>(count).fill('deals:read') });
    const rejected = await change(1001);
    assert.deepEqual([rejected.status, problemOf(rejected)], [400, 'too many grants']);
    assert.deepEqual(await storedGrants(id), []);
    assert.equal((await change(1000)).status, 303);
    assert.deepEqual(await storedGrants(id), ['deals:read']);
  });

  test('names grants that allow nothing', async () => {
    const { page } = await profileWith('deals:read:former', 'deals:list', 'rockets:read');
    const { text } = await admin.get(page);
    assert.match(readable(text), /saving removes them: deals:read:former, rockets:read\./);
  });
});

describe('crm profile test decides as the API responds, with the grants', () => {
  const operations = () =>
    operationsOf(instance.resources.find(({ name }) => name === 'deals')?.definition ?? assert.fail());
  const caller = () => ({ kind: 'key', actor: null, user: null, name: null, organization: acme.id }) as const;
  /** Returns the requests for an operation. */
  const requestsOf = ({ operation }: ReturnType<typeof operations>[number]) => {
    const { method, path, alternativeMethod } = operation;
    const requests: (readonly [method: string, path: string])[] = [[method, path]];
    if (alternativeMethod !== undefined) requests.push([alternativeMethod, '']);
    if (method === 'GET') requests.push(['HEAD', path]);
    return requests;
  };
  for (const grants of [
    [],
    ['deals:list', 'deals:read:small', 'deals:create'],
    ['deals:read', 'deals:update:small', 'deals:delete'],
    ['deals:list', 'deals:update', 'deals:delete:small', '*:read'],
    ['*:*:small'],
    ['*:*'],
  ])
    test(grants.join(' ') || 'of an empty profile', async () => {
      const other = await instance.organization(fresh('other'));
      const create = async (key: string, size: number) =>
        String((await instance.call('POST /api/v1/deals', { key, body: { size } })).json.id);
      const { key } = await limitedKey(instance, acme, grants);
      const principal = { ...caller(), grants: compileGrants(grants.map(storedGrant)) };
      const decisions = new Set<boolean>();
      for (const operation of operations())
        for (const [method, path] of requestsOf(operation)) {
          const hasId = path.includes(':id');
          const ids = hasId
            ? [
                await create(acme.key, 1),
                await create(acme.key, 99),
                await create(other.key, 1),
                '999999',
                'x',
              ]
            : [''];
          for (const id of ids) {
            const url = `/api/v1/deals${path.replace(':id', id)}`;
            const decision = await decide(instance, principal, method, url);
            const { status } = await instance.call(`${method} ${url}`, {
              key,
              headers: path === '' && /PATCH|DELETE/.test(method) ? { prefer: 'bulk' } : {},
              ...(!/GET|HEAD|DELETE/.test(method) && { body: {} }),
            });
            const rejection = status === 403 || status === 404 ? status : undefined;
            const request = `${method} ${url}: ${status}, ${decision.reason}`;
            // A merge rejects the body before it looks for the records.
            if (status === 400 && path.endsWith('merge')) assert.notEqual(decision.status, 403, request);
            else
              assert.deepEqual(
                [decision.allowed, decision.status],
                [rejection === undefined, rejection],
                request,
              );
            decisions.add(decision.allowed);
          }
        }
      assert.equal(decisions.size, grants.length === 0 ? 1 : 2);
    });

  test('requests that are not for records are rejected', async () => {
    for (const [method, path, message] of [
      ['GET', '/auth/me', /is not a path below \/api\/v1/],
      ['GET', '/api/v1', /is not a path below \/api\/v1/],
      ['GET', '/api/v1/deels', /"deels" does not exist\. Did you mean "deals"\?/],
      ['POST', '/api/v1/deals/1', /POST \/api\/v1\/deals\/1 is not an operation on deals/],
      ['QUERY', '/api/v1/deals/1', /is not an operation on deals/],
      ['POST', '/api/v1/deals/1/restore', /is not an operation on deals/],
    ] as const)
      await assert.rejects(
        decide(instance, { ...caller(), grants: everyGrant }, method, path),
        { name: 'UserError', message },
        path,
      );
  });
});

describe('stored grants that allow nothing are', () => {
  const grants = ['deals:read', 'deals:read:former', 'deals.finance:read', 'rockets:read', 'fields:read'];
  const ofDeals = ['deals.finance:read', 'deals:read', 'deals:read:former'];
  for (const [name, change, lost] of [
    ['those on an unknown object or scope', {}, ['deals:read:former', 'rockets:read']],
    [
      'not those on the former name of a renamed resource',
      { name: 'bargains', renamedFrom: 'deals' },
      ['deals:read:former', 'rockets:read'],
    ],
    ['those on the name of another resource', { name: 'bargains' }, [...ofDeals, 'rockets:read']],
    ['those on a retired resource', { isRetired: true }, [...ofDeals, 'rockets:read']],
  ] as const)
    test(name, async () => {
      const { name: profile } = await profileWith(...grants);
      const resources = instance.resources.map(({ definition, actions }) => ({
        definition: { ...definition, ...(definition.name === 'deals' && change) },
        actions,
      }));
      const all = await findLostGrants(tablesOf(instance.database), resources);
      const own = all.filter((grant) => grant.profile === profile);
      assert.deepEqual(own.map(({ grant }) => grant).sort(), [...lost].sort());
      assert.deepEqual([...new Set(own.map(({ organization }) => organization))], [acme.slug]);
    });
});

describe('an administrator whose profile has few grants', () => {
  /** Creates an organization in which administrators only have the grants `deals:read:own` and `deals:list`. */
  async function limited() {
    const organization = await instance.organization(fresh('limited'));
    const tables = tablesOf(instance.database);
    const administrators = tables
      .selectFrom('crm_profiles')
      .select('id')
      .where('organization_id', '=', organization.id)
      .where('name', '=', 'administrator');
    await tables.deleteFrom('crm_grants').where('profile_id', '=', administrators).execute();
    await tables
      .insertInto('crm_grants')
      .columns(['organization_id', 'profile_id', 'object', 'action'])
      .expression(
        administrators
          .clearSelect()
          .select(['organization_id', 'id'])
          .select((row) => [row.val('deals').as('object'), row.val('read:own').as('action')]),
      )
      .execute();
    const profileOf = (name: string, grants: readonly Grant[]) =>
      transaction(instance.database, (tables) =>
        createProfile(tables, command(instance), organization.id, name, grants),
      );
    return {
      organization: organization.id,
      setup: `/setup/o/${organization.slug}`,
      browser: await signIn(instance, administratorOf(organization)),
      own: await profileOf('own', [
        { object: 'deals', actions: ['read:own'] },
        { object: 'events', actions: ['list'] },
      ]),
      all: await profileOf('all', [{ object: 'deals', actions: ['read'] }]),
    };
  }
  const problem = /you cannot grant more than your own profile grants: (?:deals:read|members:list)\b/i;

  test('cannot create or rotate keys, invite members or change profiles with other grants', async () => {
    const { organization, setup, browser, own, all } = await limited();
    const key = { name: 'Website', expires: '90' };
    const email = `${fresh('guest')}@people.example`;
    const keyWith = (profile: string) =>
      transaction(instance.database, (tables) =>
        createKey(tables, command(instance), instance.config.keyPrefix, {
          ...{ organization, profile, name: 'Website', user: null, onBehalfOf: null, expiresAt: null },
        }),
      );
    const [ofAll, ofOwn] = [(await keyWith(all)).id, (await keyWith(own)).id];
    for (const [page, action, fields, status] of [
      [`${setup}/keys/create`, `${setup}/keys/create`, { ...key, profile: all }, 400],
      [`${setup}/keys/create`, `${setup}/keys/create`, { ...key, profile: own }, 200],
      [`${setup}/keys/rotate?id=${ofAll}`, `${setup}/keys/rotate`, { id: ofAll, overlap: '1d' }, 400],
      [`${setup}/keys/rotate?id=${ofOwn}`, `${setup}/keys/rotate`, { id: ofOwn, overlap: '1d' }, 200],
      [`${setup}/members/invite`, `${setup}/members/invite`, { email, profile: all }, 400],
      [`${setup}/members/invite`, `${setup}/members/invite`, { email, profile: own }, 200],
      [
        `${setup}/profiles/change?id=${own}`,
        `${setup}/profiles/change`,
        { id: own, grant: ['deals:read'] },
        400,
      ],
      [
        `${setup}/profiles/change?id=${own}`,
        `${setup}/profiles/change`,
        { id: own, grant: ['members:list'] },
        400,
      ],
      [
        `${setup}/profiles/change?id=${own}`,
        `${setup}/profiles/change`,
        { id: own, grant: ['deals:read:own'] },
        303,
      ],
    ] as const) {
      const answer = await browser.submit(page, action, fields);
      assert.equal(answer.status, status, `${action}: ${readable(answer.text)}`);
      if (status === 400) assert.match(readable(answer.text), problem);
    }
  });
});
